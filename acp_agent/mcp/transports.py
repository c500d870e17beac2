"""The network and editor transports of a connection to an MCP server, and the `Watch`
of a connection.

An editor's connection carries only MCP without a handshake (2026-07-28): requests in
one direction, and their responses and notifications in the other.

Model Context Protocol, "Transports" and "Subscriptions"; ACP's unstable schema,
`mcp/message`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError, types
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import JsonObject, new_id
from acp_agent.errors import ToolError
from acp_agent.mcp.bounds import ACCEPTED, MAX_MESSAGE, bound_response
from acp_agent.mcp.flow import CountedStream, Intake
from acp_agent.mcp.model import McpChannel, ServerGoneError
from acp_agent.tools.path_errors import because
from acp_agent.tools.text import one_line

Received: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]
]
"""The streams that a transport gives to the SDK: messages from the server, and messages
to it.
"""
CONNECT_SECONDS = 30.0
UNTRUSTED = (
    "its certificate is not trusted. If the certificate is your own or belongs to a proxy in between, set SSL_CERT_FILE"
    " to a PEM file of the certificates to trust, and restart the agent"
)
_LOST = ("Connection closed", "SSE stream ended")
"""Prefixes of the messages of errors that the SDK itself raises, rather than the
server.
"""
_MOST_WAITING = 1_000
"""Maximum number of waiting notifications from an editor's server. Further ones are
dropped, which `Watch` records.
"""
_INVALID = "its answer does not follow the protocol"


class Watch:
    """Watches one connection: whether it is lost, why a call failed, and whether the
    lists must be read again.

    :ivar lost: set when the server is gone. Only the transport sets it, since a server
        may answer a request with any error code.
    :ivar changed: set when the server reports that one of its lists has changed;
        replaced when the lists are read.
    :ivar reason: why the connection is lost; empty if the transport does not know.
    :ivar status: the status of the last HTTP response; 0 if there was none.
    :ivar overrun: set when a notification from the server is dropped.
    """

    def __init__(self) -> None:
        self.lost = anyio.Event()
        self.changed = anyio.Event()
        self.overrun = anyio.Event()
        self.reason = ""
        self.status = 0

    def drop(self) -> None:
        """Record that a notification was dropped. It may have reported a changed list,
        so the lists are read again.
        """
        self.overrun.set()
        self.changed.set()

    async def note(self, response: httpx2.Response) -> None:
        """Record an HTTP response."""
        self.status = response.status_code
        request = response.request
        if request.method != "POST" or "mcp-session-id" not in request.headers:
            return
        # In the protocol, 404 means that the server has forgotten the session; older
        # servers answer with 400.
        if self.status == 404 or (
            self.status == 400 and b"session" in (await response.aread()).lower()
        ):
            self.reason = "it no longer knows the session"
            self.lost.set()

    def why(self, error: BaseException) -> str:
        """Return why something failed, without URLs and headers."""
        if self.reason:
            return self.reason
        leaves = leaves_of(error)
        words = (said for leaf in leaves if (said := self._words(leaf)))
        return next(words, f"{type(leaves[0]).__name__} in the communication with it")

    def is_unanswered(self, error: BaseException) -> bool:
        """Return whether a request that failed with this error may still have been
        carried out.
        """
        return self.lost.is_set() or any(map(self._is_open, leaves_of(error)))

    def _is_open(self, error: BaseException) -> bool:
        match error:
            case MCPError():
                is_status = error.code == types.INTERNAL_ERROR and self.status >= 500
                # Servers also use this code for other purposes.
                is_lost = (
                    error.code == types.CONNECTION_CLOSED
                    and error.message.startswith(_LOST)
                )
                return is_status or is_lost
            case (
                httpx2.ConnectError()
                | httpx2.ConnectTimeout()
                | httpx2.PoolTimeout()
                | httpx2.HTTPStatusError()
            ):
                return False
            case httpx2.HTTPError() | OSError():
                return True
            case _:
                return False

    def _words(self, error: BaseException) -> str:
        match error:
            case ToolError():
                return str(error)
            case MCPError() if (
                self.status >= 300 and error.code == types.INTERNAL_ERROR
            ):
                return _answered(self.status)
            case MCPError():
                return (
                    one_line(error.message, 400)
                    or f"it answered with error {error.code}"
                )
            case httpx2.ConnectError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
                return UNTRUSTED
            case httpx2.ConnectError():
                return "nothing is listening at its address"
            case httpx2.HTTPStatusError():
                return _answered(error.response.status_code)
            case httpx2.TimeoutException() | TimeoutError():
                return "it did not answer in time"
            case ValidationError():
                return _INVALID
            case httpx2.HTTPError():
                return f"the connection broke ({type(error).__name__})"
            case OSError():
                return (
                    f"{because(error)}: {error.filename}"
                    if error.filename
                    else because(error)
                )
            case RuntimeError() | ValueError():
                return one_line(str(error), 400)
            case _:
                return ""


def _answered(status: int) -> str:
    more = (
        "; add a valid token to the headers in its entry"
        if status in (401, 403)
        else ""
    )
    return f"it answered with HTTP status {status}{more}"


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return the errors in a group and its nested groups."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [leaf for each in group.exceptions for leaf in leaves_of(each)]
    return [error]


@asynccontextmanager
async def inspected(transport: Transport, watch: Watch) -> AsyncGenerator[Any]:
    """Connect over a transport, detect when it ends, limit what the server sends (see
    `flow`), and repair tool lists (see `_mend_tools`).
    """
    intake = Intake()

    async def forward() -> None:
        async with to_session:
            try:
                async for message in incoming:
                    if not isinstance(message, SessionMessage):
                        await to_session.send(message)
                    elif await intake.admits(message):
                        if isinstance(message.message, types.JSONRPCResponse):
                            _mend_tools(message.message.result)
                        await to_session.send(message)
            except ToolError as error:
                watch.reason = str(error)
            watch.lost.set()

    async with transport as (incoming, to_server):
        to_session, received = anyio.create_memory_object_stream[Received](0)
        async with to_session, received, anyio.create_task_group() as tasks:
            tasks.start_soon(forward)
            try:
                yield received, CountedStream(to_server, intake)
            finally:
                tasks.cancel_scope.cancel()


def _mend_tools(result: dict[str, Any]) -> None:
    """Prevent one malformed tool from making the whole list invalid, and remove the
    output schemas.

    The SDK checks results against the patterns of an output schema with Python's `re`,
    which may never finish. The model gets every result unchecked.
    """
    tools = result.get("tools")
    if not isinstance(tools, list):
        return
    kept: list[dict[str, object]] = []
    for tool in cast("list[object]", tools):
        mended = (
            _mended_tool(cast("dict[str, object]", tool))
            if isinstance(tool, dict)
            else None
        )
        if mended is not None:
            kept.append(mended)
    result["tools"] = kept


def _mended_tool(tool: dict[str, object]) -> dict[str, object] | None:
    """Return a tool that the SDK accepts; None if it has no name.

    Members that violate the protocol are left out. If that is not enough, all optional
    members are left out.
    """
    if not isinstance(tool.get("name"), str):
        return None
    mended = {key: value for key, value in tool.items() if key != "outputSchema"}
    mended["inputSchema"] = _mended_schema(mended.get("inputSchema"))
    for key, kind in (
        ("description", str),
        ("title", str),
        ("annotations", dict),
        ("_meta", dict),
    ):
        if not isinstance(mended.get(key), kind):
            mended.pop(key, None)
    try:
        types.Tool.model_validate(mended)
    except ValidationError:
        return {
            key: value
            for key, value in mended.items()
            if key in ("name", "description", "inputSchema")
        }
    return mended


def _mended_schema(schema: object) -> dict[str, object]:
    """Return a schema whose members have the types that the SDK checks. The `schemas`
    package rewrites the whole schema later.
    """
    mended: dict[str, object] = {
        "type": "object",
        **(cast("dict[str, object]", schema) if isinstance(schema, dict) else {}),
    }
    mended["type"] = "object"  # the arguments of a call are always an object
    for key, kind in (("properties", dict), ("required", list), ("$schema", str)):
        if not isinstance(mended.get(key), kind):
            mended.pop(key, None)
    if "properties" in mended:
        properties = cast("dict[str, object]", mended["properties"])
        mended["properties"] = {
            name: value if isinstance(value, dict) else {}
            for name, value in properties.items()
        }
    if "required" in mended:
        mended["required"] = [
            name
            for name in cast("list[object]", mended["required"])
            if isinstance(name, str)
        ]
    return mended


@asynccontextmanager
async def over_http(server: McpServer, watch: Watch) -> AsyncGenerator[Any]:
    """Connect to a server over streamable HTTP."""
    # Each request has its own time limit.
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
    client = httpx2.AsyncClient(
        headers={**ACCEPTED, **server.headers},
        timeout=timeout,
        event_hooks={"response": [bound_response, watch.note]},
    )
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=2 * MAX_MESSAGE
        ) as streams,
    ):
        yield streams


def over_sse(server: McpServer) -> Transport:
    """Connect to a server over HTTP with server-sent events, the older transport."""

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        hooks = {"response": [bound_response]}
        return httpx2.AsyncClient(
            headers=headers, timeout=timeout, auth=auth, event_hooks=hooks
        )

    return sse_client(
        server.url,
        {**ACCEPTED, **server.headers},
        timeout=CONNECT_SECONDS,
        sse_read_timeout=math.inf,  # a live server may be silent for hours
        httpx_client_factory=client,
    )


@asynccontextmanager
async def over_acp(
    server_id: str, channel: McpChannel, watch: Watch
) -> AsyncGenerator[Streams]:
    """Connect to a server that the editor itself provides."""
    to_session, received = anyio.create_memory_object_stream[Received](_MOST_WAITING)
    to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)
    running: dict[types.RequestId, anyio.CancelScope] = {}

    def notified(method: str, params: JsonObject | None) -> None:
        more = {} if params is None else {"params": params}
        # The connection is being closed.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            try:
                to_session.send_nowait(_message(method=method, **more))
            except anyio.WouldBlock:
                watch.drop()

    async def ask(request: types.JSONRPCRequest, scope: anyio.CancelScope) -> None:
        # The SDK numbers requests per connection, but the id of a subscription is
        # unique in the process.
        request_id = request.id if isinstance(request.id, str) else new_id("mcp")
        params = cast("JsonObject | None", request.params)
        with scope:
            try:
                response = await channel.ask(
                    server_id, request_id, request.method, params, notified
                )
                message = _message(id=request.id, **response)
            except (ToolError, ValidationError) as error:
                text = str(error) if isinstance(error, ToolError) else _INVALID
                if (
                    isinstance(error, ServerGoneError)
                    or request.method == "server/discover"
                ):
                    watch.reason = text
                if isinstance(error, ServerGoneError):
                    watch.lost.set()
                message = _error(request, text)
            await to_session.send(message)
        del running[request.id]

    async def carry() -> None:
        async for sent_message in sent:
            message = sent_message.message
            if (
                isinstance(message, types.JSONRPCNotification)
                and message.method == "notifications/cancelled"
            ):
                if cancelled := running.get(
                    (message.params or {}).get("requestId", "")
                ):
                    cancelled.cancel()
            elif (
                isinstance(message, types.JSONRPCRequest)
                and message.method == "initialize"
            ):
                # The SDK tries this if `server/discover` failed, but this transport has
                # no handshake.
                unknown = "it supports no version of MCP that works over the editor's connection"
                await to_session.send(_error(message, unknown))
            elif isinstance(message, types.JSONRPCRequest):
                # Each request can be cancelled individually.
                scope = running[message.id] = anyio.CancelScope()
                tasks.start_soon(ask, message, scope)

    async with (
        to_session,
        sent,
        received,
        to_server,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(carry)
        try:
            yield received, to_server
        finally:
            tasks.cancel_scope.cancel()


def _message(**members: object) -> SessionMessage:
    return SessionMessage(
        types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **members})
    )


def _error(request: types.JSONRPCRequest, message: str) -> SessionMessage:
    return _message(
        id=request.id, error={"code": types.INTERNAL_ERROR, "message": message}
    )
