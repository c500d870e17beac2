"""`Handler`, which every built-in handler of recipes is, and the kinds of its parameters: paths, patterns, schemas."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import PurePosixPath
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from acp_agent.config.hook_events import EventName
from acp_agent.conversation.messages import JsonValue
from acp_agent.hooks.contract import Services
from acp_agent.hooks.events import HookEvent
from acp_agent.hooks.json_schemas import schema_fault
from acp_agent.hooks.outcomes import Outcome
from acp_agent.patterns import PatternError, compile_pattern

MAX_TOKENS = 1_000_000


class Handler(BaseModel):
    """A handler with its parameters, as a recipe writes them. A recipe's are checked when it is read."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: ClassVar[str]
    events: ClassVar[frozenset[EventName]]

    @abstractmethod
    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Return what should happen now.

        :raises HookError: it cannot do what it is there for.
        """


def _inside(value: str) -> str:
    path = PurePosixPath(value)
    if not value.strip() or path.is_absolute() or ".." in path.parts or path.name in ("", "."):
        raise PydanticCustomError("inside", "should be the path of a file below the folder, without `..`")
    return value


def _regex(value: str) -> str:
    try:
        compile_pattern(value)
    except PatternError as error:
        raise PydanticCustomError("regex", "{why}", {"why": str(error)}) from error
    return value


def _schema(value: object) -> object:
    fault = schema_fault(value)
    if fault is not None:
        raise PydanticCustomError("json_schema", "is no usable JSON Schema: {why}", {"why": fault})
    return value


InnerPath = Annotated[str, AfterValidator(_inside)]
MarkdownPath = Annotated[str, Field(pattern=r"\.md$"), AfterValidator(_inside)]
"""Files of other kinds, such as hooks and settings, are not for a recipe to write into."""
LinesPath = Annotated[str, Field(pattern=r"\.jsonl$"), AfterValidator(_inside)]
JsonSchema = Annotated[dict[str, JsonValue], BeforeValidator(_schema)]
Pattern = Annotated[str, AfterValidator(_regex), WithJsonSchema({"type": "string", "format": "regex"})]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
