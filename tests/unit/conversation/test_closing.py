"""Closing turns that were cancelled or interrupted."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.closing import closing_events, was_cancelled
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CallView, LoggedEvent, ToolReturned
from acp_agent.conversation.messages import AssistantMessage
from support.logs import is_legal, legal_logs


@given(legal_logs(), st.data())
def test_closing_a_log_cut_off_anywhere_makes_it_valid_and_keeps_all_shown_text(
    log: tuple[LoggedEvent, ...], data: st.DataObject
) -> None:
    broken = Context.from_log(log[: data.draw(st.integers(0, len(log)))])
    context = broken
    for event in closing_events(
        broken, "interrupted", lambda call: CallView(call.name)
    ):
        context = context.apply(LoggedEvent(context.head + 1, 0, event))
    assert is_legal(context.messages)
    assert context.partial is None
    assert context.entries[: len(broken.entries)] == broken.entries
    if broken.partial is not None and broken.partial.text:
        last = context.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert (last.id, last.text, last.stop_reason) == (
            broken.partial.message_id,
            broken.partial.text,
            "interrupted",
        )
    assert (
        closing_events(context, "interrupted", lambda call: CallView(call.name)) == ()
    )


@given(
    legal_logs(),
    st.data(),
    st.sampled_from(["cancelled", "interrupted"]),
    st.booleans(),
)
def test_only_a_started_first_open_call_may_have_had_an_effect(
    log: tuple[LoggedEvent, ...],
    data: st.DataObject,
    reason: Literal["cancelled", "interrupted"],
    is_known: bool,
) -> None:
    broken = Context.from_log(log[: data.draw(st.integers(0, len(log)))])
    ids = [call.id for call in broken.open_calls]
    started = (
        data.draw(st.sampled_from(["", "call_before", *ids[:1]])) if is_known else None
    )
    results = [
        event.result
        for event in closing_events(
            broken, reason, lambda call: CallView(call.name), started
        )
        if isinstance(event, ToolReturned)
    ]
    assert [result.call_id for result in results] == ids
    may_have_run = ["had no effect" not in str(result.parts) for result in results]
    assert may_have_run == [
        started in (None, call_id) and call_id == ids[0] for call_id in ids
    ]
    assert all(was_cancelled(result) == (reason == "cancelled") for result in results)
