"""The front matter of a recipe: the pydantic model of its keys. What a key means beside the others, `parser` checks.

Imported with the first file that is read, since it imports pydantic. The descriptions become the tables of the docs and
the JSON Schema for editors.
"""

from __future__ import annotations

import re
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from acp_agent.config.forms import ModelName, SizeOrNull, off_again
from acp_agent.config.hook_events import OnError
from acp_agent.config.settings import Mode
from acp_agent.conversation.messages import JsonValue
from acp_agent.recipes.model import PLACE_NAMES, RESERVED_NAMES, Verify

_JINJA_WORDS = (
    *("True", "False", "None", "true", "false", "none", "self", "loop"),
    *("and", "or", "not", "in", "is", "if", "else"),
)


# --- values ---


def _argument_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise PydanticCustomError("argument_name", "an argument's name has letters, digits and underscores alone")
    if value in RESERVED_NAMES:
        raise PydanticCustomError(
            "argument_reserved", "this name stands for the rest of the command line; take another"
        )
    if value in (*PLACE_NAMES, *_JINJA_WORDS):
        raise PydanticCustomError("argument_reserved", "this name has a meaning of its own in a template; take another")
    return value


def _one_line(value: str) -> str:
    return " ".join(value.split())


def _not_null(value: object) -> object:
    if value is None:
        raise PydanticCustomError("not_null", "is empty; write [] for none at all, or leave the key out for all")
    return value


def _named(value: object) -> object:
    return {"handler": value} if isinstance(value, str) else value


def _heading(value: str) -> str:
    text = " ".join(value.lstrip().lstrip("#").split())
    if not text:
        raise PydanticCustomError("heading", "should be the text of a heading")
    return text


Words = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"], "title": "a text"})]
"""A text, which is taken as it is written: without quotes, an editor may see a number in it."""
ArgumentName = Annotated[
    str,
    AfterValidator(_argument_name),
    WithJsonSchema(
        {
            "pattern": f"^(?!(?:{'|'.join((*RESERVED_NAMES, *PLACE_NAMES, *_JINJA_WORDS))})$)[A-Za-z_][A-Za-z0-9_]*$",
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
Heading = Annotated[
    str, AfterValidator(_heading), WithJsonSchema({"type": "string", "pattern": r"^\s*#*\s*[^\s#]|#\s+\S"})
]
Checking = Annotated[
    Verify | None,
    BeforeValidator(off_again),
    WithJsonSchema({"enum": [*get_args(Verify), False, None], "title": "`off`, `mark`, `mend`, `reject`"}),
]


# --- the model ---


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


class HandlerSection(Section):
    """`hooks.*.handlers.*`; a name alone is one without parameters."""

    handler: str = Field(description="its name")
    params: dict[str, JsonValue] = Field(default={}, description="how it does what it does")
    on_error: OnError = Field(default="ask", description="what it means when it [fails](hooks.md#failures)")


HandlerItem = Annotated[HandlerSection, BeforeValidator(_named, json_schema_input_type=str | HandlerSection)]


class HookSection(Section):
    """`hooks.*`: one `handler` with its `params` and `on_error`, or several `handlers` in order."""

    handler: str | None = Field(default=None, description="the one handler that answers")
    handlers: Annotated[list[HandlerItem], Field(min_length=1)] | None = Field(
        default=None, description="several, in this order; `external` stands for all hooks that are not the recipe's"
    )
    once: bool = Field(default=False, description="only until the first answer of the run")
    params: dict[str, JsonValue] = Field(default={}, description="how the one handler does what it does")
    on_error: OnError = Field(default="ask", description="what it means when it [fails](hooks.md#failures)")


class CompactionSection(Section):
    """`compaction`. Null is the same as leaving the key out."""

    strategy: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="how it is done, such as `summary`, `excerpts` or `mask`; a name that no strategy has is an error",
    )
    size: SizeOrNull = Field(
        default=None,
        description="how much the new context may take beside the system prompt and the tools; left out: `20%`, and at "
        "most 64,000 tokens",
    )
    sections: list[Heading] | None = Field(
        default=None, description="headings that a summary must have, with or without their `#`; `[]`: none"
    )
    verify: Checking = Field(
        default=None,
        description="what happens where a summary says what the conversation does not: nothing, it is marked, the "
        "model is asked once to mend it, or it is not used",
    )
    model: ModelName | None = Field(
        default=None,
        description="writes the summary; left out: the session's own. A provider that is neither built in nor in "
        "`config.yaml` is an error",
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
