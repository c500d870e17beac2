"""`McpChannel`: how a message gets to an MCP server that the editor itself is. Knows neither the SDK nor the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen

Heard: TypeAlias = Callable[[str, JsonObject | None], None]
"""Called with the method and the params of what a server says while it works on a request."""


class ServerGoneError(ToolError):
    """There is no such server at the other end any more."""


@frozen
class McpOutcome:
    """What a server answered, in MCP's form.

    :ivar error: `code`, `message` and perhaps `data`; None where it succeeded.
    """

    result: JsonValue = None
    error: JsonObject | None = None


class McpChannel(Protocol):
    """Carries requests to the servers of one editor."""

    async def ask(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None, heard: Heard
    ) -> McpOutcome:
        """Send a request and wait for its outcome. A cancel of the caller takes the request back.

        :param server_id: what the editor calls the server.
        :param request_id: not used before on this channel.
        :param heard: called at once, so that it must not wait; not after the outcome.
        :raises ServerGoneError: nobody will answer, this time or later.
        :raises ToolError: it was not answered; says why.
        """
        ...
