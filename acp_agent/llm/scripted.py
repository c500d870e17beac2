"""A provider that plays a YAML script in place of a model: for demonstrations and for trying the agent without a key.

The script is a list of scenes. Each has a `when` and the answers that it gives, one after the other:

    name: A small repair                      # optional, for the message when nothing matches
    context_window: 20000                     # optional, tokens
    delay: 0.01                               # optional, seconds before each piece of text; 0 where not set
    scenes:
      - when: fix the failing test            # text in the prompt, in any case; or /a regular expression of RE2/
        answers:
          - thinking: The test says what is wrong.
            text: I will look at the test first.
            tool_calls:
              - name: read
                arguments: {path: test_a.py}
          - text: Done.
      - when: "*"                             # whatever no scene before it matches
        answers: [{text: I only know one story.}]

Which answer comes is decided from the request alone, so that an agent that was started anew goes on where it was. The
newest user message chooses the scene: the first whose `when` is found in it. The number of answers since that message
is the index in the scene. A scene with `after: N` matches only when at least N user messages came before the newest one
(after a compaction the summary counts as one); `when` may be left out then.

An answer has `text`, `thinking`, `tool_calls` (`name`, `arguments`), `stop` (a stop reason; where not set, `tool_use`
with calls and else `end_turn`) and `usage` (`input`, `output`, `cache_read`, `cache_write`, in tokens). Without `usage`
the tokens are estimated from the request, so that the context meter moves as with a model. Knows no sessions or tools.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import anyio

from acp_agent.config.document import DocumentError, parse_mapping, read_text, validate
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
)
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen
from acp_agent.llm.parts import estimated_tokens, estimated_usage, request_length, user_parts
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
from acp_agent.patterns import Pattern

_PIECE = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+")


@frozen
class Answer:
    """One answer of a scene.

    :ivar stop: None follows from the calls.
    :ivar usage: None is estimated.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop: StopReason | None = None
    usage: Usage | None = None


@frozen
class Scene:
    """What is said to a prompt.

    :ivar when: None matches any prompt.
    :ivar after: user messages that must have come before the prompt.
    """

    when: Pattern | None
    answers: tuple[Answer, ...]
    after: int = 0


@frozen
class Script:
    """A whole script.

    :ivar delay: seconds before each piece of text.
    """

    name: str
    scenes: tuple[Scene, ...]
    context_window: int | None = None
    delay: float = 0.0

    def answer_to(self, request: ModelRequest) -> Answer:
        """The answer to a request; where the script has none, one that says so."""
        prompts = [index for index, message in enumerate(request.messages) if isinstance(message, UserMessage)]
        newest = prompts[-1] if prompts else 0
        prompt = request.messages[newest] if prompts else None
        said = _text(prompt) if isinstance(prompt, UserMessage) else ""
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages[newest:])
        for scene in self.scenes:
            if len(prompts) - 1 >= scene.after and (scene.when is None or scene.when.search(said) is not None):
                if turn < len(scene.answers):
                    return scene.answers[turn]
                return Answer(f"(The script “{self.name}” has come to its end here.)")
        first_line = said.strip().splitlines()[0][:80] if said.strip() else ""
        return Answer(f"(The script “{self.name}” has no answer to “{first_line}”.)")


class ScriptedProvider:
    """Plays a script; needs no key and no network.

    :param name: the word before the slash in `provider/model`; any model's name will do.
    :param path: the script's file, read at the first use.
    """

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path
        self._script: Script | None = None

    @property
    def name(self) -> str:
        """The word before the slash in `provider/model`."""
        return self._name

    async def prewarm(self) -> None:
        """Read the script."""
        self._loaded()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`.

        :raises ConfigError: the script is missing or wrong; names file and line.
        """
        script = self._loaded()
        answer = script.answer_to(request)
        for piece in _pieces(answer.thinking):
            await anyio.sleep(script.delay)
            yield ThinkingDelta(piece)
        for piece in _pieces(answer.text):
            await anyio.sleep(script.delay)
            yield TextDelta(piece)
        parts: list[AssistantPart] = []
        if answer.thinking:
            parts.append(Thinking(answer.thinking, self._name))
        if answer.text:
            parts.append(Text(answer.text))
        parts += answer.tool_calls
        stop = answer.stop or ("tool_use" if answer.tool_calls else "end_turn")
        answered = Answered(tuple(parts), stop, answer.usage or Usage())
        yield answered if answer.usage else replace(answered, usage=estimated_usage(request, answered))

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`; what the script says."""
        return self._loaded().context_window

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`; nobody has to be asked."""

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `Provider.count_tokens`; what its answers say too where the script says nothing."""
        return estimated_tokens(request_length(request))

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`; a script has one, named like its file."""
        return (self._path.stem,)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _loaded(self) -> Script:
        if self._script is None:
            self._script = load_script(self._path)
        return self._script


def load_script(path: Path) -> Script:
    """Read a script.

    :raises ConfigError: it is missing or wrong; names file, line and key.
    """
    from acp_agent.llm.script_schema import ScriptFile

    try:
        text = read_text(path)
        if text is None:
            raise ConfigError("there is no such script; check `script` of the provider", source=str(path))
        return validate(ScriptFile, parse_mapping(text)).script(path.stem)
    except DocumentError as error:
        raise ConfigError(error.message, source=str(path), line=error.line, key=error.key) from error


def _pieces(text: str) -> list[str]:
    """A text word by word; joined they are the text."""
    return _PIECE.findall(text)


def _text(message: UserMessage) -> str:
    return "\n".join(part.text for part in user_parts(message.parts, images=False) if isinstance(part, Text))
