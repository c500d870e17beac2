"""The values that pass between a session and its MCP servers, and the channel to servers that the editor provides.

Tools, prompts and content are the SDK's own models, which are imported for type checkers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen

if TYPE_CHECKING:
    from mcp.types import Prompt, Tool

OnNotification: TypeAlias = Callable[[str, JsonObject | None], None]
"""Called with the method and the params of each notification that belongs to a request."""


class HandshakeRefusedError(ToolError):
    """The server answers, but refuses this way of agreeing on a version."""


class ServerGoneError(ToolError):
    """The editor does not have this server any more."""


@frozen
class Offer:
    """Everything that a server offers.

    :ivar resources: URIs.
    :ivar faults: what is missing and why, as clauses for the user.
    """

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class McpChannel(Protocol):
    """Carries requests to the servers that one editor is itself."""

    async def ask(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None, notified: OnNotification
    ) -> JsonObject:
        """Send a request and wait for its response. Cancelling the caller takes the request back.

        :param server_id: the editor's id of the server.
        :param request_id: not used before on this channel.
        :param notified: must not wait; it is not called after the response.
        :returns: as the editor sent it, with the member `result` or `error`.
        :raises ServerGoneError: the server will not answer later either.
        :raises ToolError: the request was not answered; says why.
        """
        ...
