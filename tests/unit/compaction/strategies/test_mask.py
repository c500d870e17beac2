"""Masking replaces old results with lines that name the call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.cuts import unanswered_from
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.shortening import Rewrite, _mask_images, apply_rewrites
from acp_agent.compaction.strategies.modelless import MASKED, _plan_mask
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.llm.parts import is_picture
from support.histories import History, faults, histories

TEXT = "A line of a file, or of what a command printed.\n" * 40
"""480 tokens."""


class Log:
    """Return steps of one call each."""

    def __init__(self) -> None:
        self.entries: tuple[Entry, ...] = ()
        self.user()

    def user(self) -> int:
        return self._add(UserMessage("u", (Text("Fix it."),)))

    def call(
        self,
        name: str,
        arguments: JsonObject,
        text: str = TEXT,
        *,
        is_error: bool = False,
    ) -> int:
        """Return the sequence number of the result."""
        call_id = f"call_{len(self.entries)}"
        self._add(AssistantMessage("a", (ToolCall(call_id, name, arguments),)))
        return self._add(ToolResult(call_id, (Text(text),), is_error=is_error))

    def end(self) -> None:
        self._add(AssistantMessage("a", (Text("Done."),)))

    def _add(self, message: Message) -> int:
        seq = len(self.entries) + 1
        self.entries = (*self.entries, Entry(seq, message))
        return seq


def plan(
    entries: tuple[Entry, ...],
    *,
    turn_from: int | None = None,
    tail: int = 0,
    at_least: int = 1,
    target: int | None = None,
) -> tuple[Rewrite, ...]:
    return _plan_mask(
        entries,
        recall_hint=True,
        turn_from=turn_from,
        keep_tail_tokens=tail,
        clear_at_least=at_least,
        target_tokens=target,
    )


def tokens(entries: tuple[Entry, ...]) -> int:
    return estimate_messages(entry.message for entry in entries)


def seqs(rewrites: tuple[Rewrite, ...]) -> list[int]:
    return [rewrite.seq for rewrite in rewrites]


def line(rewrite: Rewrite) -> str:
    (part,) = rewrite.message.parts
    assert isinstance(part, Text)
    return part.text


SIZES = st.sampled_from([0, 50, 2_000, 50_000])


@given(histories(), SIZES, st.sampled_from([1, 500, 20_000]), st.none() | SIZES)
def test_masking_changes_only_results_frees_enough_and_is_idempotent(
    history: History, tail: int, at_least: int, target: int | None
) -> None:
    entries = history.entries
    rewrites = plan(
        entries,
        turn_from=history.turn_from,
        tail=tail,
        at_least=at_least,
        target=target,
    )
    masked = apply_rewrites(entries, rewrites)
    assert not rewrites or tokens(entries) - tokens(masked) >= at_least
    protected = unanswered_from(entries, history.turn_from)
    for index, (before, after) in enumerate(zip(entries, masked, strict=True)):
        if before == after:
            continue
        assert isinstance(before.message, ToolResult)
        assert isinstance(after.message, ToolResult)
        assert after.message.text.startswith(MASKED)
        assert (after.seq, after.message.call_id, after.message.is_error) == (
            before.seq,
            before.message.call_id,
            before.message.is_error,
        )
        assert index < protected
        assert tokens(entries[index:]) > tail
    assert faults(entry.message for entry in masked) == faults(
        entry.message for entry in entries
    )
    assert not plan(
        masked, turn_from=history.turn_from, tail=tail, at_least=at_least, target=target
    )


@given(histories(), SIZES, st.sampled_from([1, 500]), SIZES)
def test_masking_stops_one_batch_below_its_target(
    history: History, tail: int, at_least: int, target: int
) -> None:
    entries = history.entries
    turn_from = history.turn_from
    rewrites = plan(
        entries, turn_from=turn_from, tail=tail, at_least=at_least, target=target
    )
    if not rewrites:
        return
    assert tokens(entries) > target
    everything = plan(entries, turn_from=turn_from, tail=tail, at_least=at_least)
    assert set(seqs(rewrites)) <= set(seqs(everything))
    reached = tokens(apply_rewrites(entries, rewrites)) <= target - at_least
    assert reached or rewrites == everything
    # One result less would not have reached it, whichever was the last.
    without_one = [
        tuple(other for other in rewrites if other is not one) for one in rewrites
    ]
    assert any(
        tokens(apply_rewrites(entries, fewer)) > target - at_least
        for fewer in without_one
    )


@given(histories(), st.integers(0, 6))
def test_only_the_newest_images_are_kept(history: History, most: int) -> None:
    entries = history.entries
    rewrites = _mask_images(entries, most, recall_hint=True)
    masked = apply_rewrites(entries, rewrites)
    before = images(entries)
    after = images(masked)
    assert after == before[max(0, len(before) - most) :]
    assert faults(entry.message for entry in masked) == faults(
        entry.message for entry in entries
    )
    assert not _mask_images(masked, most, recall_hint=True)
    for old, new in zip(entries, masked, strict=True):
        assert (old.seq, old.message.role, len(old.message.parts)) == (
            new.seq,
            new.message.role,
            len(new.message.parts),
        )
        for part, now in zip(old.message.parts, new.message.parts, strict=True):
            assert part == now or (
                is_picture(part) and isinstance(now, Text) and f"#{old.seq}" in now.text
            )


def images(entries: tuple[Entry, ...]) -> list[object]:
    return [
        part for entry in entries for part in entry.message.parts if is_picture(part)
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        (
            "read",
            {"offset": 3, "path": "src/app.py"},
            "read src/app.py: 484 tokens left out",
        ),
        ("grep", {"pattern": "def main", "path": "src"}, "grep def main: "),
        ("shell", {"command": "make\n  test"}, "shell make test: "),
        ("mcp__git__log", {"limit": 3, "branch": "main"}, "mcp__git__log main: "),
        ("list", {}, "list: "),
        ("shell", {"command": "x" * 900}, f"shell {'x' * 100}...: "),
    ],
)
def test_a_placeholder_names_the_call_its_size_and_where_to_read_it(
    name: str, arguments: JsonObject, named: str
) -> None:
    log = Log()
    seq = log.call(name, arguments)
    log.end()
    (rewrite,) = plan(log.entries)
    assert line(rewrite).startswith(f"{MASKED} {named}")
    assert line(rewrite).endswith(f"; `recall` reads entry #{seq} in full")
    assert "\n" not in line(rewrite)
