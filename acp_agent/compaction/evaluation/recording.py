"""A recorded session of any agent as messages of ours, and the builder that makes them legal.

Recordings break off, were edited or name one call twice; whatever an importer hands over, what comes out could be sent
to a provider: every call has one result right behind its answer, and every id is unique.
"""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    JsonObject,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.frozen import frozen

NO_RESULT = "The recording has no result of this call."


@frozen
class Recording:
    """A session as it was recorded.

    :ivar name: what it is called in reports.
    :ivar form: the form that it was recorded in, for people.
    :ivar entries: its messages, numbered from 1.
    :ivar system: the system prompt, where it was recorded.
    :ivar cwd: the working directory, absolute; empty where it is not known.
    :ivar notice: a sentence about what could not be read, with its place; empty where all was.
    """

    name: str
    form: str
    entries: tuple[Entry, ...]
    system: str = ""
    cwd: str = ""
    notice: str = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages without their numbers."""
        return tuple(entry.message for entry in self.entries)


@dataclass(slots=True)
class _Step:
    """A user's message, or an answer with its calls."""

    user: bool
    parts: list[AssistantPart]
    key: str = ""


class RecordingBuilder:
    """Collects what was said, in the order of the recording.

    :ivar system: the system prompt so far.
    :ivar cwd: the working directory, once it is known.
    """

    def __init__(self) -> None:
        self.system = ""
        self.cwd = ""
        self._steps: list[_Step] = []
        self._results: dict[str, ToolResult] = {}
        self._open: dict[str, str] = {}
        self._calls = 0
        self._sealed = True

    def add_system(self, text: str) -> None:
        """A system prompt, or one more piece of it."""
        self.system = f"{self.system}\n\n{_clean(text)}".strip()

    def user(self, text: str) -> None:
        """Something that the user said; an empty text counts as nothing."""
        if text := _clean(text).strip():
            self._steps.append(_Step(True, [Text(text)]))
            self._sealed = True

    def text(self, text: str, key: str = "") -> None:
        """Visible text of an answer.

        :param key: name of the answer in the recording, where one answer is recorded in pieces.
        """
        if text := _clean(text).strip():
            self._answer(key).parts.append(Text(text))

    def thinking(self, text: str, key: str = "") -> None:
        """Reasoning of an answer."""
        if text := _clean(text).strip():
            self._answer(key).parts.append(Thinking(text))

    def call(self, recorded_id: str, name: str, arguments: JsonObject, key: str = "") -> None:
        """A call of a tool.

        :param recorded_id: its id in the recording, which need not be unique; results are given under it.
        """
        self._calls += 1
        own = f"call_{self._calls}"
        self._open[recorded_id] = own
        self._answer(key).parts.append(ToolCall(own, _clean(name) or "tool", arguments))

    def result(self, recorded_id: str, text: str, *, is_error: bool = False) -> None:
        """What a tool answered; a second result of a call, or one of no call, is left out."""
        own = self._open.pop(recorded_id, None)
        if own is not None:
            self._results[own] = ToolResult(own, (Text(_clean(text)),), is_error)
            self._sealed = True

    def build(self, name: str, form: str) -> Recording:
        """The recording."""
        messages: list[Message] = []
        for number, step in enumerate(self._steps, 1):
            if step.user:
                parts = tuple(part for part in step.parts if isinstance(part, Text))
                messages.append(UserMessage(f"msg_{number}", parts))
                continue
            answer = AssistantMessage(f"msg_{number}", tuple(step.parts))
            messages.append(answer)
            messages += [self._results.get(call.id) or _missing(call) for call in answer.tool_calls]
        entries = tuple(Entry(seq, message) for seq, message in enumerate(messages, 1))
        return Recording(name, form, entries, self.system, self.cwd)

    def _answer(self, key: str) -> _Step:
        """The answer that is being recorded: a new one after a user's message, a result, or with another name."""
        last = self._steps[-1] if self._steps else None
        if last is None or last.user or (self._sealed and not (key and key == last.key)) or key != last.key:
            last = _Step(False, [], key)
            self._steps.append(last)
        self._sealed = False
        return last


def _missing(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, (Text(NO_RESULT),), is_error=True)


def _clean(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can hold and no terminal or provider takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
