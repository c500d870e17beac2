"""A provider that plays a YAML script instead of calling a model, for demonstrations
and for trying the agent without a key.

docs/models.md describes the script. The answer depends only on the request, so a
restarted agent continues where it stopped. The scene is the first one whose `when`
matches the newest user message. The number of answers since that message is the index
of the answer in the scene.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import anyio
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from acp_agent.config.document import DocumentError, parse_mapping, read_text, validate
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    JsonValue,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
)
from acp_agent.errors import ConfigError
from acp_agent.llm.parts import estimated_usage, user_parts
from acp_agent.llm.places import Parallel
from acp_agent.llm.provider import (
    Answered,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
)
from acp_agent.llm.rules import ReasoningRules
from acp_agent.patterns import PatternError, compile_pattern

_Counted: TypeAlias = Literal["input", "output", "cache_read", "cache_write"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Call(_Section):
    name: Annotated[str, Field(min_length=1)]
    arguments: dict[str, JsonValue] = {}


class _Answer(_Section):
    """An item of `answers`."""

    text: str = ""
    thinking: str = ""
    tool_calls: list[_Call] = []
    stop: (
        Literal[
            "end_turn",
            "tool_use",
            "max_tokens",
            "refusal",
            "context_overflow",
            "pause_turn",
        ]
        | None
    ) = None
    usage: dict[_Counted, Annotated[int, Field(ge=0)]] | None = None


class _Scene(_Section):
    """An item of `scenes`."""

    when: Annotated[str, Field(min_length=1)] | None = None
    after: Annotated[int, Field(ge=0)] = 0
    answers: Annotated[list[_Answer], Field(min_length=1)]

    @model_validator(mode="after")
    def compiled(self) -> _Scene:
        """Refuse a scene that does not say when it is played, or whose regular
        expression is invalid.
        """
        if self.when is None and not self.after:
            raise PydanticCustomError(
                "when", "needs `when: TEXT` (or `*`), `after: N`, or both"
            )
        try:
            self.fits("", 0)
        except PatternError as error:
            raise PydanticCustomError("when", "{why}", {"why": str(error)}) from error
        return self

    def fits(self, prompt: str, before: int) -> bool:
        """Return whether the scene is played.

        :param before: the number of user messages before the prompt.
        """
        when = self.when or "*"
        if len(when) > 2 and when[0] == when[-1] == "/":
            found = (
                compile_pattern(when[1:-1], ignore_case=True, dot_all=True).search(
                    prompt
                )
                is not None
            )
        else:
            found = when == "*" or when.lower() in prompt.lower()
        return found and before >= self.after


class Script(_Section):
    """The whole file."""

    name: str | None = None
    context_window: Annotated[int, Field(gt=0)] | None = None
    delay: Annotated[float, Field(ge=0, le=5)] = 0.0
    scenes: Annotated[list[_Scene], Field(min_length=1)]

    def answer_to(self, request: ModelRequest, name: str) -> _Answer:
        """Return the answer to a request. If the script has no answer, return one that
        says so.

        :param name: the name to use if the script has none.
        """
        prompts = [
            index
            for index, message in enumerate(request.messages)
            if isinstance(message, UserMessage)
        ]
        since = request.messages[prompts[-1] if prompts else 0 :]
        asked = (
            user_parts(since[0].parts, images=False)
            if isinstance(since[0], UserMessage)
            else []
        )
        said = "\n".join(part.text for part in asked if isinstance(part, Text)).strip()
        turn = sum(isinstance(message, AssistantMessage) for message in since)
        scene = next(
            (scene for scene in self.scenes if scene.fits(said, len(prompts) - 1)), None
        )
        if scene is not None and turn < len(scene.answers):
            return scene.answers[turn]
        first_line = said.partition("\n")[0][:80]
        why = (
            "has no more answers"
            if scene is not None
            else f"has no answer to “{first_line}”"
        )
        return _Answer(text=f"(The script “{self.name or name}” {why}.)")


class ScriptedProvider:
    """Plays a script; needs no key and no network.

    :param name: the word before the slash in `provider/model`; any model name works.
    :param path: the script's file, read at the first use.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._script: Script | None = None

    async def prepare(self) -> None:
        """See `Registry.prepare`. Does nothing, since the script is read when it is
        played.
        """

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`.

        :raises ConfigError: if the script is missing or invalid; names the file and
            line.
        """
        script = self._loaded()
        answer = script.answer_to(request, self._path.stem)
        for piece in _pieces(answer.thinking):
            await anyio.sleep(script.delay)
            yield ThinkingDelta(piece)
        for piece in _pieces(answer.text):
            await anyio.sleep(script.delay)
            yield TextDelta(piece)
        parts: list[AssistantPart] = (
            [Thinking(answer.thinking, self.name)] if answer.thinking else []
        )
        parts += [Text(answer.text)] if answer.text else []
        parts += [
            ToolCall(f"call_{index}", call.name, call.arguments)
            for index, call in enumerate(answer.tool_calls)
        ]
        stop = answer.stop or ("tool_use" if answer.tool_calls else "end_turn")
        answered = Answered(tuple(parts), stop, Usage())
        said = answer.usage
        usage = (
            Usage(*(said.get(name, 0) for name in get_args(_Counted))) if said else None
        )
        yield replace(answered, usage=usage or estimated_usage(request, answered))

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`; the script specifies it."""
        return self._loaded().context_window

    @property
    def parallel(self) -> Parallel:
        """See `Provider.parallel`."""
        return "many"

    def rules(self, model: str) -> ReasoningRules:
        """See `Provider.rules`; a script has no reasoning to send back."""
        return ReasoningRules(checks="none", echo="none")

    def reasoning_sent(self, request: ModelRequest) -> frozenset[str]:
        """See `Provider.reasoning_sent`."""
        return frozenset()

    def is_window_settled(self, model: str) -> bool:
        """See `Provider.is_window_settled`; the script specifies it."""
        return True

    async def learn_window(self, model: str, *, lost: bool = False) -> None:
        """See `Provider.learn_window`; the script specifies it."""

    async def aclose(self) -> None:
        """Do nothing, since no connection is open."""

    def _loaded(self) -> Script:
        if self._script is None:
            self._script = _load_script(self._path)
        return self._script


def _load_script(path: Path) -> Script:
    """Read a script.

    :raises ConfigError: if it is missing or invalid; names the file, line and key.
    """
    try:
        text = read_text(path)
        if text is None:
            raise ConfigError(
                "there is no such script; check `script` of the provider",
                source=str(path),
            )
        return validate(Script, parse_mapping(text))
    except DocumentError as error:
        raise ConfigError(
            error.message, source=str(path), line=error.line, key=error.key
        ) from error


def _pieces(text: str) -> list[str]:
    """Return the words of a text. Joined, they are the text."""
    return re.findall(r"\s*\S+\s*?(?=\s|$)|\s+", text)
