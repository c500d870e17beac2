"""`Watch` of a connection to an MCP server: whether it is lost, and why a call failed."""

from __future__ import annotations

from typing import TypeAlias, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError, types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from acp_agent.errors import ToolError
from acp_agent.tools.text import one_line

LOGIN = (401, 403)
"""HTTP statuses of a server that wants to know who asks."""
Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]
"""What a transport gives to the SDK: the messages of the server, and where messages to it go."""


class Watch:
    """Watches one connection.

    :ivar lost: set when the server is gone. Only the transport tells: a server may answer a request
        with any error code.
    :ivar reason: why the connection is lost; empty where the transport does not know.
    :ivar status: of the last HTTP response; 0 where there was none.
    """

    def __init__(self) -> None:
        self.lost = anyio.Event()
        self.reason = ""
        self.status = 0

    def inspect(self, message: SessionMessage | Exception) -> None:
        """Take the schemas of what tools answer out of a list.

        The SDK matches answers with such a schema's patterns by Python's `re`, which can go on for ever; the model
        reads every answer as it is.
        """
        if isinstance(message, SessionMessage) and isinstance(message.message, types.JSONRPCResponse):
            tools = message.message.result.get("tools")
            for tool in cast("list[object]", tools) if isinstance(tools, list) else ():
                if isinstance(tool, dict):
                    cast("dict[str, object]", tool).pop("outputSchema", None)

    async def note(self, response: httpx2.Response) -> None:
        """Take note of an HTTP response."""
        self.status = response.status_code
        request = response.request
        if request.method != "POST" or "mcp-session-id" not in request.headers:
            return
        # The protocol has 404 for a session that the server has forgotten; older servers answer with 400.
        if self.status == 404 or (self.status == 400 and b"session" in (await response.aread()).lower()):
            self.reason = "it does not know the session any more"
            self.lost.set()

    def why(self, error: BaseException) -> str:
        """Return why something failed, in words that hold no URL and no header."""
        if self.status in LOGIN:
            return f"it wants to know who you are (HTTP {self.status}); put a valid token into the headers of its entry"
        if 300 <= self.status < 400:
            return f"it sends on to another address (HTTP {self.status}); put the one where it is now into its entry"
        if self.reason:
            return self.reason
        leaves = leaves_of(error)
        words = [said for leaf in leaves if (said := self._words(leaf))]
        return words[0] if words else f"{type(leaves[0]).__name__} while speaking with it"

    def _words(self, error: BaseException) -> str:
        match error:
            case ToolError():
                return str(error)
            case MCPError() if self.status >= 400 and error.code == types.INTERNAL_ERROR:
                return f"it answered with HTTP status {self.status}"
            case MCPError():
                return one_line(error.message, 400) or f"it answered with error {error.code}"
            case httpx2.ConnectError():
                return "nothing answers at its address"
            case httpx2.HTTPStatusError():
                return f"it answered with HTTP status {error.response.status_code}"
            case httpx2.TimeoutException() | TimeoutError():
                return "it did not answer in time"
            case ValidationError():
                return "what it answered is not what the protocol says"
            case RuntimeError() | httpx2.HTTPError():
                return one_line(str(error), 400) if isinstance(error, RuntimeError) else "the connection broke"
            case _:
                return ""


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return the errors in a group, and in the groups of that."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [leaf for each in group.exceptions for leaf in leaves_of(each)]
    return [error]
