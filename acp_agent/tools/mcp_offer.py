"""What an MCP server offers, as plain data: tools, prompts, resources. Knows no SDK and no session."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.frozen import frozen

ListName: TypeAlias = Literal["tools", "prompts", "resources"]


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
