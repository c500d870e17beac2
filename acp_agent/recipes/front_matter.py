"""The keys of a recipe's front matter, and what a value of each is. `parser` checks how they combine.

The docstrings below the fields are the words of the JSON Schema and of the documentation's tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from acp_agent.config.forms import Flag, Form, ModelName, Section, Text, TextOrEmpty
from acp_agent.config.hook_events import OnError
from acp_agent.config.settings import Mode
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.frozen import frozen
from acp_agent.recipes.model import (
    PLACE_NAMES,
    RESERVED_NAMES,
    Argument,
    CompactionOptions,
    NamedHandler,
    OneLine,
    Words,
)

_JINJA_WORDS = (
    *("True", "False", "None", "true", "false", "none", "self", "loop"),
    *("and", "or", "not", "in", "is", "if", "else"),
)


def _argument_name(value: str) -> str:
    if not (value.isascii() and value.isidentifier()):
        raise ValueError("an argument's name has letters, digits and underscores alone")
    if value in RESERVED_NAMES:
        raise ValueError("this name stands for the rest of the command line; take another")
    if value in (*PLACE_NAMES, *_JINJA_WORDS):
        raise ValueError("this name has a meaning of its own in a template; take another")
    return value


_TAKEN = "|".join((*RESERVED_NAMES, *PLACE_NAMES, *_JINJA_WORDS))
ArgumentName = Annotated[
    str, Form(_argument_name, {"pattern": f"^(?!(?:{_TAKEN})$)[A-Za-z_][A-Za-z0-9_]*$", "type": "string"})
]
_Pattern = Annotated[str, Form(schema={"type": ["string", "number", "boolean"], "minLength": 1}, min_length=1)]


@frozen
class HookSection(Section):
    """`hooks.*`: one `handler` with its `params` and `on_error`, or several `handlers` in order."""

    handler: TextOrEmpty | None = None
    """the one handler that answers"""
    handlers: tuple[NamedHandler, ...] | None = None
    """several, in this order; `external` stands for all hooks that are not the recipe's"""
    once: Flag = False
    """only until the first answer of the run"""
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    """how the one handler does what it does"""
    on_error: OnError = "ask"
    """what it means when it [fails](hooks.md#failures)"""


@frozen
class FrontMatter(Section):
    """What may stand between the fences. `defaults` is the older way to write `arguments.*.default`."""

    name: Words | None = None
    """the same as the file's name without `.md`: lower-case letters, digits, `-`, `_`; in a folder, with or without
    that before it"""
    description: OneLine | None = None
    """one line for the editor's list"""
    allowed_tools: tuple[Text, ...] | None = None
    """[tools](tools.md) that may run; `[]` for none. Left out: all. A name that no tool has is an error, but for those
    of [MCP servers](mcp.md): `mcp__server__tool`, or `mcp__server` for all of one. What the model is told of tools
    stays the same, so that the provider's cache is hit"""
    allowed_commands: tuple[_Pattern, ...] | None = None
    """glob patterns that a shell command must match, such as `git log*`"""
    arguments: Mapping[ArgumentName, Argument | None] = field(default_factory=dict[str, "Argument | None"])
    """names with `description`, `default`, `required`"""
    defaults: Mapping[ArgumentName, Words] = field(default_factory=dict[str, str])
    """the short form: names with their defaults"""
    hooks: Mapping[str, HookSection] = field(default_factory=dict[str, HookSection])
    """what happens at an event of the recipe's run: [handlers](#handlers)"""
    model: ModelName | None = None
    """the model that the run asks, in place of the session's own"""
    mode: Mode | None = None
    """the [mode](sessions.md#modes) of the run. A project's recipe can make the session's mode stricter, and never
    freer"""
    version: Words = ""
    """whatever you call this version of the recipe"""
    compaction: CompactionOptions = CompactionOptions()
    """for a recipe that compacts: [how](#compaction)"""
