"""A prepared summary takes its place as if it had been written at once: for any history and whatever came since."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from acp_agent.compaction.assembling import assembled
from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.framing import frame, layer_of
from acp_agent.compaction.pinned import render_pinned
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Draft, planned_cut
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    Event,
    InstructionsLoaded,
    LoggedEvent,
    Receipt,
    ToolReturned,
)
from acp_agent.conversation.messages import Message, Text, UserMessage
from acp_agent.hooks.handlers import builtin_handlers, known_handlers
from acp_agent.llm.provider import ModelRequest
from acp_agent.recipes.library import RecipeLibrary, builtin_recipes_dir
from acp_agent.session.commands import COMPACT
from acp_agent.session.swapping import swap_events
from support.logs import LogBuilder, is_legal, legal_logs

HANDLERS = known_handlers(builtin_handlers().values())
RECIPE = RecipeLibrary.discover(builtin_recipes_dir(), None, None, HANDLERS).recipes[COMPACT]
POLICY = CompactionPolicy("Summarise.")


def compacted(context: Context, tail: int) -> CompactedState | None:
    """What a model's summary of this context comes to, with a tail of so many tokens."""
    state = state_of(context)
    cut = planned_cut(state, POLICY, tail)
    return None if cut is None else assembled(state, POLICY, Draft(cut, "So far so good."), "summary")


def state_of(context: Context) -> ConversationState:
    request = ModelRequest("one", context.instructions, context.messages)
    return ConversationState.from_context(context, request, TokenBudget(10_000, 1_000))


def swapped(context: Context, frozen: Context, result: CompactedState) -> tuple[Event, ...]:
    """The events that put a result, made of `frozen`, into the context as it is."""
    fresh, swap = swap_events(
        context,
        state_of(frozen),
        result,
        compaction_id="cmp",
        trigger="threshold",
        recipe=RECIPE,
        instructions=InstructionsLoaded(context.instructions),
        receipt=Receipt(),
    )
    return (*fresh, swap)


def logged(events: Iterable[Event]) -> list[LoggedEvent]:
    return [LoggedEvent(seq, 1_700_000_000_000 + seq, event) for seq, event in enumerate(events, 1)]


def messages_of(context: Context) -> list[tuple[Message, bool, bool]]:
    return [(entry.message, entry.note, entry.shortened) for entry in context.entries if not entry.summary]


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(legal_logs(), st.data(), st.integers(0, 60))
def test_a_splice_equals_a_compaction_at_once_and_what_came_since(
    log: tuple[LoggedEvent, ...], data: st.DataObject, tail: int
) -> None:
    contexts = list(accumulate(log, Context.apply, initial=Context()))
    whole = [place for place, context in enumerate(contexts) if context.entries and not context.open_calls]
    assume(whole)
    then = data.draw(st.sampled_from(whole), label="frozen after")
    later = [place for place in whole if place >= then and contexts[place].revision == contexts[then].revision]
    now = data.draw(st.sampled_from(later), label="spliced after")
    result = compacted(contexts[then], tail)
    assume(result is not None)
    assert result is not None

    events = [entry.event for entry in log]
    at_once = logged(
        [*events[:then], *swapped(contexts[then], contexts[then], result), *events[then:now]],
    )
    spliced = logged([*events[:now], *swapped(contexts[now], contexts[then], result)])
    expected, context = Context.from_log(at_once), Context.from_log(spliced)

    assert messages_of(context) == messages_of(expected)
    assert is_legal(context.messages)
    assert (context.turn_from is None) == (expected.turn_from is None)
    for name in ("memory", "files", "mode", "model", "plan", "grants", "instructions", "title", "thought_level"):
        assert getattr(context, name) == getattr(expected, name), name
    assert round(context.cost, 6) == round(expected.cost, 6)
    # The layers say what is in force now, which a compaction at once could not know.
    assert layers(context) == [
        *(layer.text for layer in frame(_carried(context), "", "", recall=True)),
        *(layer for layer in layers(expected) if layer_of(Text(layer)) != "pinned"),
    ]
    assert Context.from_log(spliced[context.fold_from - 1 :]) == context


def layers(context: Context) -> list[str]:
    [summary] = [entry.message for entry in context.entries if entry.summary]
    assert isinstance(summary, UserMessage)
    return [part.text for part in summary.parts if isinstance(part, Text)]


def _carried(context: Context) -> str:
    return render_pinned(
        context.memory, mode=context.mode, grants=sorted(context.grants), plan=context.plan, recall=True
    )


def test_the_prompt_of_a_turn_that_has_ended_meanwhile_is_not_lost() -> None:
    log = LogBuilder()
    log.prompt("Fix the cart, and never touch the tests.")
    log.step("I look. " * 200, calls=1)
    log.step("I look again.", calls=1)
    frozen = log.context
    result = compacted(frozen, 10)
    assert result is not None
    assert [pin.message for pin in result.pinned] == [frozen.messages[0]]
    log.step("Done.")
    log.end()
    log.prompt("And now?")
    log.add(*swapped(log.context, frozen, result))

    said = [
        part.text
        for m in log.context.messages
        if isinstance(m, UserMessage)
        for part in m.parts[-1:]
        if isinstance(part, Text)
    ]
    assert said[-2:] == ["Fix the cart, and never touch the tests.", "And now?"]
    assert is_legal(log.context.messages)


def test_what_the_user_took_back_meanwhile_is_carried_no_more() -> None:
    log = LogBuilder()
    log.pin("Mind the gap.")
    log.prompt("One?")
    log.step("I look. " * 200)
    log.end()
    frozen = log.context
    result = compacted(frozen, 0)
    assert result is not None
    assert any("Mind the gap." in layer.text for layer in result.sent if isinstance(layer, Text))
    log.unpin(1)
    log.add(*swapped(log.context, frozen, result))
    assert not any("Mind the gap." in layer for layer in layers(log.context))


def test_a_file_read_behind_the_cut_is_still_seen_and_an_older_one_is_not() -> None:
    log = LogBuilder()
    log.prompt("One?")
    log.step("I look. " * 200, calls=2)
    log.end()
    log.prompt("Two?")
    frozen = log.context
    result = compacted(frozen, 0)
    assert result is not None
    log.step("Again.", calls=1)
    log.add(*swapped(log.context, frozen, result))
    returned = [event.files[0] for event in log.events if isinstance(event, ToolReturned)][-1]
    assert log.context.files == {returned.path: returned.digest}
