"""The values that pass between a session and its MCP servers, and the channel to servers that the editor provides.

Content blocks stay in MCP's form, as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen

ListName: TypeAlias = Literal["tools", "prompts", "resources"]


class HandshakeRefusedError(ToolError):
    """The server answers, but refuses this way of agreeing on a version."""


class ServerGoneError(ToolError):
    """The editor does not have this server any more."""


@frozen
class OfferedTool:
    """A tool of a server.

    :ivar name: as the server knows it.
    :ivar title: for people; empty where it has none.
    :ivar reads: the server says that the tool changes nothing.
    """

    name: str
    title: str
    description: str
    input_schema: JsonObject
    reads: bool = False


@frozen
class PromptArgument:
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@frozen
class OfferedPrompt:
    """A prompt that the user may send by its name."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@frozen
class Offer:
    """Everything that a server offers.

    :ivar resources: URIs.
    :ivar faults: what is missing and why, as clauses for the user.
    """

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


@frozen
class Answer:
    """The result of a tool call.

    :ivar content: content blocks.
    :ivar structured: the same for programs; None where there is none.
    """

    content: tuple[JsonObject, ...]
    structured: JsonValue = None
    is_error: bool = False


@frozen
class PromptMessage:
    """One message of a prompt, with a content block."""

    role: str
    content: JsonObject = field(default_factory=dict[str, JsonValue])


OnNotification: TypeAlias = Callable[[str, JsonObject | None], None]
"""Called with the method and the params of each notification that belongs to a request."""


@frozen
class McpOutcome:
    """The response to a request.

    :ivar error: `code`, `message` and perhaps `data`; None where the request succeeded.
    """

    result: JsonValue = None
    error: JsonObject | None = None


class McpChannel(Protocol):
    """Carries requests to the servers that one editor is itself."""

    async def ask(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None, notified: OnNotification
    ) -> McpOutcome:
        """Send a request and wait for its response. Cancelling the caller takes the request back.

        :param server_id: the editor's id of the server.
        :param request_id: not used before on this channel.
        :param notified: must not wait; it is not called after the response.
        :raises ServerGoneError: the server will not answer later either.
        :raises ToolError: the request was not answered; says why.
        """
        ...
