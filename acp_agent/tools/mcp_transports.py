"""The transports of a connection to an MCP server, and what is known of one beside what the SDK says of it.

Knows where a failure came from, and says so in words that hold no header and no key. Imports `mcp`, and is
imported with `mcp.py` alone.

Model Context Protocol, "Transports".
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError
from acp_agent.tools.mcp_lists import leave_out_odd, leave_out_output_schemas
from acp_agent.tools.mcp_offer import ListName
from acp_agent.tools.mcp_stdio import ServerProcess
from acp_agent.tools.text import one_line
from mcp import MCPError, types

LOGIN = (401, 403)
"""HTTP statuses of a server that wants to know who asks."""
NOT_TAKEN = object()
"""The data of an error of what was not taken, which no server can send."""
Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

_CONNECT_SECONDS = 30.0
_REFUSAL_BYTES = 65_536
"""Of a body that is read for why a request was refused."""
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_ID = rb'"id"\s*:\s*(?P<id>\d{1,15}|"[^"\\\\]{1,200}")\s*'
_ANSWER = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb',\s*"(?:result|error)"')
_ANSWER_AT_END = re.compile(
    rb'\s*\{\s*"(?:result|error)".*"jsonrpc"\s*:\s*"2\.0"\s*,\s*' + _ID + rb"\}\s*\Z", re.DOTALL
)
"""The beginning and the end of what is to be an answer, in the order in which the SDKs write it."""

_log = logging.getLogger(__name__)


class Seen:
    """What is known of a connection beside what the SDK says of it.

    :ivar status: of the last HTTP answer; 0 where there was none.
    :ivar version: of the protocol, once it is agreed on.
    :ivar left_out: names of what it lists and nobody could read.
    :ivar broken: why nothing more is heard, where no process tells by its end; empty where that is not so.
    :ivar forgotten: what a server on the network has not taken, by its id, since it does not know the session any more.
    :ivar lost: set when there is nobody at the other end any more. The transport alone tells: every code of an error is
        one that a server may answer a request with.
    """

    def __init__(self, process: ServerProcess | None) -> None:
        self.process = process
        self.status = 0
        self.broken = ""
        self.forgotten: set[object] = set()
        self.version = ""
        self.left_out: dict[ListName, list[str]] = {}
        self.lost = anyio.Event()

    def look(self, message: SessionMessage | Exception) -> None:
        """Look at what has come before the SDK does, which takes a list as a whole or not at all, and does not tell
        which of the errors that it has one call end with mean that the call has not begun."""
        if not isinstance(message, SessionMessage):
            return
        match message.message:
            case types.JSONRPCResponse(result=result):
                for name, names in leave_out_odd(result, self.version).items():
                    self.left_out.setdefault(name, []).extend(names)
                leave_out_output_schemas(result)
            case types.JSONRPCError(id=identifier, error=error) if identifier in self.forgotten:
                error.data = NOT_TAKEN
            case _:
                pass

    async def note(self, response: httpx2.Response) -> None:
        """Hear of an HTTP answer."""
        self.status = response.status_code
        request = response.request
        if self.status in (400, 404) and request.method == "POST" and "mcp-session-id" in request.headers:
            identifier = json.loads(request.content).get("id")
            if self.status == 404 or await _knows_no_session(response, identifier):
                self.forgotten.add(identifier)

    async def why(self, error: Exception) -> str:
        """A failure in words that hold no URL and no header; waits a moment for how a process ends that was lost."""
        if self.broken:
            return self.broken
        if self.process is not None and self.lost.is_set():
            await self.process.ended()
        leaves = leaves_of(error)
        if self.status in LOGIN:
            return f"it wants to know who you are (HTTP {self.status}); put a valid token into the headers of its entry"
        if 300 <= self.status < 400:
            return f"it sends on to another address (HTTP {self.status}); put the one where it is now into its entry"
        if self.process is not None and (self.lost.is_set() or self.process.status):
            said = f" and said: {self.process.complaint}" if self.process.complaint else ""
            return f"{self.process.status or 'it closed its output'}{said}"
        for leaf in leaves:
            match leaf:
                case ToolError():
                    return str(leaf)
                case MCPError() if self.status >= 400 and leaf.code == types.INTERNAL_ERROR:
                    return f"it answered with HTTP status {self.status}"
                case MCPError():
                    return one_line(leaf.message, 400) or f"it answered with error {leaf.code}"
                case httpx2.ConnectError():
                    return "nothing answers at its address"
                case httpx2.HTTPStatusError():
                    return f"it answered with HTTP status {leaf.response.status_code}"
                case httpx2.TimeoutException() | TimeoutError():
                    return "it did not answer in time"
                case httpx2.HTTPError():
                    return f"the connection broke ({type(leaf).__name__})"
                case ValidationError():
                    return "what it answered is not what the protocol says"
                case RuntimeError():
                    return one_line(str(leaf), 400)
                case _:
                    continue
        return f"{type(leaves[0]).__name__} while speaking with it"


async def _knows_no_session(response: httpx2.Response, identifier: object) -> bool:
    """Whether a 400 means what the protocol has 404 for: MCP's SDKs for Python and Go answered like that for long, and
    servers after the examples of TypeScript's do. What has the request's own id is an answer, whatever it speaks of."""
    length = response.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > _REFUSAL_BYTES or b"session" not in (await response.aread()).lower():
        return False
    try:
        said = json.loads(response.content)
    except ValueError:
        return True
    return not isinstance(said, dict) or cast("dict[str, object]", said).get("id") != identifier


def leaves_of(error: BaseException) -> list[BaseException]:
    """The errors in a group, and in the groups of that."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [leaf for each in group.exceptions for leaf in leaves_of(each)]
    return [error]


@asynccontextmanager
async def over_stdio(process: ServerProcess, seen: Seen) -> AsyncGenerator[Streams]:
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with to_session:
            try:
                async for line in process.lines():
                    message = _message_in(line)
                    if message is None:
                        continue  # what a program prints there by mistake
                    seen.look(heard := SessionMessage(message))
                    await to_session.send(heard)
            except ToolError as error:
                seen.broken = str(error)
            seen.lost.set()

    async def write() -> None:
        async with sent:
            async for message in sent:
                try:
                    await process.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                except OSError:
                    seen.lost.set()
                    return

    async with anyio.create_task_group() as tasks, received, to_server:
        tasks.start_soon(read)
        tasks.start_soon(write)
        tasks.start_soon(process.watch)
        try:
            yield received, to_server
        finally:
            tasks.cancel_scope.cancel()


def _message_in(line: bytes) -> types.JSONRPCMessage | None:
    """What a server has written; None where it is no message. An answer that cannot be understood becomes an error, so
    that who waits for it does not wait for ever."""
    value: object = None
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        # Servers in JavaScript cut texts in the middle of a character, which leaves half of it behind.
        value = json.loads(line.decode(errors="replace"), strict=False)
        mended = _HALF_CHARACTER.sub("\ufffd", json.dumps(value, ensure_ascii=False))
        return types.jsonrpc_message_adapter.validate_json(mended, by_name=False)
    except (ValueError, RecursionError):
        identifier = _answered(line, value)
    if identifier is None:
        return None
    _log.warning("an MCP server has answered with what is not JSON-RPC")
    error = types.ErrorData(code=types.INTERNAL_ERROR, message="what it answered is not what the protocol says")
    return types.JSONRPCError(jsonrpc="2.0", id=identifier, error=error)


def _answered(line: bytes, value: object) -> int | str | None:
    """The request that a line is to answer; None where it is to answer none.

    :param value: the line as JSON; None where it is none.
    """
    if isinstance(value, dict):
        message = cast("dict[str, object]", value)
        identifier = None if "method" in message else message.get("id")
        return identifier if isinstance(identifier, int | str) and not isinstance(identifier, bool) else None
    found = _ANSWER.match(line) or _ANSWER_AT_END.match(line)
    return None if found is None else json.loads(found["id"])


@asynccontextmanager
async def over_http(server: McpServer, seen: Seen) -> AsyncGenerator[Streams]:
    async with (
        _web_client(server.headers, seen) as client,
        streamable_http_client(server.url, http_client=client) as (incoming, to_server),
        _looked_at(incoming, seen) as received,
    ):
        yield received, to_server  # pyright: ignore[reportReturnType]


@asynccontextmanager
async def over_sse(server: McpServer, seen: Seen) -> AsyncGenerator[Streams]:
    def make(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return _web_client(server.headers, seen)

    async with (
        sse_client(server.url, httpx_client_factory=make) as (incoming, to_server),
        _looked_at(incoming, seen) as received,
    ):
        yield received, to_server  # pyright: ignore[reportReturnType]


@asynccontextmanager
async def _looked_at(
    incoming: AsyncIterable[SessionMessage | Exception], seen: Seen
) -> AsyncGenerator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """What comes in, after it was looked at."""
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def forward() -> None:
        async with to_session:
            async for message in incoming:
                seen.look(message)
                await to_session.send(message)
            seen.lost.set()

    async with anyio.create_task_group() as tasks, received:
        tasks.start_soon(forward)
        try:
            yield received
        finally:
            tasks.cancel_scope.cancel()


def _web_client(headers: Mapping[str, str], seen: Seen) -> httpx2.AsyncClient:
    # A stream may be silent for hours; what waits for an answer has a limit of its own.
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
    return httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks={"response": [seen.note]})
