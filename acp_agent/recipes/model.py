"""Recipes as plain data, and the keys of their front matter. `parser` checks
combinations of keys.

The docstrings below the fields appear in the JSON Schema and in the documentation's
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from acp_agent.config.forms import (
    ConfigSection,
    FieldRule,
    Flag,
    Internal,
    ModelName,
    SizeOrNull,
    Text,
    TextOrEmpty,
)
from acp_agent.config.hook_events import OnError
from acp_agent.config.settings import Mode
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.frozen import frozen

if TYPE_CHECKING:
    from pydantic import BaseModel

Origin: TypeAlias = Literal["builtin", "user", "project"]
Verify: TypeAlias = Literal["off", "mark", "mend", "reject"]


FENCE = "---"
"""The line before and after the front matter."""
MCP_TOOL = "mcp__"
"""Prefix of the names of MCP servers' tools, which are unknown until the servers have
started.
"""
SWAP_HANDLER = "swap_context"
"""The handler that replaces the conversation with a recipe's answer."""
EXTERNAL = "external"
"""Entry in a list of handlers that represents all hooks other than the recipe's."""
RESERVED_NAMES = ("instructions", "arguments")
"""In a template, both names mean the rest of the command line."""
PLACE_NAMES = ("conversation_id", "cwd", "date", "git", "shell")
"""Other names that a template may use in addition to its arguments."""


class CommandError(Exception):
    """Raised if a command in a recipe's text could not be run or failed. The message
    names the command and the reason.
    """


class RefusedCommandError(CommandError):
    """Raised if a recipe may not run a command in its text."""


@frozen
class RecipeSurroundings:
    """The values and functions that a recipe's text may use in addition to its
    arguments; see `PLACE_NAMES`.

    :ivar cwd: absolute path of the session's folder.
    :ivar date: today's date, such as 2026-03-31.
    :ivar git: has `branch`, `head`, `root` and `dirty`.
    :ivar shell: runs a command and returns its output; raises `CommandError`.
    :ivar close: stops the running command and prevents further ones.
    """

    conversation_id: str
    cwd: str
    date: str
    git: object
    shell: Callable[..., str]
    close: Callable[[], None]


@frozen
class Known:
    """The names against which a recipe's front matter is checked.

    :ivar handlers: maps each event that a recipe may hook into to its handlers, each
        with the model of its parameters.
    :ivar tools: names that `allowed_tools` may list; None for any.
    :ivar compacting: names of recipes that must compact the conversation.
    :ivar strategies: returns the valid values of `compaction.strategy`; None for any.
    :ivar providers: names with which `compaction.model` may begin; None for any.
    """

    handlers: Mapping[str, Mapping[str, type[BaseModel]]]
    tools: Collection[str] | None = None
    compacting: Collection[str] = ()
    strategies: Callable[[], Collection[str]] | None = None
    providers: Collection[str] | None = None


def _one_line(value: str) -> str:
    return " ".join(value.split())


def _heading(value: str) -> str:
    text = _one_line(value.lstrip().lstrip("#"))
    if not text:
        raise ValueError("should be the text of a heading")
    return text


_TEXT = {"type": ["string", "number", "boolean"], "title": "a text"}
Words = Annotated[str, FieldRule(schema=_TEXT)]
"""A text that is used exactly as written. The JSON Schema also accepts numbers and
booleans, since editors may read an unquoted text as such a value.
"""
OneLine = Annotated[str, FieldRule(_one_line, _TEXT)]
_Heading = Annotated[
    str, FieldRule(_heading, {"type": "string", "pattern": r"^\s*#*\s*[^\s#]|#\s+\S"})
]


_JINJA_WORDS = (
    *("True", "False", "None", "true", "false", "none", "self", "loop"),
    *("and", "or", "not", "in", "is", "if", "else"),
)


def _argument_name(value: str) -> str:
    if not (value.isascii() and value.isidentifier()):
        raise ValueError(
            "an argument's name may only contain letters, digits and underscores"
        )
    if value in RESERVED_NAMES:
        raise ValueError(
            "this name means the rest of the command line; choose another name"
        )
    if value in (*PLACE_NAMES, *_JINJA_WORDS):
        raise ValueError(
            "this name has another meaning in a template; choose another name"
        )
    return value


_TAKEN = "|".join((*RESERVED_NAMES, *PLACE_NAMES, *_JINJA_WORDS))
ArgumentName = Annotated[
    str,
    FieldRule(
        _argument_name,
        {"pattern": f"^(?!(?:{_TAKEN})$)[A-Za-z_][A-Za-z0-9_]*$", "type": "string"},
    ),
]
_Pattern = Annotated[
    str,
    FieldRule(
        schema={"type": ["string", "number", "boolean"], "minLength": 1}, min_length=1
    ),
]


@frozen
class Argument(ConfigSection):
    """A named value that a recipe's text uses."""

    name: Annotated[str, Internal()]
    description: OneLine = ""
    """description of the argument, for the editor's list"""
    default: Words | None = None
    """value to use if none is given. Default: empty"""
    required: Flag = False
    """whether to ask for the value if none is given and there is no default. Default:
    `false`
    """


@frozen
class NamedHandler(ConfigSection):
    """A built-in handler that a recipe names, and its parameters."""

    handler: TextOrEmpty
    """name of the handler"""
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    """the handler's parameters"""
    on_error: OnError = "ask"
    """what happens if the handler [fails](hooks.md#failures). Default: `ask`"""

    @classmethod
    def whole(cls, value: object) -> object:
        """Return the mapping for a handler that is given only by its name."""
        return {"handler": value} if isinstance(value, str) else value


@frozen
class CompactionOptions(ConfigSection):
    """Options of a recipe that compacts. For None, the configuration decides."""

    strategy: Text | None = None
    """name of the [strategy](strategies.md), such as `summary`, `native` or `excerpts`;
    an unknown name is an error
    """
    size: SizeOrNull = None
    """maximum size of the new context, without the system prompt and the tools.
    Default: `20%` but at most 64,000 tokens
    """
    sections: tuple[_Heading, ...] | None = None
    """headings that a summary must have, with or without `#`; `[]` requires none"""
    verify: Verify | None = None
    """what happens if a summary contains claims that are not in the conversation: `off`
    does nothing, `mark` marks the claims, `mend` asks the model once to correct them,
    `reject` does not use the summary
    """
    model: ModelName | None = None
    """the model that writes the summary. Default: the session's model. A provider that
    is neither built in nor in `config.yaml` is an error
    """


@frozen
class HookSection(ConfigSection):
    """`hooks.*`: one `handler` with its `params` and `on_error`, or several `handlers`
    in order.
    """

    handler: TextOrEmpty | None = None
    """the handler to run, if there is only one"""
    handlers: tuple[NamedHandler, ...] | None = None
    """several handlers, in this order; `external` represents all hooks other than the
    recipe's
    """
    once: Flag = False
    """whether to run the handlers only at the first answer of the run. Default: `false`"""
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    """parameters of the single `handler`"""
    on_error: OnError = "ask"
    """what happens if the handler [fails](hooks.md#failures). Default: `ask`"""

    def named(self, name: str) -> NamedHandler | None:
        """Return the first handler with this name, or None."""
        return next(
            (handler for handler in self.handlers or () if handler.handler == name),
            None,
        )


@frozen
class FrontMatter(ConfigSection):
    """The keys between the fences. `defaults` is the older form of
    `arguments.*.default`.
    """

    name: Words | None = None
    """must be the file's name without `.md`, in lower-case letters, digits, `-` and
    `_`. For a file in a folder, the folder's name may precede it
    """
    description: OneLine | None = None
    """one line for the editor's list"""
    allowed_tools: tuple[Text, ...] | None = None
    """the [tools](tools.md) that may run; `[]` for none. An unknown name is an error,
    except for tools of [MCP servers](mcp.md): `mcp__server__tool`, or `mcp__server` for
    all tools of a server. The model still sees the definitions of all tools, so that
    the provider's cache can be used. Default: all
    """
    allowed_commands: tuple[_Pattern, ...] | None = None
    """glob patterns that a shell command must match, such as `git log*`"""
    arguments: Mapping[ArgumentName, Argument | None] = field(
        default_factory=dict[str, "Argument | None"]
    )
    """the recipe's arguments, by name, each with `description`, `default` and
    `required`
    """
    defaults: Mapping[ArgumentName, Words] = field(default_factory=dict[str, str])
    """short form of `arguments`: names with their defaults"""
    hooks: Mapping[str, HookSection] = field(default_factory=dict[str, HookSection])
    """the [handlers](#handlers) that run at events of the recipe's run"""
    model: ModelName | None = None
    """the model for the run. Default: the session's model"""
    mode: Mode | None = None
    """the [mode](sessions.md#modes) of the run. A project's recipe can only make the
    session's mode stricter. Default: the session's mode
    """
    version: Words = ""
    """your name for this version of the recipe"""
    compaction: CompactionOptions = CompactionOptions()
    """[options](#compaction) of a recipe that compacts"""


@frozen
class Recipe:
    """One recipe.

    :ivar name: the name after the slash; `github/pr` for a file in a folder.
    :ivar description: one line for lists of commands.
    :ivar body: the template, as in the file.
    :ivar body_line: the line of the file at which `body` begins, from 1.
    :ivar source: the file.
    :ivar digest: hexadecimal SHA-256 of the file's text; identifies the version of a
        recipe that has run.
    :ivar allowed_tools: the tools that may run; None for all, empty for none.
    :ivar allowed_commands: patterns of the commands that the shell tool may run; None
        for all.
    :ivar hooks: sections by event, under the recipe's name for the event; each has
        `handlers`.
    :ivar model: the `provider/model` for its run; None for the session's own.
    :ivar mode: the permission mode of its run; None for the session's own.
    :ivar version: the author's name for this version; empty if none is given.
    :ivar hint: its author's description of the text to type after the name; may be
        empty.
    :ivar is_template: whether its text is a template; otherwise only placeholders are
        replaced.
    :ivar compaction: options for the compaction, if its answer replaces the
        conversation.
    :ivar notice: a notice for the user about a usable file, such as keys that are no
        longer used.
    """

    name: str
    description: str
    body: str
    body_line: int
    source: Path
    origin: Origin
    digest: str
    allowed_tools: tuple[str, ...] | None = None
    allowed_commands: tuple[str, ...] | None = None
    arguments: tuple[Argument, ...] = ()
    hooks: Mapping[str, HookSection] = field(default_factory=dict[str, HookSection])
    model: str | None = None
    mode: Mode | None = None
    version: str = ""
    hint: str = ""
    is_template: bool = True
    compaction: CompactionOptions = CompactionOptions()
    notice: str = ""

    @property
    def command(self) -> str:
        """Return the name for editors: one word without a slash."""
        return self.name.replace("/", ":")

    def handler(self, name: str) -> NamedHandler | None:
        """Return the first handler of this name at any event, or None if there is none."""
        return next(
            (
                found
                for section in self.hooks.values()
                if (found := section.named(name))
            ),
            None,
        )
