"""What an MCP server offers, as plain data: tools, prompts, resources. Knows no SDK and no session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen

ListName: TypeAlias = Literal["tools", "prompts", "resources"]
_NAMED = 5
"""Things that are left out are named up to this number."""


class HandshakeRefusedError(ToolError):
    """The server answers, but not to this way of agreeing on a version."""


class NotTakenError(ToolError):
    """A server on the network does not know the session any more: it has done nothing of what it was asked."""


@frozen
class OfferedTool:
    """A tool.

    :ivar name: as the server knows it.
    :ivar title: for people; empty where it has none.
    :ivar reads: the server says that it changes nothing.
    """

    name: str
    title: str
    description: str
    input_schema: JsonObject
    reads: bool = False


@frozen
class PromptArgument:
    """A value that a prompt is made with."""

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
class OfferedResource:
    """Something that can be read."""

    uri: str
    name: str


@frozen
class Offer:
    """All of it, as it was listed last.

    :ivar faults: what is missing of it and why, as clauses for the user.
    """

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[OfferedResource, ...] = ()
    faults: tuple[str, ...] = ()


@frozen
class Answer:
    """What a call of a tool came to.

    :ivar content: content blocks in MCP's form.
    :ivar structured: the same for programs; None where there is none.
    """

    content: tuple[JsonObject, ...]
    structured: JsonValue = None
    is_error: bool = False


@frozen
class PromptMessage:
    """A message of a prompt: who is to have said it, and a content block in MCP's form."""

    role: str
    content: JsonObject = field(default_factory=dict[str, JsonValue])


def said(kind: ListName, names: Sequence[str], *, sound: bool = False) -> str:
    """What was left out, as a clause for the user.

    :param sound: of tools, that the protocol takes them, and no provider of models the names of their arguments.
    """
    quoted = ", ".join(repr(name) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    many = len(names) > 1
    it, its = ("them", "their") if many else ("it", "its")
    why = (
        f"providers of models do not take the names of {its} arguments"
        if sound
        else f"what it says of {it} is not what the protocol says"
    )
    return f"its {kind if many else kind[:-1]} {quoted}{more} {'are' if many else 'is'} left out, because {why}"
