"""From the text of a Markdown file to a `Recipe`: the split, the front matter's model, and what it means.

Imported when the first recipe is read, since it imports pydantic. Knows nothing of folders, nor whether the template is
any good (see `template`).
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from acp_agent.config.checks import unknown_provider
from acp_agent.config.deprecated import current
from acp_agent.config.document import Document, DocumentError, did_you_mean, parse_mapping, validate
from acp_agent.config.forms import ModelName
from acp_agent.config.hook_events import OF_CALLS, event_name
from acp_agent.config.settings import Mode
from acp_agent.frozen import frozen
from acp_agent.recipes.compaction_section import (
    SWAP_HANDLER,
    CompactionSection,
    compaction_options,
)
from acp_agent.recipes.hooks_section import HookSection, hook_bindings, is_text_param
from acp_agent.recipes.model import MCP_TOOL, Argument, HookBinding, Known, Origin, Recipe
from acp_agent.recipes.template import PLACE_NAMES, RESERVED_NAMES

FENCE = "---"
MAX_DESCRIPTION = 100

_LANGUAGE = (
    *("True", "False", "None", "true", "false", "none", "self", "loop"),
    *("and", "or", "not", "in", "is", "if", "else"),
)
"""Words that Jinja2 takes for something else in `{{ … }}`, whatever an argument of that name is given."""


@frozen
class Parts:
    """A file cut at its fences.

    :ivar front_matter: the YAML between them, which begins in line 2; None where the file has none.
    :ivar body_line: the line that `body` begins at, from 1.
    """

    front_matter: str | None
    body: str
    body_line: int


def split(text: str) -> Parts:
    """Cut a file into front matter and body.

    Front matter is there if the first line is `---`, and ends at the next such line. Lines end with a line feed, with
    or without a carriage return before it, as in every editor; other characters that Unicode calls line ends do not
    count.

    :raises DocumentError: it is never closed.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return Parts(None, "\n".join(lines), 1)
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            return Parts("\n".join(lines[1:index]), "\n".join(lines[index + 1 :]), index + 2)
    raise DocumentError(f"the front matter that begins here has no closing {FENCE}", 1)


def parse_recipe(text: str, *, name: str, source: Path, origin: Origin, known: Known) -> Recipe:
    """Make a recipe of a file's text.

    :param text: the whole file.
    :param name: what the file is called, without `.md`, behind the folders that it is in: `github/pr`.
    :param known: what it may name, and what a recipe of its name must have.
    :raises DocumentError: it is wrong; with line and key where known.
    """
    parts = split(text)
    if not parts.body.strip():
        raise DocumentError("has no text below its front matter; that text is what the model is told", parts.body_line)
    document = (
        parse_mapping(parts.front_matter, 2, partial(_is_text, known)) if parts.front_matter else Document({}, {})
    )
    document, notice = current(document, source)
    matter = validate(FrontMatter, document)
    if matter.name not in (None, name, name.rpartition("/")[2]):
        message = f"says {matter.name!r}, but the file is {name}.md; make them equal, or leave this key out"
        raise DocumentError(message, document.lines["name",], "name")
    _check_tools(matter, document, known)
    hooks = hook_bindings(matter.hooks, document, known)
    _check_required_hook(name, hooks, document, known)
    _check_run(matter, hooks, document, known)
    return Recipe(
        name=name,
        description=matter.description or first_line(parts.body),
        body=parts.body,
        body_line=parts.body_line,
        source=source,
        origin=origin,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        allowed_tools=None if matter.allowed_tools is None else tuple(matter.allowed_tools),
        allowed_commands=None if matter.allowed_commands is None else tuple(matter.allowed_commands),
        arguments=_arguments(matter, document),
        hooks=hooks,
        model=matter.model,
        mode=matter.mode,
        version=matter.version,
        compaction=compaction_options(matter.compaction, hooks, document, known) if matter.compaction else None,
        notice=notice,
    )


def first_line(body: str) -> str:
    """What describes a recipe that does not describe itself."""
    line = next(line for line in body.split("\n") if line.strip()).lstrip("# ").strip()
    return line if len(line) <= MAX_DESCRIPTION else line[: MAX_DESCRIPTION - 1].rstrip() + "…"


def _arguments(matter: FrontMatter, document: Document) -> tuple[Argument, ...]:
    arguments = {
        name: Argument(name, section.description, section.default, section.required)
        for name, section in ((name, section or ArgumentSection()) for name, section in matter.arguments.items())
    }
    for name, default in matter.defaults.items():
        if name in arguments and arguments[name].default is not None:
            place = ("defaults", name)
            raise DocumentError(
                "has a default under `arguments` too; keep one", document.lines[place], f"defaults.{name}"
            )
        known = arguments.get(name, Argument(name))
        arguments[name] = Argument(name, known.description, default, known.required)
    return tuple(arguments.values())


def _check_tools(matter: FrontMatter, document: Document, known: Known) -> None:
    if known.tools is None:
        return
    for index, tool in enumerate(matter.allowed_tools or ()):
        if tool not in known.tools and not tool.startswith(MCP_TOOL):
            message = f"there is no tool {tool!r}; {did_you_mean(tool, known.tools)}"
            raise DocumentError(message, document.lines["allowed_tools", index], f"allowed_tools.{index}")


def _check_required_hook(name: str, hooks: dict[str, HookBinding], document: Document, known: Known) -> None:
    event, handler = known.required_hooks.get(name, (None, None))
    if event is None or handler is None or (event in hooks and hooks[event].handler(handler) is not None):
        return
    message = f"a recipe named `{name}` must have `{event}: {{handler: {handler}}}` here; add it, or rename the file"
    raise DocumentError(message, document.lines.get(("hooks",), 1), "hooks")


def _check_run(matter: FrontMatter, hooks: dict[str, HookBinding], document: Document, known: Known) -> None:
    if any(binding.handler(SWAP_HANDLER) for binding in hooks.values()):
        if matter.model is not None:
            message = "is for recipes whose answer is shown; the model that writes a summary is `compaction.model`"
            raise DocumentError(message, document.lines["model",], "model")
        if matter.mode is not None:
            message = "is for recipes that run tools, which one that compacts does not; leave this key out"
            raise DocumentError(message, document.lines["mode",], "mode")
        for word in hooks:
            if event_name(word) in OF_CALLS:
                message = "is for recipes that run tools, which one that compacts does not; leave this event out"
                raise DocumentError(message, document.lines["hooks", word], f"hooks.{word}")
    if matter.model is not None and known.providers is not None:
        wrong = unknown_provider(matter.model, known.providers)
        if wrong:
            raise DocumentError(wrong, document.lines["model",], "model")


def _argument_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise PydanticCustomError("argument_name", "an argument's name has letters, digits and underscores alone")
    if value in RESERVED_NAMES:
        raise PydanticCustomError(
            "argument_reserved", "this name stands for the rest of the command line; take another"
        )
    if value in (*PLACE_NAMES, *_LANGUAGE):
        raise PydanticCustomError("argument_reserved", "this name has a meaning of its own in a template; take another")
    return value


def _is_text(known: Known, place: tuple[str | int | None, ...], word: str) -> bool:
    match place:
        case ("name" | "description" | "version",) | ("defaults", _) | ("arguments", _, "description" | "default"):
            return place[-1] is not None
        case ("allowed_commands", int()):
            return True
        case ("hooks", _, "params", *inner) | ("hooks", _, "handlers", int(), "params", *inner):
            return is_text_param(known, inner, word)
        case _:
            return False


def _one_line(value: str) -> str:
    return " ".join(value.split())


def _not_null(value: object) -> object:
    if value is None:
        raise PydanticCustomError("not_null", "is empty; write [] for none at all, or leave the key out for all")
    return value


Words = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"], "title": "a text"})]
"""A text, which is taken as it is written: without quotes, an editor may see a number in it."""
ArgumentName = Annotated[
    str,
    AfterValidator(_argument_name),
    WithJsonSchema(
        {
            "pattern": f"^(?!(?:{'|'.join((*RESERVED_NAMES, *PLACE_NAMES, *_LANGUAGE))})$)[A-Za-z_][A-Za-z0-9_]*$",
            "type": "string",
        }
    ),
]
Limit = Annotated[
    list[Annotated[str, Field(min_length=1)]] | None,
    BeforeValidator(_not_null),
    WithJsonSchema({"type": "array", "items": {"type": "string", "minLength": 1}}),
]
Patterns = Annotated[
    list[Annotated[str, Field(min_length=1)]] | None,
    BeforeValidator(_not_null),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "number", "boolean"], "minLength": 1}}),
]
"""As `Limit`, each taken as it is written."""


class Section(BaseModel):
    """Any mapping of the front matter."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ArgumentSection(Section):
    """`arguments.*`."""

    description: Annotated[Words, AfterValidator(_one_line)] = Field(
        default="", description="what it is, for the editor's list"
    )
    default: Words | None = Field(default=None, description="its value where none is given; left out: empty")
    required: bool = Field(
        default=False, description="whether it is asked for where it is not given and has no default"
    )


class FrontMatter(Section):
    """What may stand between the fences. `defaults` is the older way to write `arguments.*.default`."""

    name: Words | None = Field(
        default=None,
        description="the same as the file's name without `.md`: lower-case letters, digits, `-`, `_`; in a folder, "
        "with or without that before it",
    )
    description: Annotated[Words, AfterValidator(_one_line)] | None = Field(
        default=None, description="one line for the editor's list"
    )
    allowed_tools: Limit = Field(
        default=None,
        description="[tools](tools.md) that may run; `[]` for none. Left out: all. A name that no tool has is an "
        "error, but for those of [MCP servers](mcp.md): `mcp__server__tool`, or `mcp__server` for all of "
        "one. What the model is told of tools stays the same, so that the provider's cache is hit",
    )
    allowed_commands: Patterns = Field(
        default=None, description="glob patterns that a shell command must match, such as `git log*`"
    )
    arguments: dict[ArgumentName, ArgumentSection | None] = Field(
        default={}, description="names with `description`, `default`, `required`"
    )
    defaults: dict[ArgumentName, Words] = Field(default={}, description="the short form: names with their defaults")
    hooks: dict[str, HookSection] = Field(
        default={}, description="what happens at an event of the recipe's run: [handlers](#handlers)"
    )
    model: ModelName | None = Field(
        default=None, description="the model that the run asks, in place of the session's own"
    )
    mode: Mode | None = Field(
        default=None,
        description="the [mode](sessions.md#modes) of the run. A project's recipe can make the session's mode "
        "stricter, and never freer",
    )
    version: Words = Field(default="", description="whatever you call this version of the recipe")
    compaction: CompactionSection | None = Field(
        default=None, description="for a recipe that compacts: [how](#compaction)"
    )
