"""The transports of a connection to an MCP server that is no program: HTTP, server-sent events, the editor's own.

Over an editor's connection goes MCP without a handshake (2026-07-28) and nothing older: requests one way, their
responses and notifications the other.

Model Context Protocol, "Transports" and "Subscriptions"; ACP's unstable schema, `mcp/message`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import cast

import anyio
import httpx2
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import JsonObject, JsonValue, new_id
from acp_agent.errors import ToolError
from acp_agent.mcp.model import McpChannel, ServerGoneError
from acp_agent.mcp.watch import Streams, Watch

_CONNECT_SECONDS = 30.0


@asynccontextmanager
async def over_http(server: McpServer, watch: Watch) -> AsyncGenerator[Streams]:
    """Speak streamable HTTP."""
    async with (
        _web_client(server.headers, watch) as client,
        streamable_http_client(server.url, http_client=client) as (incoming, to_server),
        _inspected(incoming, watch) as received,
    ):
        yield received, to_server  # pyright: ignore[reportReturnType]


@asynccontextmanager
async def over_sse(server: McpServer, watch: Watch) -> AsyncGenerator[Streams]:
    """Speak HTTP with server-sent events, as older servers do."""

    def client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return _web_client(server.headers, watch)

    async with (
        sse_client(server.url, httpx_client_factory=client) as (incoming, to_server),
        _inspected(incoming, watch) as received,
    ):
        yield received, to_server  # pyright: ignore[reportReturnType]


@asynccontextmanager
async def over_acp(server_id: str, channel: McpChannel, watch: Watch) -> AsyncGenerator[Streams]:
    """Speak with a server that the editor itself is."""
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with to_session, sent, received, to_server, anyio.create_task_group() as tasks:
        requests = _EditorRequests(server_id, channel, watch, to_session, tasks)

        async def carry() -> None:
            async for message in sent:
                requests.take(message.message)

        tasks.start_soon(carry)
        try:
            yield received, to_server
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _inspected(
    incoming: AsyncIterable[SessionMessage | Exception], watch: Watch
) -> AsyncGenerator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def forward() -> None:
        async with to_session:
            async for message in incoming:
                watch.inspect(message)
                await to_session.send(message)
            watch.lost.set()

    async with anyio.create_task_group() as tasks, received:
        tasks.start_soon(forward)
        try:
            yield received
        finally:
            tasks.cancel_scope.cancel()


def _web_client(headers: Mapping[str, str], watch: Watch) -> httpx2.AsyncClient:
    # A stream may be silent for hours; each request has a limit of its own.
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
    return httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks={"response": [watch.note]})


class _EditorRequests:
    """The requests to one of an editor's servers that are under way.

    :param tasks: each request has a task of its own, so that cancelling one takes back that one alone.
    """

    def __init__(
        self,
        server_id: str,
        channel: McpChannel,
        watch: Watch,
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
        tasks: TaskGroup,
    ) -> None:
        self._server_id = server_id
        self._channel = channel
        self._watch = watch
        self._to_session = to_session
        self._tasks = tasks
        self._running: dict[types.RequestId, anyio.CancelScope] = {}
        self._undiscovered = _internal_error("it did not answer in time")

    def take(self, message: types.JSONRPCMessage) -> None:
        """Send a request on, or cancel one."""
        if isinstance(message, types.JSONRPCRequest):
            scope = self._running[message.id] = anyio.CancelScope()
            self._tasks.start_soon(self._ask, message, scope)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = self._running.get((message.params or {}).get("requestId", ""))
            if cancelled is not None:
                cancelled.cancel()

    async def _ask(self, request: types.JSONRPCRequest, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                response = SessionMessage(await self._response(request))
                self._watch.inspect(response)
                await self._to_session.send(response)
        finally:
            del self._running[request.id]

    async def _response(self, request: types.JSONRPCRequest) -> types.JSONRPCResponse | types.JSONRPCError:
        if request.method == "initialize":  # the SDK's next try where `server/discover` failed; there is no handshake
            return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=self._undiscovered)
        # The SDK counts its requests anew in each connection; the id of a subscription is unique in the process.
        request_id = request.id if isinstance(request.id, str) else new_id("mcp")
        params = cast("JsonObject | None", request.params)
        result: JsonValue = None
        try:
            outcome = await self._channel.ask(self._server_id, request_id, request.method, params, self._notified)
            error = None if outcome.error is None else types.ErrorData.model_validate(outcome.error)
            result = outcome.result
        except ToolError as failure:
            if isinstance(failure, ServerGoneError):
                self._watch.reason = str(failure)
                self._watch.lost.set()
            error = _internal_error(str(failure))
        if error is None and not isinstance(result, dict):
            error = _internal_error("what it answered is not what the protocol says")
        if request.method == "server/discover":
            unknown = _internal_error("it speaks no version of MCP that goes over the editor's connection")
            self._undiscovered = error or unknown
        if error is not None:
            return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=cast("dict[str, JsonValue]", result))

    def _notified(self, method: str, params: JsonObject | None) -> None:
        more = {} if params is None else {"params": params}
        message = types.JSONRPCNotification.model_validate({"jsonrpc": "2.0", "method": method, **more})
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the connection is being closed
            self._to_session.send_nowait(SessionMessage(message))


def _internal_error(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INTERNAL_ERROR, message=message)
