"""The transport of a connection to an MCP server that the editor itself is: requests of the SDK over an `McpChannel`.

MCP without a handshake (2026-07-28) is all that goes over it: requests one way, and back their answers and what is said
while one is worked on. Imports `mcp`, and is imported where a session has such a server.

ACP's unstable schema, `mcp/message`; Model Context Protocol 2026-07-28, "Transports" and "Subscriptions".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import cast

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from acp_agent.conversation.messages import JsonObject, JsonValue, new_id
from acp_agent.errors import ToolError
from acp_agent.tools.mcp_channel import McpChannel, ServerGoneError
from acp_agent.tools.mcp_transports import Seen, Streams
from mcp import types

MAX_HEARD = 1_000
"""What a server may say faster than it is taken; more is dropped, since the editor's lines are not to wait."""
_PASSING = frozenset({"notifications/progress", "notifications/message"})
"""Dropped first: what comes next says the same anew. The others have as much room again for themselves."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def over_acp(server_id: str, channel: McpChannel, seen: Seen) -> AsyncGenerator[Streams]:
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](2 * MAX_HEARD)
    to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with to_session, sent, received, to_server, anyio.create_task_group() as tasks:
        carrier = _Carrier(server_id, channel, seen, to_session, tasks)

        async def carry() -> None:
            async for message in sent:
                carrier.take(message.message)

        tasks.start_soon(carry)
        try:
            yield received, to_server
        finally:
            tasks.cancel_scope.cancel()


class _Carrier:
    """The requests that are under way.

    :param tasks: each request has a task in it, so that its cancel takes back this one alone.
    """

    def __init__(
        self,
        server_id: str,
        channel: McpChannel,
        seen: Seen,
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
        tasks: TaskGroup,
    ) -> None:
        self._server_id = server_id
        self._channel = channel
        self._seen = seen
        self._to_session = to_session
        self._tasks = tasks
        self._running: dict[types.RequestId, anyio.CancelScope] = {}
        self._warned = False
        self._undiscovered = types.ErrorData(code=types.INTERNAL_ERROR, message="it did not answer in time")

    def take(self, message: types.JSONRPCMessage) -> None:
        """Send a message of the SDK's on, or do what it asks for."""
        if isinstance(message, types.JSONRPCRequest):
            scope = self._running[message.id] = anyio.CancelScope()
            self._tasks.start_soon(self._ask, message, scope)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            scope = self._running.get((message.params or {}).get("requestId", ""))
            if scope is not None:
                scope.cancel()

    async def _ask(self, request: types.JSONRPCRequest, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                answer = SessionMessage(await self._answer(request))
                self._seen.look(answer)
                await self._to_session.send(answer)
        finally:
            del self._running[request.id]

    async def _answer(self, request: types.JSONRPCRequest) -> types.JSONRPCResponse | types.JSONRPCError:
        if request.method == "initialize":  # the SDK's next try, for which there is no message here
            return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=self._undiscovered)
        # The SDK counts its requests anew in each connection. A subscription's id, which its events carry, is a text
        # that is used once in the process.
        request_id = request.id if isinstance(request.id, str) else new_id("mcp")
        params = cast("JsonObject | None", request.params)
        try:
            outcome = await self._channel.ask(self._server_id, request_id, request.method, params, self._hear)
            error = None if outcome.error is None else types.ErrorData.model_validate(outcome.error)
        except ToolError as failure:
            if isinstance(failure, ServerGoneError):
                self._seen.broken = str(failure)
                self._seen.lost.set()
            outcome, error = None, types.ErrorData(code=types.INTERNAL_ERROR, message=str(failure))
        result = outcome.result if outcome is not None else None
        if error is None and not isinstance(result, dict):
            error = types.ErrorData(code=types.INTERNAL_ERROR, message="what it answered is not what the protocol says")
        if request.method == "server/discover":
            self._undiscovered = error or types.ErrorData(
                code=types.INTERNAL_ERROR, message="it speaks no version of MCP that goes over the editor's connection"
            )
        if error is not None:
            return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=cast("dict[str, JsonValue]", result))

    def _hear(self, method: str, params: JsonObject | None) -> None:
        more = {} if params is None else {"params": params}
        room = MAX_HEARD if method in _PASSING else 2 * MAX_HEARD
        if self._to_session.statistics().current_buffer_used >= room:
            if not self._warned:
                self._warned = True
                _log.warning("an MCP server of the editor's says too much at a time: some of it is dropped")
            return
        message = types.JSONRPCNotification.model_validate({"jsonrpc": "2.0", "method": method, **more})
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the connection is being closed
            self._to_session.send_nowait(SessionMessage(message))
