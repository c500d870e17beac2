"""Histories of every shape that a compaction may meet, and what providers demand of
them on the wire.

    @given(histories())                     # History(entries, turn_from)
    faults(messages)                        # what is torn, on all three wires; empty for a legal request
    behind_summary(messages)                # the same messages as a compaction leaves them

The rules are checked on what the real converters make of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Image,
    Message,
    Resource,
    ResourceLink,
    ResultPart,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
    UserPart,
)
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from support.adapters import wire_body
from support.dialogues import torn

SUMMARY = UserMessage("summary", (Text("What happened before."),))
LINES = "".join(f"{number}\tA line of some file, Grüße.\n" for number in range(120))
SHORT = st.sampled_from(["Hello", " \n", "Grüße, Welt 🌱", "two\nlines"])
TEXTS = SHORT | st.sampled_from(["words and words " * 90, LINES, LINES * 6])
IMAGE = Image("aWk=", "image/png", "file:///shop/a.png")
THOUGHTS = st.sampled_from(
    [
        Thinking(
            "Hm. " * 600, "anthropic", {"type": "thinking", "signature": "s" * 40}
        ),
        Thinking("", "anthropic", {"type": "redacted_thinking", "data": "d" * 900}),
        Thinking(
            "Hm.",
            "openai",
            {
                "type": "reasoning",
                "id": "rs",
                "summary": [],
                "encrypted_content": "e" * 900,
            },
        ),
        Thinking(
            "",
            "local",
            {"extra_content": {"0": {"google": {"thought_signature": "x"}}}},
        ),
        Thinking("Of no provider's own. " * 30),
    ]
)
_CUT_OFF: tuple[StopReason, ...] = ("pause_turn", "max_tokens", "interrupted")
_PATHS = st.sampled_from(["a.py", "b.py", "./a.py"])
_ARGUMENTS: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    _PATHS.map(lambda path: ("read", {"path": path})),
    st.tuples(_PATHS, st.integers(1, 3)).map(
        lambda read: ("read", {"path": read[0], "offset": read[1]})
    ),
    st.tuples(_PATHS, TEXTS).map(
        lambda write: ("write", {"path": write[0], "content": write[1]})
    ),
    st.tuples(_PATHS, TEXTS).map(
        lambda edit: (
            "edit",
            {"path": edit[0], "edits": [{"old_text": edit[1], "new_text": "x"}] * 2},
        )
    ),
    st.sampled_from(
        [
            ("shell", {"command": "make test"}),
            ("plan", {"entries": []}),
            ("deploy", {"steps": [1] * 900}),
        ]
    ),
)


@dataclass(frozen=True, slots=True)
class History:
    """Entries of a context, and the seq of the prompt whose turn still runs."""

    entries: tuple[Entry, ...]
    turn_from: int | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(entry.message for entry in self.entries)


class _Builder:
    def __init__(self, draw: st.DrawFn, texts: st.SearchStrategy[str]) -> None:
        self.draw = draw
        self.texts = texts
        self.entries: list[Entry] = []
        self._seq = 0

    def add(self, message: Message, *, summary: bool = False) -> int:
        self._seq += 1 + self._seq % 3  # other events stand between the messages
        self.entries.append(Entry(self._seq, message, summary))
        return self._seq

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(1, one_in)) == one_in

    def user(self) -> int:
        parts: list[UserPart] = [Text(self.draw(self.texts))]
        if self.chance(4):
            other = st.sampled_from(
                [
                    IMAGE,
                    ResourceLink("file:///shop/b.py", "b.py"),
                    Resource("file:///shop/c.py", text=LINES),
                    Resource(
                        "file:///shop/d.png", blob="aWk=" * 700, mime_type="image/png"
                    ),
                    Resource(
                        "file:///shop/e.bin",
                        blob="AAAA" * 700,
                        mime_type="application/zip",
                    ),
                ]
            )
            parts += self.draw(st.lists(other, min_size=1, max_size=3))
        return self.add(UserMessage(f"msg_{self._seq}", tuple(parts)))

    def step(self, *, calls: int, results: int | None = None) -> None:
        """An answer, in several messages where it was paused or cut off, and the
        results of its calls.

        :param results: how many have come so far; all where it is left out.
        """
        for _ in range(self.draw(st.sampled_from([0, 0, 0, 1, 2]))):
            said = (*self._thoughts(), Text(self.draw(self.texts)))
            reason = self.draw(st.sampled_from(_CUT_OFF))
            self.add(AssistantMessage(f"msg_{self._seq}", said, "anthropic/a", reason))
        parts: list[AssistantPart] = [*self._thoughts()]
        if not calls or self.chance(2):
            parts.append(Text(self.draw(self.texts)))
        asked = [
            ToolCall(f"call_{self._seq}_{number}", *self.draw(_ARGUMENTS))
            for number in range(calls)
        ]
        if asked and self.chance(8):
            asked[0] = ToolCall(
                asked[0].id, "write", invalid='{"path": "a.py", "content": "' + LINES
            )
        self.add(
            AssistantMessage(
                f"msg_{self._seq}", (*parts, *asked), "anthropic/a", "tool_use"
            )
        )
        order = self.draw(st.permutations(asked)) if calls > 1 else asked
        for call in order[:results]:
            self.add(self._result(call.id))

    def stray(self) -> None:
        self.add(self._result(f"stray_{self._seq}"))

    def _result(self, call_id: str) -> ToolResult:
        said: list[ResultPart] = [Text(self.draw(self.texts))]
        if self.chance(5):
            said.append(IMAGE)
        return ToolResult(call_id, tuple(said), is_error=self.chance(4))

    def _thoughts(self) -> list[Thinking]:
        return self.draw(st.lists(THOUGHTS, max_size=2)) if self.chance(2) else []


@st.composite
def histories(
    draw: st.DrawFn, *, texts: st.SearchStrategy[str] = TEXTS, strays: bool = False
) -> History:
    """Legal histories, with or without an earlier summary, whose last turn is over or
    runs at any stage.

    :param texts: what is said; by default also what is far too long.
    :param strays: whether results without a call may stand at the beginning of a turn,
        as in imported transcripts.
    """
    built = _Builder(draw, texts)
    if built.chance(3):
        built.add(SUMMARY, summary=True)
    turn_from = None
    # The last turn is over, runs and could be asked to go on, waits for some calls, or
    # was killed meanwhile, so that it does not run and its calls are not closed yet.
    end = draw(st.sampled_from(["over", "runs", "calls", "killed"]))
    turns = draw(st.integers(0 if end == "over" else 1, 3))
    for turn in range(turns):
        if strays and built.chance(2):
            built.stray()
        if built.chance(5):
            built.user()
        prompt = built.user()
        for _ in range(draw(st.integers(0, 3))):
            built.step(calls=draw(st.integers(1, 3)))
            if built.chance(6):
                built.user()  # a note to the model in mid-turn
        if turn < turns - 1 or end == "over":
            built.step(calls=0)
            continue
        if end != "runs":
            calls = draw(st.integers(1, 3))
            built.step(calls=calls, results=draw(st.integers(0, calls - 1)))
        if end != "killed":
            turn_from = prompt
    return History(tuple(built.entries), turn_from)


def behind_summary(messages: Iterable[Message]) -> tuple[Message, ...]:
    return (SUMMARY, *messages)


def _sent(dialect: str, messages: Iterable[Message]) -> Any:
    return wire_body(dialect, ModelRequest("m", "", tuple(messages)), ModelProfile())


def anthropic(messages: Iterable[Message]) -> list[Any]:
    """The messages in Anthropic's words, without the marks of its cache."""
    wire = _sent("anthropic", messages)["messages"]
    for block in (block for message in wire for block in message["content"]):
        block.pop("cache_control", None)
    return wire


def responses(messages: Iterable[Message]) -> list[Any]:
    return _sent("openai", messages)["input"]


def chat(messages: Iterable[Message]) -> list[Any]:
    return _sent("chat", messages)["messages"]


def faults(messages: Iterable[Message]) -> set[str]:
    """What a provider would refuse, by wire and by call; thinking aside, which only a
    comparison shows.
    """
    messages = tuple(messages)
    blocks = anthropic(messages)
    items = responses(messages)
    turns = chat(messages)
    found = {
        f"{wire}: {fault}"
        for wire, body in (
            ("anthropic", {"messages": blocks}),
            ("responses", {"input": items}),
            ("chat", {"messages": turns}),
        )
        for fault in torn(body)
    }
    if any(
        not each["content"] or any(block.get("text") == "" for block in each["content"])
        for each in blocks
    ):
        found.add("anthropic: an empty message")
    led = ("reasoning", "assistant", "function_call")
    kinds = [*(item.get("type", item.get("role")) for item in items), "the end"]
    if any(one == "reasoning" and then not in led for one, then in pairwise(kinds)):
        found.add("responses: reasoning without what it led to")
    if any(one["role"] == then["role"] == "user" for one, then in pairwise(turns)):
        found.add("chat: two messages of the user in a row")
    return found


def begins_with_result(messages: Sequence[Message]) -> bool:
    """Whether the first message is a result where it follows a summary, on any wire."""
    sent = behind_summary(messages[:1])
    return (
        any(block["type"] == "tool_result" for block in anthropic(sent)[0]["content"])
        or any(item.get("type") == "function_call_output" for item in responses(sent))
        or any(message["role"] == "tool" for message in chat(sent))
    )


def thinking_of_calls(messages: Iterable[Message]) -> dict[str, list[Any]]:
    """What was thought before each call in what a provider reads as one answer, by wire
    and call.
    """
    messages = tuple(messages)
    found: dict[str, list[Any]] = {}
    for message in anthropic(messages):
        thought: list[Any] = []
        for block in message["content"]:
            if block["type"] in ("thinking", "redacted_thinking"):
                thought.append(block)
            elif block["type"] == "tool_use":
                found[f"anthropic {block['id']}"] = list(thought)
    thought = []
    for item in responses(messages):
        if item.get("type") == "reasoning":
            thought.append(item)
        elif item.get("type") == "function_call":
            found[f"responses {item['call_id']}"] = list(thought)
        elif item.get("role") != "assistant":
            thought = []
    for message in chat(messages):
        for call in message.get("tool_calls", ()):
            found[f"chat {call['id']}"] = [call.get("extra_content")]
    return found
