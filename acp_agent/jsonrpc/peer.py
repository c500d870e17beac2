"""Two-way JSON-RPC: answers what the other end asks, and asks it in turn.

Owns the requests in flight in both directions, cancellation, batches, the order of what goes out, and the end of the
connection. Here is the only place where an exception becomes an error on the wire. Does not know what any method
means, nor where the bytes go.

Source: https://www.jsonrpc.org/specification
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import anyio
import anyio.abc

from acp_agent.jsonrpc.batch import Answer, Batch
from acp_agent.jsonrpc.framing import LineTooLongError
from acp_agent.jsonrpc.loading import Held, LoadingLine
from acp_agent.jsonrpc.messages import (
    CANCEL_METHOD,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
    PeerClosedError,
    Rejected,
    Request,
    RequestId,
    Response,
    RpcError,
    classify,
    decode,
    encode,
    encode_error,
    error_message,
    internal_error,
    notification_message,
    only_cause,
    request_message,
    result_message,
)
from acp_agent.jsonrpc.outbox import Merge, Outbox
from acp_agent.jsonrpc.router import AfterResponse, Call, Router
from acp_agent.jsonrpc.stdio import Transport

MAX_RUNNING_CALLS = 4_000
"""Calls that may run at a time, and errors that may wait to be sent; memory is bounded though a client sends more."""

FINAL_WRITE_SECONDS = 0.05
"""How long the end of the connection waits for a client that does not read what is left."""

logger = logging.getLogger(__name__)


class _Pending:
    """A request of ours that waits for its response."""

    __slots__ = ("answered", "response")

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.response: Response | None = None  # None once answered: the connection has ended


class Peer:
    """One end of a JSON-RPC connection. To be created where an event loop runs.

    :param transport: moves the lines; `run` closes it.
    :param router: what can be asked of this end.
    :param on_end: called once the connection has ended, before whoever waits for an answer learns of it: work that is
        for the other end alone can be cancelled then, and does not fail.
    :ivar ended: set once the connection has ended; `run` may still be writing what is left.
    :param error_mapper: says what an exception that a handler did not expect looks like on the wire. It is also
        called for a notification's exception, which nobody is told about, so that it can be logged.
    """

    def __init__(
        self,
        transport: Transport,
        router: Router,
        *,
        error_mapper: Callable[[Exception], RpcError] = internal_error,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._transport = transport
        self._router = router
        self._error_mapper = error_mapper
        self._on_end = on_end
        self._outbox = Outbox()
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._in_flight: dict[RequestId, Call] = {}
        self._running: set[anyio.CancelScope] = set()
        self._loading = LoadingLine(router.to_load, self._take, MAX_RUNNING_CALLS)
        self._waiting_errors = 0
        self._closed = False
        self.ended = anyio.Event()
        self._reading = anyio.CancelScope()
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Serve until the other end closes its side, stops listening, or `close` is called.

        Then requests of ours that wait for an answer fail with PeerClosedError, calls that run here are cancelled,
        what can still be written is written, and the transport is closed.
        """
        try:
            async with anyio.create_task_group() as writer:
                stop_writing = anyio.CancelScope(shield=True)  # a line once begun is finished
                writer.start_soon(self._write, stop_writing)
                try:
                    async with anyio.create_task_group() as self._tasks:
                        try:
                            with self._reading:
                                await self._read()
                        finally:
                            self._disconnect()
                finally:
                    with anyio.move_on_after(FINAL_WRITE_SECONDS, shield=True):
                        await self._outbox.flush()
                    self._outbox.close()
                    stop_writing.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()

    def close(self) -> None:
        """End the connection: `run` returns as if the other end had closed it."""
        self._closed = True
        self._reading.cancel()

    async def notify(self, method: str, params: JsonObject, *, merge: Merge | None = None) -> None:
        """Send a notification: wait for room in the outgoing queue, not for the write. Vanishes once the connection
        has ended. Everything that one task sends stays in order, and before the response that it returns.

        :param merge: may join the params of the notification that stands last in the queue with these, when both are
            of the same method and were sent with a `merge`: returns the params to send instead, or None. What it
            returns must be of bounded size (some KiB), since it is sent instead of waiting for room.
        :raises TypeError: when `params` hold something that JSON does not have.
        """
        await self._outbox.put_notification(method, params, merge)

    async def request(self, method: str, params: JsonObject, *, timeout: float | None = None) -> JsonValue:
        """Ask the other end. When the caller is cancelled or runs out of time, it is told so by `$/cancel_request`,
        and a late answer is ignored.

        :param timeout: seconds; without one, wait until the connection ends.
        :returns: the result.
        :raises RpcError: what the other end answered.
        :raises PeerClosedError: the connection has ended.
        :raises TimeoutError: no answer in time.
        """
        if self._closed:
            raise PeerClosedError(f"The connection has ended; {method} was not sent.")
        self._last_id += 1
        request_id = self._last_id
        line = encode(request_message(request_id, method, params))
        pending = self._pending[request_id] = _Pending()
        sent = False
        try:
            with anyio.fail_after(timeout):
                await self._outbox.put(line)
                sent = True
                await pending.answered.wait()
        finally:
            del self._pending[request_id]
            if sent and not pending.answered.is_set():
                # Without waiting for room: the task is being cancelled. There is at most one for each request.
                self._outbox.force(encode(notification_message(CANCEL_METHOD, {"requestId": request_id})))
        if pending.response is None:
            raise PeerClosedError(f"The connection has ended; {method} was not answered.")
        if pending.response.error is not None:
            raise pending.response.error
        return pending.response.result

    async def flush(self) -> None:
        """Wait until everything that was sent so far is written, or the connection has ended."""
        await self._outbox.flush()

    async def _read(self) -> None:
        while True:
            try:
                line = await self._transport.read_line()
            except LineTooLongError as error:
                self._send_soon(error_message(None, RpcError(INVALID_REQUEST, str(error))))
                continue
            if line is None:
                return
            if line and not line.isspace():
                self._receive(line)

    def _receive(self, line: bytes) -> None:
        try:
            message = decode(line)
        except RpcError as error:
            self._send_soon(error_message(None, error))
            return
        if not isinstance(message, list):
            self._accept(message, None, 0)
        elif message:
            batch = Batch(len(message))
            for index, element in enumerate(message):
                self._accept(element, batch, index)
        else:
            self._send_soon(error_message(None, RpcError(INVALID_REQUEST, "A batch must not be empty.")))

    def _accept(self, value: JsonValue, batch: Batch | None, index: int) -> None:
        """Take one message in. Nothing here waits, so that all of it happens in the order of the wire."""
        message = classify(value)
        match message:
            case Response():
                self._resolve(message)
                self._settle(None, batch, index)
            case Rejected():
                self._settle(error_message(message.id, message.error), batch, index)
            case Request():
                if self._loading.admit(Held(message, batch, index)) and self._tasks is not None:
                    self._tasks.start_soon(self._load, self._new_scope())

    async def _load(self, scope: anyio.CancelScope) -> None:
        try:
            await self._loading.run(scope)
        finally:
            self._running.discard(scope)

    def _new_scope(self) -> anyio.CancelScope:
        """One that the end of the connection cancels."""
        scope = anyio.CancelScope()
        self._running.add(scope)
        return scope

    def _take(self, held: Held) -> None:
        """Go on with a request whose turn it is."""
        request = held.request
        try:
            if request.method != CANCEL_METHOD:
                self._start(request, held.batch, held.index)
                return
            self._cancel(request.params)
            answer = result_message(request.id, None)
        except RpcError as error:
            logger.debug("%s was not started: %s", request.method, error)
            answer = error_message(request.id, error)
        self._settle(None if request.is_notification else answer, held.batch, held.index)

    def _settle(self, answer: JsonObject | None, batch: Batch | None, index: int) -> None:
        """A message was dealt with at once; this is the answer, where it has one."""
        line = None if answer is None else encode(answer)
        if batch is not None:
            whole = batch.settle(index, Answer(line, ()))
            line = whole.line if whole is not None else None
        if line is not None:
            self._send_line_soon(line)

    def _resolve(self, response: Response) -> None:
        # An unknown id is a late answer, or an answer to nothing: some clients answer notifications with id null.
        if isinstance(response.id, int) and (pending := self._pending.get(response.id)) is not None:
            pending.response = response
            pending.answered.set()

    def _cancel(self, params: JsonObject) -> None:
        """Take back the request that is named; one that is not in flight has been answered, which is no error.

        :raises RpcError: -32602 where none is named.
        """
        request_id = params.get("requestId")
        if "requestId" not in params or isinstance(request_id, bool) or not isinstance(request_id, int | str | None):
            raise RpcError(INVALID_PARAMS, f"Invalid params for {CANCEL_METHOD}: requestId: must be a request's id.")
        if self._tasks is not None and request_id in self._in_flight:
            # In a task, which begins after the call's own: by then the handler had its chance to take cancels over.
            self._tasks.start_soon(self._deliver_cancel, self._in_flight[request_id])

    async def _deliver_cancel(self, call: Call) -> None:
        if self._in_flight.get(call.id) is call:
            try:
                call.request_cancel()
            except Exception as error:  # a handler's hook must not end the connection
                self._to_wire(error)
                call.scope.cancel()

    def _start(self, request: Request, batch: Batch | None, index: int) -> None:
        """Bind a call and start its task.

        :raises RpcError: when there is no such call, or too many.
        """
        if self._closed:
            raise RpcError(REQUEST_CANCELLED, "The request was cancelled.")
        if not request.is_notification and request.id in self._in_flight:
            raise RpcError(INVALID_REQUEST, f"A request with the id {request.id!r} is still being answered.")
        if self._tasks is None or len(self._running) + len(self._loading) >= MAX_RUNNING_CALLS:
            raise RpcError(INTERNAL_ERROR, "Too many requests at a time. Wait for some to be answered.")
        call = self._router.bind(request)
        self._running.add(call.scope)
        if not call.is_notification:
            self._in_flight[call.id] = call
        self._tasks.start_soon(self._run_call, call, batch, index)

    async def _run_call(self, call: Call, batch: Batch | None, index: int) -> None:
        try:
            answer: Answer | None = await self._answer(call)
            if batch is not None:
                answer = batch.settle(index, answer)
            if answer is not None and answer.line is not None:
                await self._outbox.put(answer.line)
        finally:
            self._running.discard(call.scope)
            if not call.is_notification:
                del self._in_flight[call.id]
        if answer is not None and answer.followers and not self._closed:
            await self._follow(answer.followers)

    async def _answer(self, call: Call) -> Answer:
        """Run a call to its end. The single place where an exception becomes an error on the wire."""
        try:
            with call.scope:
                result = await call.result()
                line = None if call.is_notification else encode(result_message(call.id, result))
                return Answer(line, call.followers)
        except Exception as error:  # nothing else turns one into an answer
            failure = self._to_wire(error)
        else:
            failure = RpcError(REQUEST_CANCELLED, "The request was cancelled.")
        return Answer(None if call.is_notification else encode_error(call.id, failure), ())

    async def _follow(self, followers: Sequence[AfterResponse]) -> None:
        scope = self._new_scope()
        try:
            with scope:
                for follower in followers:
                    try:
                        await follower()
                    except Exception as error:  # the request is answered; one must not stop the next
                        self._to_wire(error)
        finally:
            self._running.discard(scope)

    def _to_wire(self, error: Exception) -> RpcError:
        error = only_cause(error)
        if isinstance(error, RpcError):
            return error
        try:
            return self._error_mapper(error)
        except Exception:  # the last resort
            return internal_error(error)

    async def _write(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                while (data := await self._outbox.take()) is not None:
                    await self._transport.write(data)
                    self._outbox.mark_written()
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._outbox.close()
                self.close()

    def _send_soon(self, message: JsonObject) -> None:
        self._send_line_soon(encode(message))

    def _send_line_soon(self, line: bytes) -> None:
        """Send what the read loop found, without having it wait for a client that does not read."""
        if not self._outbox.offer(line) and self._tasks is not None and self._waiting_errors < MAX_RUNNING_CALLS:
            self._waiting_errors += 1
            self._tasks.start_soon(self._send_late, line)

    async def _send_late(self, line: bytes) -> None:
        try:
            await self._outbox.put(line)
        finally:
            self._waiting_errors -= 1

    def _disconnect(self) -> None:
        self._closed = True
        self.ended.set()
        if self._on_end is not None:
            self._on_end()
        for pending in self._pending.values():
            pending.answered.set()
        self._outbox.drain()
        for scope in self._running:
            scope.cancel()
