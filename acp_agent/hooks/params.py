"""The parameters of each built-in handler, as a recipe writes them. A recipe's are checked when it is read.

Imported with the first recipe, since it imports pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from acp_agent.conversation.messages import JsonValue
from acp_agent.patterns import PatternError, compile_pattern

MAX_TOKENS = 1_000_000


def _inside(value: str) -> str:
    path = PurePosixPath(value)
    if not value.strip() or path.is_absolute() or ".." in path.parts or path.name in ("", "."):
        raise PydanticCustomError("inside", "should be the path of a file below the folder, without `..`")
    return value


def _ending(suffix: str) -> Callable[[str], str]:
    """Files of other kinds there, such as hooks and settings, are not for a recipe to write into."""

    def check(value: str) -> str:
        if not value.endswith(suffix):
            raise PydanticCustomError("ending", "should end in {suffix}", {"suffix": suffix})
        return value

    return check


def _regex(value: str) -> str:
    try:
        compile_pattern(value)
    except PatternError as error:
        raise PydanticCustomError("regex", "{why}", {"why": str(error)}) from error
    return value


def _schema(value: object) -> object:
    from acp_agent.hooks.json_schema import schema_fault

    fault = schema_fault(value)
    if fault is not None:
        raise PydanticCustomError("json_schema", "is no usable JSON Schema: {why}", {"why": fault})
    return value


def _path(ending: str = "") -> WithJsonSchema:
    """What `_inside` and `_ending` demand."""
    inside = r"^(?!/)(?!(?:.*/)?\.\.(?:/|$))(?!(?:\.(?:/+|$))+$).*\S.*"
    pattern = f"{inside.removesuffix('.*')}{re.escape(ending)}$" if ending else inside
    return WithJsonSchema({"type": "string", "pattern": pattern})


def _said(*names: str) -> JsonDict:
    """That at least one of some keys is there and not null."""
    return {"anyOf": [{"required": [name], "not": {"properties": {name: {"type": "null"}}}} for name in names]}


_NOT_BOTH: JsonDict = {"not": {"allOf": [_said("schema"), _said("file")]}}

InnerPath = Annotated[str, AfterValidator(_inside), _path()]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Schema = Annotated[dict[str, JsonValue], BeforeValidator(_schema)]


class Params(BaseModel):
    """Of any handler."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NoParams(Params):
    """Of a handler that takes none."""


class SwapContextParams(Params):
    """Of `swap_context`."""

    preserve_system_prompt: Annotated[
        bool,
        Field(
            description="whether the system prompt stays as it is. By default, the "
            "[instruction files](configuration.md) are read afresh"
        ),
    ] = False
    max_summary_tokens: Annotated[
        int | None,
        Field(
            gt=0,
            le=MAX_TOKENS,
            description="the model is asked for no more tokens; a summary that is longer all the same is not used, and "
            "the history stays as it is",
        ),
    ] = None
    keep_tail_tokens: Annotated[
        Tokens | None,
        Field(
            description="how many tokens of the newest messages stay word for word, within `size` of "
            "[compaction](#compaction); left out: two fifths of it at most. `0`: nothing"
        ),
    ] = None


class AppendContextParams(Params):
    """Of `append_context`."""

    model_config = ConfigDict(json_schema_extra=_said("text", "file"))

    text: Annotated[str | None, Field(min_length=1, description="what the model should read")] = None
    file: Annotated[InnerPath | None, Field(description="a text file of the project that it should read")] = None

    @model_validator(mode="after")
    def _says_something(self) -> AppendContextParams:
        if self.text is None and self.file is None:
            raise PydanticCustomError("empty", "should name a `text` or a `file`")
        return self


class ExportMarkdownParams(Params):
    """Of `export_markdown`."""

    path: Annotated[
        Annotated[InnerPath, AfterValidator(_ending(".md")), _path(".md")] | None,
        Field(description="the file, in the project"),
    ] = None
    overwrite: Annotated[bool, Field(description="also over a file that is no export of this session")] = False


class _WithSchema(Params):
    json_schema: Annotated[Schema | None, Field(alias="schema", description="a JSON Schema")] = None
    file: Annotated[InnerPath | None, Field(description="a file of the project with a JSON Schema")] = None

    @model_validator(mode="after")
    def _one_schema(self) -> _WithSchema:
        if self.json_schema is not None and self.file is not None:
            raise PydanticCustomError("two", "should have one of `schema` and `file`")
        return self


class ValidateOutputParams(_WithSchema):
    """Of `validate_output`."""

    model_config = ConfigDict(json_schema_extra={**_NOT_BOTH, **_said("schema", "file")})

    @model_validator(mode="after")
    def _any_schema(self) -> ValidateOutputParams:
        if self.json_schema is None and self.file is None:
            raise PydanticCustomError("none", "should have a `schema` or a `file`")
        return self


class ValidateToolOutputParams(_WithSchema):
    """Of `validate_tool_output`."""

    model_config = ConfigDict(json_schema_extra={**_NOT_BOTH, **_said("schema", "file", "pattern")})

    tool: Annotated[str | None, Field(min_length=1, description="which tool's results; left out: every tool's")] = None
    pattern: Annotated[
        Annotated[str, AfterValidator(_regex), WithJsonSchema({"type": "string", "format": "regex"})] | None,
        Field(description="a regular expression of RE2 that must be found in the result"),
    ] = None

    @model_validator(mode="after")
    def _any_rule(self) -> ValidateToolOutputParams:
        if self.json_schema is None and self.file is None and self.pattern is None:
            raise PydanticCustomError("none", "should have a `schema`, a `file` or a `pattern`")
        return self


class LogToolUsageParams(Params):
    """Of `log_tool_usage`."""

    path: Annotated[
        InnerPath,
        AfterValidator(_ending(".jsonl")),
        _path(".jsonl"),
        Field(description="the file, in the agent's home"),
    ] = "logs/tool-usage.jsonl"


HANDLER_PARAMS: Mapping[str, type[Params]] = {
    "append_context": AppendContextParams,
    "compact": NoParams,
    "export_markdown": ExportMarkdownParams,
    "log_tool_usage": LogToolUsageParams,
    "swap_context": SwapContextParams,
    "validate_output": ValidateOutputParams,
    "validate_tool_output": ValidateToolOutputParams,
}
"""By handler."""
