"""Bidirectional JSON-RPC: answers requests of the other end, and sends requests to it.

It tracks the requests in flight in both directions, their cancellation, and the end of the connection. This is the only
place where an exception becomes an error response.

Source: https://www.jsonrpc.org/specification
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import cast

import anyio

from acp_agent.jsonrpc.messages import (
    CANCEL_METHOD,
    INTERNAL_ERROR,
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
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    parse,
)
from acp_agent.jsonrpc.outbox import Outbox
from acp_agent.jsonrpc.router import Call, Handler, Router
from acp_agent.jsonrpc.transport import Transport

_log = logging.getLogger(__name__)


class _Pending:
    """A request of ours that waits for its response."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.response: Response | None = None  # None once answered: the connection has ended


def _internal_error(error: Exception) -> RpcError:
    """Return the plain form of an unexpected exception: its own text and no traceback."""
    return RpcError(INTERNAL_ERROR, str(error) or type(error).__name__)


class Peer:
    """One end of a JSON-RPC connection. To be created where an event loop runs.

    :param transport: moves the lines; `run` closes it.
    :param handlers: what can be asked of this end; see `serve`.
    :param error_mapper: makes of an exception that a handler did not expect what the other end gets. It is also called
        for a notification's exception, so that it can be logged.
    :param on_end: called once the connection has ended, before pending requests fail: it can cancel work that is only
        for the other end, so that this does not fail.
    :ivar notify: sends a notification; see `Outbox.notify`. What one task sends stays in order, and before the response
        that it returns.
    """

    def __init__(
        self,
        transport: Transport,
        handlers: Mapping[str, Handler],
        *,
        error_mapper: Callable[[Exception], RpcError] = _internal_error,
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
        self._running: set[anyio.CancelScope] = set()
        self._closed = False
        self._reading = anyio.CancelScope()
        self._tasks = anyio.create_task_group()
        self.serve(handlers)

    def serve(self, handlers: Mapping[str, Handler]) -> None:
        """Answer these methods from the next line on, and no others."""
        self._router = Router({CANCEL_METHOD: self._cancel, **handlers})

    async def run(self) -> None:
        """Serve until the other end closes its side, stops reading, or `close` is called.

        Then requests of ours that wait for an answer fail with PeerClosedError, calls that run here are cancelled,
        what can still be written is written, and the transport is closed.
        """
        try:
            async with anyio.create_task_group() as writer:
                writer.start_soon(self._outbox.run, self.close)
                try:
                    async with self._tasks:
                        try:
                            with self._reading:
                                await self._read()
                        finally:
                            self._disconnect()
                finally:
                    self._outbox.finish()
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
        line = encode_request(request_id, method, params)
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
                self._outbox.force(encode_notification(CANCEL_METHOD, {"requestId": request_id}))
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
                self._outbox.force(encode_error(error.request_id, error))
                continue
            match message:
                case Response(id=int(id)) if pending := self._pending.get(id):
                    pending.response = message
                    pending.answered.set()
                case Request():
                    try:
                        self._tasks.start_soon(self._run_call, self._bind(message))
                    except RpcError as error:
                        _log.debug("%s was not started: %s", message.method, error)
                        if not message.is_notification:
                            self._outbox.force(encode_error(message.id, error))
                case _:
                    pass  # a late answer, or one to nothing: some clients answer notifications with id null

    def _bind(self, request: Request) -> Call:
        """Bind a request to its handler.

        :raises RpcError: there is no such method, or its id is taken.
        """
        if not request.is_notification and request.id in self._in_flight:
            raise RpcError(INVALID_REQUEST, f"A request with the id {request.id!r} is still being answered.")
        call = self._router.bind(request)
        self._running.add(call.scope)
        if not call.is_notification:
            self._in_flight[call.id] = call
        return call

    async def _run_call(self, call: Call) -> None:
        answer: bytes | None = None
        failure = RpcError(REQUEST_CANCELLED, "The request was cancelled.")
        try:
            try:
                with call.scope:
                    assert call.outcome is not None
                    answer = encode_result(call.id, await call.outcome)
            except Exception as error:  # the single place where one becomes an error on the wire
                failure = self._to_wire(error)
            if not call.is_notification:
                await self._outbox.send(encode_error(call.id, failure) if answer is None else answer)
        finally:
            self._running.discard(call.scope)
            if not call.is_notification:
                del self._in_flight[call.id]
        if answer is None or not call.followers or self._closed:
            return
        with anyio.CancelScope() as scope:
            self._running.add(scope)
            for follower in call.followers:
                try:
                    await follower()
                except Exception as error:  # the request is answered; one must not stop the next
                    self._to_wire(error)
        self._running.discard(scope)

    async def _cancel(self, call: Call, params: JsonObject) -> JsonValue:
        """Cancel the request that is named; one that is not in flight was answered already, which is no error."""
        request_id = params.get("requestId")
        named = self._in_flight.get(request_id) if isinstance(request_id, int | str) else None
        if named is not None:
            named.request_cancel()
        return None

    def _to_wire(self, error: Exception) -> RpcError:
        """Return what the other end gets for an exception, or for what a task group wrapped, if it is one alone."""
        if not isinstance(error, ExceptionGroup):
            return error if isinstance(error, RpcError) else self._error_mapper(error)
        group = cast("ExceptionGroup[Exception]", error)
        return self._to_wire(group.exceptions[0]) if len(group.exceptions) == 1 else self._error_mapper(group)

    def _disconnect(self) -> None:
        self._closed = True
        if self._on_end is not None:
            self._on_end()
        for pending in self._pending.values():
            pending.answered.set()
        self._outbox.drain()
        for scope in self._running:
            scope.cancel()
