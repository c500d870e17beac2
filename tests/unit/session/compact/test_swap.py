"""Swapping in a prepared summary has the same result as an immediate compaction, for
any history and any later messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import cast

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from acp_agent.compaction.assembly import accepted, refreshed
from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.frame import layer_of
from acp_agent.compaction.layers import planned_cut
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
)
from acp_agent.compaction.strategy import Draft
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    Event,
    InstructionsLoaded,
    LoggedEvent,
)
from acp_agent.conversation.messages import Message, Text, UserMessage
from acp_agent.errors import CompactionError
from acp_agent.hooks.handlers import known_handlers
from acp_agent.llm.provider import ModelRequest
from acp_agent.recipes.discovery import RecipeFolder, RecipeLibrary, builtin_recipes_dir
from acp_agent.recipes.model import Known
from acp_agent.session.commands import COMPACT
from acp_agent.session.compact.order import Order
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.recipes.run import RecipeRun
from support.logs import LogBuilder, is_legal, legal_logs

HANDLERS = known_handlers()
RECIPE = RecipeLibrary.read(
    [RecipeFolder("builtin", builtin_recipes_dir())], Known(HANDLERS)
).recipes[COMPACT]
POLICY = CompactionPolicy("Summarise.", size=50_000)
LONG = Text("The cart adds prices, and prices are cents. " * 200)


NOBODY = cast(ActiveModel, None)
"""No model is asked."""


def compacted(context: Context, tail: int) -> CompactedState | None:
    """Return the result of a model's summary of this context with a tail of this many
    tokens; None if the summary gains nothing.
    """
    state = state_of(context)
    cut = planned_cut(state, 50_000, tail=tail, leave_tail=False)
    try:
        return cut and accepted(
            state, POLICY, Draft(cut, "So far so good."), "summary", 50_000, None
        )
    except CompactionError:
        return None


def state_of(context: Context) -> ConversationState:
    request = ModelRequest("one", context.instructions, context.messages)
    return ConversationState.from_context(context, request, TokenBudget(100_000, 1_000))


def swapped(context: Context, result: CompactedState) -> tuple[Event, ...]:
    """Return the events that swap a prepared result into the current context."""
    state = state_of(context)
    run = RecipeRun(RECIPE, "")
    index = ExcerptIndex.of(state.originals)
    order = Order(
        run, "threshold", state, context.revision, POLICY, NOBODY, None, None, index
    )
    again = refreshed(result, state, POLICY, index)
    return order.swap_events(
        again, "cmp", InstructionsLoaded(context.instructions), context
    )


def with_long_answers(log: Iterable[LoggedEvent]) -> list[Event]:
    """Return the log's events with answers so long that a summary of them pays."""
    events: list[Event] = []
    for each in log:
        event = each.event
        if isinstance(event, AssistantAnswered):
            event = replace(
                event,
                message=replace(event.message, parts=(LONG, *event.message.parts)),
            )
        events.append(event)
    return events


def logged(events: Iterable[Event]) -> list[LoggedEvent]:
    return [
        LoggedEvent(seq, 1_700_000_000_000 + seq, event)
        for seq, event in enumerate(events, 1)
    ]


def messages_of(context: Context) -> list[tuple[Message, bool, bool]]:
    return [
        (entry.message, entry.note, entry.shortened)
        for entry in context.entries
        if not entry.summary
    ]


def layers(context: Context) -> list[Text]:
    [summary] = [entry.message for entry in context.entries if entry.summary]
    return [part for part in summary.parts if isinstance(part, Text)]


@settings(
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(legal_logs(), st.data(), st.integers(0, 3_000))
def test_a_prepared_swap_equals_an_immediate_one_plus_later_messages(
    log: tuple[LoggedEvent, ...], data: st.DataObject, tail: int
) -> None:
    events = with_long_answers(log)
    contexts = list(accumulate(logged(events), Context.apply, initial=Context()))
    whole = [
        place
        for place, context in enumerate(contexts)
        if context.entries and not context.open_calls
    ]
    assume(whole)
    then = data.draw(st.sampled_from(whole), label="frozen after")
    later = [
        place
        for place in whole
        if place >= then and contexts[place].revision == contexts[then].revision
    ]
    now = data.draw(st.sampled_from(later), label="spliced after")
    result = compacted(contexts[then], tail)
    assume(result is not None)
    assert result is not None

    at_once = logged(
        [*events[:then], *swapped(contexts[then], result), *events[then:now]]
    )
    spliced = logged([*events[:now], *swapped(contexts[now], result)])
    expected = Context.from_log(at_once)
    context = Context.from_log(spliced)

    assert messages_of(context) == messages_of(expected)
    assert is_legal(context.messages)
    assert (context.turn_from is None) == (expected.turn_from is None)
    for name in (
        "memory",
        "files",
        "mode",
        "model",
        "plan",
        "grants",
        "instructions",
        "title",
        "thought_level",
    ):
        assert getattr(context, name) == getattr(expected, name), name
    assert round(context.cost, 6) == round(expected.cost, 6)
    # The other layers contain the current state, which an immediate compaction could
    # not know.
    summaries = [
        [part for part in layers(each) if layer_of(part) == "summary"]
        for each in (context, expected)
    ]
    assert summaries[0] == summaries[1]
    assert Context.from_log(spliced[context.fold_from - 1 :]) == context


def test_the_prompt_of_a_turn_that_ended_in_the_meantime_is_not_lost() -> None:
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
    log.add(*swapped(log.context, result))

    said = [
        part.text
        for m in log.context.messages
        if isinstance(m, UserMessage)
        for part in m.parts[-1:]
        if isinstance(part, Text)
    ]
    assert said[-2:] == ["Fix the cart, and never touch the tests.", "And now?"]
    assert is_legal(log.context.messages)
