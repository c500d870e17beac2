"""A conversation that is summarised in parts, since one request cannot hold it."""

from __future__ import annotations

import pytest

from acp_agent.compaction.calls import MAX_REQUESTS
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.state import CompactionPolicy
from support.ladder import BY_HAND, MUST_FIT, WINDOW, Model, history, run, state_of


def test_the_request_is_not_made_where_it_cannot_fit_and_the_parts_are() -> None:
    state = state_of(history(30, 4_000))
    assert state.budget.used > WINDOW
    model = Model(["summary"])
    result = run(state, BY_HAND, model)
    assert result is not None
    assert result.strategy == "chunked"
    assert 2 <= len(model.requests) <= 6
    for request in model.requests:
        assert len(request.messages) == 1
        assert estimate_messages(request.messages) + request.max_output_tokens < WINDOW


def test_a_summary_so_far_that_is_longer_than_allowed_is_shortened_so_that_the_next_part_fits() -> None:
    model = Model(["larger than all", "summary"])
    result = run(state_of(history(30, 4_000)), BY_HAND, model)
    assert result is not None
    assert result.strategy == "chunked"
    assert len(model.requests) > 1
    for request in model.requests:
        assert estimate_messages(request.messages) + request.max_output_tokens < WINDOW
    assert "word word" in str(model.requests[1].messages)


def test_parts_fit_the_window_as_the_provider_counts_where_it_counts_more_than_we_do() -> None:
    messages, counts = history(30, 4_000), 2.5
    state = state_of(messages, used=round(counts * estimate_messages(messages)))
    # Each summary so far is as long as it may be.
    model = Model(["large"])
    result = run(state, BY_HAND, model)
    assert result is not None
    assert result.strategy == "chunked"
    assert len(model.requests) > 1
    for request in model.requests:
        assert counts * estimate_messages(request.messages) + request.max_output_tokens < WINDOW


def test_parts_that_are_refused_are_made_smaller_once() -> None:
    model = Model(["overflow", "overflow", "summary"])
    result = run(state_of(history(12, 4_000)), BY_HAND, model)
    assert result is not None
    whole, large, small, *_ = [estimate_messages(request.messages) for request in model.requests]
    assert whole > large > small * 1.5


@pytest.mark.parametrize("policy", [BY_HAND, MUST_FIT])
def test_parts_that_were_refused_are_made_of_as_many_requests_as_are_left(policy: CompactionPolicy) -> None:
    # So many short messages that the oldest parts have to be left out, however short each message is made.
    state = state_of(history(500, 380), window=WINDOW)
    model = Model(["retries, then summary", *["summary"] * 4, "overflow", "summary"])
    result = run(state, policy, model)
    assert result is not None
    assert (result.strategy, model.wire) == ("chunked", MAX_REQUESTS)
    assert "summarised in 4 parts" in result.receipt.notes
    assert any("oldest part" in note for note in result.receipt.notes)


def test_a_summary_takes_six_parts_at_most_so_that_requests_are_left() -> None:
    model = Model(["summary"])
    result = run(state_of(history(500, 380)), BY_HAND, model)
    assert result is not None
    assert (result.strategy, model.wire) == ("chunked", 6)
