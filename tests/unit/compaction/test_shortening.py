"""Only huge texts are cut, and in the middle."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.estimate import (
    MESSAGE_TOKENS,
    estimate_message,
    estimate_messages,
)
from acp_agent.compaction.shortening import (
    FLOOR_TOKENS,
    SHORTEST_PIECE,
    LeftOut,
    Rewrite,
    apply_rewrites,
    cut_middle,
)
from acp_agent.compaction.shortening import fit as fit_entries
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    Message,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from support.histories import History, faults, histories, thinking_of_calls

PASTED = "".join(f"Line {number} of what was pasted.\n" for number in range(5_000))
"""About 40,000 tokens."""
BUDGETS = st.sampled_from([0, 300, 3_000, 30_000, 10**6])


def user(*parts: Text | Image | Resource | ResourceLink) -> UserMessage:
    return UserMessage("u", parts)


def write(content: str, **more: str) -> AssistantMessage:
    return AssistantMessage(
        "a",
        (
            Text("I write."),
            ToolCall("call", "write", {"path": "a.py", "content": content, **more}),
        ),
    )


def result(text: str) -> ToolResult:
    return ToolResult("call", (Text(text),))


def shortened(message: Message, most: int = 2_000) -> Message:
    [entry] = apply_rewrites(entries := (Entry(7, message),), fit(entries, most, None))
    return entry.message


def fit(
    entries: Sequence[Entry], budget: int, turn_from: int | None
) -> tuple[Rewrite, ...]:
    return fit_entries(entries, budget, turn_from, recall_hint=True)


def tokens(entries: tuple[Entry, ...]) -> int:
    return estimate_messages(entry.message for entry in entries)


def smallest(entry: Entry) -> int:
    """More than the smallest form of a message takes: its floor, and what may not be
    changed.
    """
    message = entry.message
    size = estimate_message(entry.message)
    if entry.summary:
        return size
    untouchable = MESSAGE_TOKENS
    for part in message.parts:
        if isinstance(part, Thinking) and part.data:
            untouchable += estimate_message(AssistantMessage("", (part,)))
        else:
            untouchable += FLOOR_TOKENS
    return min(size, max(FLOOR_TOKENS, untouchable))


def same_but_shorter(before: tuple[Entry, ...], after: tuple[Entry, ...]) -> None:
    """Order, ids, calls, error states, summaries and signed thinking are as they were,
    for every provider.
    """
    for old, new in zip(before, after, strict=True):
        assert (old.seq, old.message.role, old.summary) == (
            new.seq,
            new.message.role,
            new.summary,
        )
        assert old == new or estimate_message(new.message) < estimate_message(
            old.message
        )
        assert not old.summary or old == new
        assert new.message.parts
        if isinstance(old.message, AssistantMessage) and isinstance(
            new.message, AssistantMessage
        ):
            assert [(call.id, call.name) for call in old.message.tool_calls] == [
                (call.id, call.name) for call in new.message.tool_calls
            ]
            for call in new.message.tool_calls:
                assert isinstance(json.loads(json.dumps(call.arguments)), dict)
            assert signed(old.message) == signed(new.message)
        if isinstance(old.message, ToolResult) and isinstance(new.message, ToolResult):
            assert (old.message.call_id, old.message.is_error) == (
                new.message.call_id,
                new.message.is_error,
            )
    was, now = (
        tuple(entry.message for entry in entries) for entries in (before, after)
    )
    assert faults(now) == faults(was)
    assert thinking_of_calls(now) == thinking_of_calls(was)


def signed(message: AssistantMessage) -> list[tuple[int, Thinking]]:
    return [
        (place, part)
        for place, part in enumerate(message.parts)
        if isinstance(part, Thinking) and part.data
    ]


@given(histories(), st.sampled_from([100, 1_000, 8_000]))
def test_only_huge_messages_are_shortened_and_they_keep_their_kind(
    history: History, most: int
) -> None:
    entries = history.entries
    after = tuple(
        one
        for entry in entries
        for one in apply_rewrites([entry], fit([entry], most, history.turn_from))
    )
    same_but_shorter(entries, after)
    for old, new in zip(entries, after, strict=True):
        if estimate_message(old.message) <= most:
            assert new == old
        else:
            assert estimate_message(new.message) <= max(most, smallest(old))
    if most > 100:
        assert not any(
            fit([entry], max(most, smallest(old)), None)
            for old, entry in zip(entries, after, strict=True)
        )


@given(histories(), BUDGETS)
def test_a_history_fits_its_budget_or_has_its_smallest_size(
    history: History, budget: int
) -> None:
    entries = history.entries
    after = apply_rewrites(entries, fit(entries, budget, history.turn_from))
    same_but_shorter(entries, after)
    assert tokens(after) <= max(budget, sum(smallest(entry) for entry in entries))
    if tokens(entries) <= budget:
        assert after == entries
    for old, new in zip(entries, after, strict=True):
        assert new == old or estimate_message(old.message) > FLOOR_TOKENS


@given(histories(), BUDGETS)
def test_no_more_is_shortened_than_necessary(history: History, budget: int) -> None:
    entries = history.entries
    rewrites = fit(entries, budget, history.turn_from)
    changed = {rewrite.seq for rewrite in rewrites}
    sizes = {entry.seq: estimate_message(entry.message) for entry in entries}
    for entry in entries:
        # What is larger than a message that was cut has been cut before it, and so has
        # everything but the prompt.
        if (
            entry.seq not in changed
            and not entry.summary
            and entry.seq != history.turn_from
        ):
            assert sizes[entry.seq] <= max(
                smallest(entry), min((sizes[seq] for seq in changed), default=10**9)
            )
    if history.turn_from in changed:
        others = [
            entry
            for entry in apply_rewrites(entries, rewrites)
            if entry.seq != history.turn_from
        ]
        for old, new in zip(
            (entry for entry in entries if entry.seq != history.turn_from),
            others,
            strict=True,
        ):
            assert estimate_message(new.message) <= smallest(old)


@given(
    st.text(st.characters(codec="utf-8"), max_size=2_000),
    st.integers(SHORTEST_PIECE, 1_500),
)
def test_a_cut_text_respects_the_limit_and_keeps_both_ends(
    text: str, limit: int
) -> None:
    cut = cut_middle(text, limit, LeftOut(123_456, recall=True))
    assert len(cut) <= limit or cut == text
    if len(text) <= limit:
        assert cut == text
    elif cut != text:
        head, _, rest = cut.partition("[... ")
        tail = rest.partition(" ...]")[2]
        assert text.startswith(head.removesuffix("\n"))
        assert text.endswith(tail.removeprefix("\n"))


@pytest.mark.parametrize(
    "message",
    [
        user(Text(PASTED)),
        user(Resource("file:///a.log", text=PASTED)),
        user(Text("See:"), Resource("file:///a.bin", blob="AAAA" * 40_000)),
        result(PASTED),
        AssistantMessage("a", (Text(PASTED),)),
        AssistantMessage("a", (Thinking(PASTED), Text("So."))),
        write(PASTED),
        AssistantMessage(
            "a", (ToolCall("call", "write", invalid='{"content": "' + PASTED),)
        ),
        AssistantMessage(
            "a", (ToolCall("call", "plot", {"points": list(range(40_000))}),)
        ),
        user(*(Image("aWk=", "image/png") for _ in range(40))),
    ],
)
def test_every_kind_of_huge_message_gets_below_the_limit(message: Message) -> None:
    assert estimate_message(message) > 20_000
    assert estimate_message(shortened(message)) <= 2_000


def test_a_cut_text_keeps_more_of_its_beginning_and_states_what_is_missing() -> None:
    message = shortened(user(Text(PASTED)))
    (part,) = message.parts
    assert isinstance(part, Text)
    head = part.text.partition("[... ")[0]
    line = part.text.partition("[... ")[2]
    tail = part.text.partition(" ...]")[2]
    missing = len(PASTED) - len(head) - len(tail.removeprefix("\n"))
    lines = PASTED.count("\n") - head.count("\n") - tail.removeprefix("\n").count("\n")
    assert PASTED.startswith(head)
    assert PASTED.endswith(tail)
    assert line.startswith(
        f"{missing:,} characters ({lines:,} lines) left out; `recall` reads entry #7 in full"
    )
    assert 1_800 < estimate_message(message) <= 2_000
    assert 1.5 < len(head) / len(tail) < 2.5


def changed(*messages: Message, budget: int, turn_from: int | None = None) -> list[int]:
    entries = tuple(
        Entry(number, message) for number, message in enumerate(messages, 1)
    )
    return [rewrite.seq for rewrite in fit(entries, budget, turn_from)]
