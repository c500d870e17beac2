"""What a script file may say, as pydantic checks it; see `scripted` for what it means."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from acp_agent.conversation.messages import JsonValue, ToolCall, Usage
from acp_agent.llm.scripted import Answer, Scene, Script
from acp_agent.patterns import Pattern, PatternError, compile_pattern

_Tokens = Annotated[int, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class UsageSection(_Section):
    """`usage`."""

    input: _Tokens
    output: _Tokens
    cache_read: _Tokens = 0
    cache_write: _Tokens = 0


class CallSection(_Section):
    """An item of `tool_calls`."""

    name: Annotated[str, Field(min_length=1)]
    arguments: dict[str, JsonValue] = {}


class AnswerSection(_Section):
    """An item of `answers`."""

    text: str = ""
    thinking: str = ""
    tool_calls: list[CallSection] = []
    stop: Literal["end_turn", "tool_use", "max_tokens", "refusal", "context_overflow", "pause_turn"] | None = None
    usage: UsageSection | None = None

    def answer(self) -> Answer:
        """As plain data."""
        usage = self.usage
        return Answer(
            text=self.text,
            thinking=self.thinking,
            tool_calls=tuple(
                ToolCall(f"call_{index}", call.name, call.arguments) for index, call in enumerate(self.tool_calls)
            ),
            stop=self.stop,
            usage=Usage(usage.input, usage.output, usage.cache_read, usage.cache_write) if usage else None,
        )


class SceneSection(_Section):
    """An item of `scenes`."""

    when: Annotated[str, Field(min_length=1)] | None = None
    after: Annotated[int, Field(ge=0)] = 0
    answers: Annotated[list[AnswerSection], Field(min_length=1)]

    @field_validator("when")
    @classmethod
    def when_compiles(cls, when: str | None) -> str | None:
        """A regular expression must be one."""
        try:
            _pattern(when)
        except PatternError as error:
            raise PydanticCustomError("when", "{why}", {"why": str(error)}) from error
        return when

    @model_validator(mode="after")
    def says_when(self) -> SceneSection:
        """A scene must say when it is played."""
        if self.when is None and not self.after:
            raise PydanticCustomError("when", "needs `when: TEXT` (or `*`), `after: N`, or both")
        return self

    def scene(self) -> Scene:
        """As plain data."""
        return Scene(_pattern(self.when), tuple(answer.answer() for answer in self.answers), self.after)


class ScriptFile(_Section):
    """The whole file."""

    name: str | None = None
    context_window: Annotated[int, Field(gt=0)] | None = None
    delay: Annotated[float, Field(ge=0, le=5)] = 0.0
    scenes: Annotated[list[SceneSection], Field(min_length=1)]

    def script(self, name: str) -> Script:
        """As plain data.

        :param name: for a script that has none.
        """
        scenes = tuple(scene.scene() for scene in self.scenes)
        return Script(self.name or name, scenes, self.context_window, self.delay)


def _pattern(when: str | None) -> Pattern | None:
    if when is None or when == "*":
        return None
    if len(when) > 2 and when[0] == when[-1] == "/":
        return compile_pattern(when[1:-1], ignore_case=True, dot_all=True)
    return compile_pattern(re.escape(when), ignore_case=True)
