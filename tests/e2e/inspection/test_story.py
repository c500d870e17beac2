"""The story of a session, for every legal log; see `support.logs`."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.cli.inspect.entries import message_text
from acp_agent.cli.inspect.page import totals
from acp_agent.cli.inspect.story import Story
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CompactionFailed,
    ContextSwapped,
    LoggedEvent,
    PartialAnswer,
    SummaryDropped,
    UserPrompted,
)
from acp_agent.conversation.messages import CompactedBlock, Text, Usage
from support.inspection import inspected
from support.logs import LogBuilder, legal_logs

Log = tuple[LoggedEvent, ...]


@given(legal_logs(), st.data())
def test_a_story_that_goes_on_later_is_the_same_as_one_told_at_once(
    log: Log, data: st.DataObject
) -> None:
    pause = data.draw(st.integers(0, len(log)))
    story = Story()
    for logged in log[:pause]:
        story.feed(logged)
    assert story == inspected(log[:pause])
    for logged in log[pause:]:
        story.feed(logged)
    assert story == inspected(log)


@given(legal_logs())
def test_every_item_cost_and_context_of_a_log_is_told_once(log: Log) -> None:
    seen = inspected(log)
    context = Context.from_log(log)
    seqs = [item.seq for turn in seen.turns for item in turn.items]
    assert seqs == sorted(seqs)
    assert [turn.number for turn in seen.turns] == [*range(len(seen.turns))]
    assert len(seen.turns) - 1 == sum(
        isinstance(logged.event, UserPrompted) for logged in log
    )
    for turn, later in itertools.pairwise(seen.turns):
        assert all(turn.seq <= item.seq < later.seq for item in turn.items)
    assert totals(seen)["cost"] == pytest.approx(context.cost)
    assert totals(seen)["compaction_cost"] == pytest.approx(
        sum(each.cost for each in seen.compactions)
    )
    steps = sum(step.cost or 0.0 for step in seen.steps if not step.elsewhere)
    sums = totals(seen)
    assert sums["cost"] == pytest.approx(
        steps + (sums["compaction_cost"] or 0.0) + (sums["other_cost"] or 0.0)
    )
    done = [each for each in seen.compactions if each.status == "completed"]
    assert [each.seq for each in done] == [
        logged.seq for logged in log if isinstance(logged.event, ContextSwapped)
    ]
    for each in done:
        for blocks, seq in ((each.before, each.seq - 1), (each.after, each.seq)):
            entries = Context.from_log(log[:seq]).entries
            assert [block.text for block in blocks] == [
                message_text(entry.message) for entry in entries
            ]
        stays = {block.seq for block in each.after}
        assert {
            block.seq for block in each.before if block.layer == "replaced"
        }.isdisjoint(stays)
        assert {
            block.seq for block in each.before if block.layer in ("tail", "pinned")
        } <= stays


def a_session() -> Story:
    """A turn with two calls and usage, a compaction, its undo, and one that failed."""
    log = LogBuilder()
    log.prompt("Fix the\ncart")
    log.step("I look.", calls=2, usage=Usage(100, 10, 300, 0, 0.25))
    log.step("Done.", usage=Usage(50, 5, 550, 0, 0.25))
    log.end()
    log.swap(summary="All is well.")
    log.restore()
    log.add(
        CompactionFailed(
            "compaction_x", "threshold", "failed", "No room.", Usage(1, 1, cost=0.5)
        )
    )
    log.add(SummaryDropped(Usage(1, 1, cost=1.0)))
    log.prompt("And now?")
    log.add(PartialAnswer("msg_9", "Let me see"))
    return inspected(log.logged)


def test_a_session_is_told_with_its_turns_steps_sizes_and_costs() -> None:
    seen = a_session()
    start, first, second = seen.turns
    assert [item.title for item in start.items] == [
        "Session started",
        "Instructions loaded",
    ]
    assert (first.title, first.stop, second.title, second.stop) == (
        "Fix the cart",
        "end_turn",
        "And now?",
        "",
    )
    assert [(item.kind, item.title, item.status) for item in first.items] == [
        ("prompt", "Prompt", ""),
        ("answer", "Answer", ""),
        ("call", "read: Read /shop/0.py", "completed"),
        ("call", "read: Read /shop/1.py", "completed"),
        ("answer", "Answer", ""),
        ("compaction", "Compaction 1: 1,000 → 100 tokens", "completed"),
        ("undo", "Compaction undone", ""),
        ("compaction", "Compaction 2 failed", "failed"),
        ("note", "A prepared summary was not used", ""),
    ]
    assert [totals(seen)[name] for name in ("steps", "calls", "failed")] == [2, 2, 0]
    assert totals(seen)["cached"] == pytest.approx(0.85)
    assert (totals(seen)["cost"], totals(seen)["compaction_cost"]) == (2.5, 1.0)
    assert [*seen.points] == [
        (1, 410, None),
        (2, 605, None),
        (2, 1000, 0),
        (2, 100, 0),
        (2, 800, None),
    ]
    done, failed = seen.compactions
    assert done.undone == done.seq + 1
    assert (failed.text, failed.before, failed.after) == ("No room.", (), ())


def test_the_layers_of_a_compacted_past_are_told_apart() -> None:
    log = LogBuilder()
    log.prompt("One")
    log.step("1")
    log.end()
    log.prompt("Two")
    kept = log.step("2")
    log.end()
    head = log.head
    layers: tuple[Any, ...] = (
        Text("<carried_over>\nNever touch it.\n</carried_over>"),
        Text("<conversation_summary>\nIt went on.\n</conversation_summary>"),
        Text("<recorded_excerpts>\na.py was read.\n</recorded_excerpts>"),
        Text("<recorded_facts>\nOf version 0.1.\n</recorded_facts>"),
        CompactedBlock("openai", {"secret": "form"}, "The gist."),
    )
    log.add(
        ContextSwapped(
            "compaction_1",
            "msg_1",
            "manual",
            "It went on.",
            layers,
            kept,
            log.context.carried(),
            1000,
            100,
        )
    )
    log.prompt("Three")
    log.step("3")
    log.end()
    second = log.swap()
    one, two = inspected(log.logged).compactions
    assert [(block.layer, block.text) for block in one.after] == [
        ("pinned", layers[0].text),
        ("summary", layers[1].text),
        ("excerpts", layers[2].text),
        ("excerpts", layers[3].text),
        ("summary", "The gist."),
        ("tail", "2"),
    ]
    assert [block.layer for block in one.before] == [
        "replaced",
        "replaced",
        "replaced",
        "tail",
    ]
    # What the next one replaces is again in its layers.
    assert [block.layer for block in two.before][:5] == [
        "pinned",
        "summary",
        "excerpts",
        "excerpts",
        "summary",
    ]
    assert [block.seq for block in two.before][:5] == [head + 1] * 5
    assert [block.layer for block in two.after] == ["summary"]
    assert two.seq == second
