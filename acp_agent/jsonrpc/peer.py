"""Bidirectional JSON-RPC: answers requests of the other end, and sends requests to it.

It tracks the requests in flight in both directions, their cancellation, and the end of the connection. This is the only
place where an exception becomes an error response.

Source: https://www.jsonrpc.org/specification
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio

from acp_agent.jsonrpc.messages import (
    CANCEL_METHOD,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    InvalidMessageError,
    JsonObject,
    JsonValue,
    PeerClosedError,
    Request,
    RequestId,
    Response,
    RpcError,
    encode,
    error_object,
    parse,
)
from acp_agent.jsonrpc.outbox import Outbox
from acp_agent.jsonrpc.router import Call, Handler, Router
from acp_agent.jsonrpc.transport import Transport

ReadParams: TypeAlias = Callable[[str, JsonObject], Awaitable[Any]]
"""Validates the params of a method and returns them as its handler takes them; raises if they are invalid."""

_log = logging.getLogger(__name__)


class _Pending:
    """A request of ours that waits for its response."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.response: Response | None = None  # still None when `answered` is set: the connection has ended


class Peer:
    """Serves one end of a JSON-RPC connection. Create it inside a running event loop.

    :param transport: moves the lines; `run` closes it.
    :param error_mapper: converts an exception to the error that is sent. It is also called for a notification's
        exception, so that it can be logged.
    :param on_end: called once the connection has ended, before pending requests fail: it can cancel work that is only
        for the other end, before that work gets a PeerClosedError.
    :ivar notify: sends a notification; see `Outbox.notify`. What one task sends stays in order, and before the response
        that it returns.
    :ivar background: runs what outlives the request that has started it; cancelled when the connection has ended.
    """

    def __init__(
        self,
        transport: Transport,
        error_mapper: Callable[[Exception], RpcError],
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._transport = transport
        self._error_mapper = error_mapper
        self._on_end = on_end
        self._outbox = Outbox(transport)
        self.notify = self._outbox.notify
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._in_flight: dict[RequestId, Call] = {}
        self._running: set[Call] = set()
        self._closed = False
        self._reading = anyio.CancelScope()
        self._calls = anyio.create_task_group()
        self.background = anyio.create_task_group()
        self.serve({})

    def serve(self, handlers: Mapping[str, Handler], read_params: ReadParams | None = None) -> None:
        """Answer these methods from the next line on, and no others.

        :param read_params: validates the params of each; awaited before the next line is read. None leaves them as
            they came.
        """
        self._router = Router({CANCEL_METHOD: self._cancel, **handlers})
        self._read_params = read_params

    async def run(self) -> None:
        """Serve until the other end closes its side, stops reading, or `close` is called, and `background` has ended.

        Then requests of ours that wait for an answer fail with PeerClosedError, calls that run here are cancelled,
        what can still be written is written, and the transport is closed.
        """
        try:
            async with self.background:
                self.background.start_soon(self._outbox.run, self.close)
                try:
                    async with self._calls:
                        try:
                            with self._reading:
                                await self._read()
                        finally:
                            self._disconnect()
                finally:
                    self._outbox.finish()
                    self.background.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()

    def close(self) -> None:
        """End the connection: `run` returns as if the other end had closed it."""
        self._closed = True
        self._reading.cancel()

    async def request(self, method: str, params: JsonObject, *, timeout: float | None = None) -> JsonValue:
        """Send a request and wait for its response.

        If the caller is cancelled or the time is up, `$/cancel_request` is sent, and a late response is ignored.

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
        line = encode(id=request_id, method=method, params=params)
        pending = self._pending[request_id] = _Pending()
        sent = False
        try:
            with anyio.fail_after(timeout):
                await self._outbox.send(line)
                sent = True
                await pending.answered.wait()
        finally:
            del self._pending[request_id]
            if sent and not pending.answered.is_set():
                # Without waiting for room: the task is being cancelled. There is at most one for each request.
                self._outbox.force(encode(method=CANCEL_METHOD, params={"requestId": request_id}))
        if pending.response is None:
            raise PeerClosedError(f"The connection has ended; {method} was not answered.")
        if pending.response.error is not None:
            raise pending.response.error
        return pending.response.result

    async def _read(self) -> None:
        """Handle messages to the end of the stream, so that all calls begin in the order of the wire."""
        while True:
            try:
                line = await self._transport.read_line()
                if line is None:
                    return
                message = parse(line) if line.strip() else None
            except InvalidMessageError as error:
                self._outbox.force(encode(id=error.request_id, error=error_object(error)))
                continue
            match message:
                case Response(id=int(id)) if pending := self._pending.get(id):
                    pending.response = message
                    pending.answered.set()
                case Request():
                    try:
                        self._calls.start_soon(self._run_call, *await self._begin(message))
                    except Exception as error:
                        self._refuse(message, error)
                case _:
                    pass  # a late answer, or one to nothing: some clients answer notifications with id null

    async def _begin(self, request: Request) -> tuple[Call, Awaitable[JsonValue]]:
        """Read the params of a request and call its handler, whose outcome is to be awaited.

        :raises RpcError: there is no such method, or the id is taken.
        """
        if not request.is_notification and request.id in self._in_flight:
            raise RpcError(INVALID_REQUEST, f"A request with the id {request.id!r} is still being answered.")
        handler, call = self._router.find(request), Call(request)
        params = call.params if self._read_params is None else await self._read_params(call.method, call.params)
        outcome = handler(call, params)
        self._running.add(call)
        if not call.is_notification:
            self._in_flight[call.id] = call
        return call, outcome

    def _refuse(self, request: Request, error: Exception) -> None:
        failure = self._error_mapper(error)
        _log.debug("%s was not started: %s", request.method, failure)
        if not request.is_notification:
            self._outbox.force(encode(id=request.id, error=error_object(failure)))

    async def _run_call(self, call: Call, outcome: Awaitable[JsonValue]) -> None:
        answer: bytes | None = None
        failure = RpcError(REQUEST_CANCELLED, "The request was cancelled.")
        try:
            with call.scope:
                answer = encode(id=call.id, result=await outcome)
        except Exception as error:  # with `_refuse` the only place where one becomes an error on the wire
            failure = self._error_mapper(error)
        if not call.is_notification:
            await self._outbox.send(answer or encode(id=call.id, error=error_object(failure)))
            del self._in_flight[call.id]
        if answer is not None and not self._closed:
            with anyio.CancelScope() as call.scope:
                for follower in call.followers:
                    try:
                        await follower()
                    except Exception as error:  # the request is answered; one must not stop the next
                        self._error_mapper(error)
        self._running.discard(call)

    async def _cancel(self, call: Call, params: JsonObject) -> JsonValue:
        """Cancel the request that is named; one that is not in flight was answered already, which is no error."""
        request_id = params.get("requestId")
        named = self._in_flight.get(request_id) if isinstance(request_id, int | str) else None
        if named is not None:
            named.request_cancel()
        return None

    def _disconnect(self) -> None:
        self._closed = True
        if self._on_end is not None:
            self._on_end()
        for pending in self._pending.values():
            pending.answered.set()
        self._outbox.drain()
        for call in self._running:
            call.scope.cancel()
