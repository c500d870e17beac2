"""Bidirectional JSON-RPC: answers calls from the other end, and sends requests and
notifications.

It tracks the requests in flight in both directions, their cancellation, and the end of
the connection. This is the only place where an exception becomes an error response.

Source: https://www.jsonrpc.org/specification
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from acp_agent.jsonrpc.messages import (
    CANCEL_METHOD,
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
from acp_agent.jsonrpc.router import IncomingCall
from acp_agent.jsonrpc.transport import Transport

_log = logging.getLogger(__name__)


class Peer:
    """One end of a JSON-RPC connection. Its owner calls the handlers. Create it inside
    a running event loop.

        async with peer.open() as tasks:
            while (call := await peer.next_call()) is not None:
                tasks.start_soon(peer.answer, call, handle(call))

    :param transport: sends and receives the lines; leaving `open` closes it.
    :param error_mapper: converts an exception to the error to send. It is also called
        for exceptions in notifications, so that it can log them.
    :ivar notify: sends a notification; see `Outbox.notify`. Messages from one task stay
        in order, and precede the response that the task returns.
    :ivar background: a task group for tasks that outlive the request that started them;
        cancelled when the connection ends.
    """

    def __init__(
        self, transport: Transport, error_mapper: Callable[[Exception], RpcError]
    ) -> None:
        self._transport = transport
        self._error_mapper = error_mapper
        self._outbox = Outbox(transport)
        self.notify = self._outbox.notify
        self._pending: dict[int, anyio.Event] = {}
        self._responses: dict[int, Response] = {}
        self._last_id = 0
        self._in_flight: dict[RequestId, IncomingCall] = {}
        self._running: set[IncomingCall] = set()
        self._closed = False
        self._reading = anyio.CancelScope()
        self.background = anyio.create_task_group()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TaskGroup]:
        """Serve the connection until the body ends. The body is cancelled by `close`,
        or if the other end stops reading.

        After that, our pending requests fail with PeerClosedError, running calls are
        cancelled, the outgoing queue is flushed for a short time, and the transport is
        closed once `background` has ended.

        :returns: the task group for answering calls.
        """
        try:
            async with self.background:
                self.background.start_soon(self._outbox.run, self._reading)
                try:
                    async with anyio.create_task_group() as calls:
                        try:
                            with self._reading:
                                yield calls
                        finally:
                            self._closed = True
                            for answered in self._pending.values():
                                answered.set()
                            self._outbox.drain()
                            for call in self._running:
                                call.scope.cancel()
                finally:
                    self._outbox.finish()
                    self.background.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()

    def close(self) -> None:
        """End the connection as if the other end had closed it."""
        self._closed = True
        self._reading.cancel()

    async def request(
        self, method: str, params: JsonObject, *, timeout: float | None = None
    ) -> JsonValue:
        """Send a request and wait for its response.

        If the caller is cancelled or the timeout expires, `$/cancel_request` is sent,
        and a late response is ignored.

        :param timeout: in seconds; None to wait until the connection ends.
        :returns: the result.
        :raises RpcError: if the other end answers with an error.
        :raises PeerClosedError: if the connection has ended.
        :raises TimeoutError: if there is no answer in time.
        """
        if self._closed:
            raise PeerClosedError(f"The connection has ended; {method} was not sent.")
        self._last_id += 1
        request_id = self._last_id
        line = encode(id=request_id, method=method, params=params)
        answered = self._pending[request_id] = anyio.Event()
        sent = False
        try:
            with anyio.fail_after(timeout):
                await self._outbox.send(line)
                sent = True
                await answered.wait()
        finally:
            del self._pending[request_id]
            response = self._responses.pop(request_id, None)
            if sent and not answered.is_set():
                # Do not wait for room, since the task is being cancelled. There is at
                # most one such line per request.
                self._outbox.force(
                    encode(method=CANCEL_METHOD, params={"requestId": request_id})
                )
        if response is None:
            raise PeerClosedError(
                f"The connection has ended; {method} was not answered."
            )
        if response.error is not None:
            raise response.error
        return response.result

    async def next_call(self) -> IncomingCall | None:
        """Wait for the next request or notification. Return None once the other end has
        closed its side.

        Calls are returned in the order of the wire. Responses in between go to the
        requests that wait for them.
        """
        while True:
            try:
                line = await self._transport.read_line()
                if line is None:
                    return None
                message = parse(line) if line.strip() else None
                if (
                    isinstance(message, Request)
                    and not message.is_notification
                    and message.id in self._in_flight
                ):
                    text = (
                        f"A request with the id {message.id!r} is still being answered."
                    )
                    raise InvalidMessageError(text, message.id)
            except InvalidMessageError as error:
                self._outbox.force(
                    encode(id=error.request_id, error=error_object(error))
                )
                continue
            match message:
                case Response(id=int(id)) if answered := self._pending.get(id):
                    self._responses[id] = message
                    answered.set()
                case Request():
                    call = IncomingCall(message)
                    self._running.add(call)
                    if not call.is_notification:
                        self._in_flight[call.id] = call
                    return call
                case _:
                    pass  # a late or unexpected answer: some clients answer notifications with ID null

    def refuse(self, call: IncomingCall, error: Exception) -> None:
        """Answer a call with an error, without waiting, because its handler was not
        called or failed immediately.
        """
        failure = self._error_mapper(error)
        _log.debug("%s was not started: %s", call.method, failure)
        if not call.is_notification:
            self._outbox.force(encode(id=call.id, error=error_object(failure)))
            del self._in_flight[call.id]
        self._running.discard(call)

    async def answer(self, call: IncomingCall, outcome: Awaitable[JsonValue]) -> None:
        """Answer a call with the result or exception of its handler, then run the
        callbacks that follow the response.

        :param outcome: the awaitable that the handler returned.
        """
        answer: bytes | None = None
        failure = RpcError(REQUEST_CANCELLED, "The request was cancelled.")
        try:
            with call.scope:
                answer = encode(id=call.id, result=await outcome)
        except (
            Exception
        ) as error:  # only here and in `refuse` do exceptions become error responses
            failure = self._error_mapper(error)
        if not call.is_notification:
            await self._outbox.send(
                answer or encode(id=call.id, error=error_object(failure))
            )
            del self._in_flight[call.id]
        if answer is not None and not self._closed:
            with anyio.CancelScope() as call.scope:
                for follower in call.followers:
                    try:
                        await follower()
                    except Exception as error:  # the request is answered, and the next callback still runs
                        self._error_mapper(error)
        self._running.discard(call)

    async def cancel(self, call: IncomingCall, params: JsonObject) -> JsonValue:
        """Handle `$/cancel_request`: cancel the named request unless it has already
        been answered.
        """
        request_id = params.get("requestId")
        named = (
            self._in_flight.get(request_id)
            if isinstance(request_id, int | str)
            else None
        )
        if named is not None:
            named.request_cancel()
        return None
