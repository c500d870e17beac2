"""Learning a model's window from refusals, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import SURE_SHARE
from acp_agent.compaction.estimate import DOUBT, MAX_CALIBRATION
from acp_agent.errors import ContextOverflowError
from acp_agent.session.models.learned import LEAST_WINDOW, LearnedWindow

TOKENS = st.integers(1, 1_000_000)
REFUSED = ContextOverflowError("no")


@given(st.lists(TOKENS, min_size=1, max_size=4))
def test_the_smallest_request_refused_without_a_number_counts(
    refused: list[int],
) -> None:
    learned = LearnedWindow()
    for used in refused:
        learned = learned.after_refusal(REFUSED, used, used)
    assert learned.tokens == max(LEAST_WINDOW, int(min(refused) * SURE_SHARE))
    assert learned.guessed
    assert learned.rate == pytest.approx(DOUBT)
    assert learned.after_full(10**9, 10**9).tokens == learned.tokens


@given(TOKENS, TOKENS)
def test_a_window_stated_by_the_provider_overrides_a_guess(
    used: int, maximum: int
) -> None:
    stated = ContextOverflowError("no", maximum=maximum)
    learned = (
        LearnedWindow()
        .after_refusal(REFUSED, used, used)
        .after_refusal(stated, used, used)
    )
    assert (learned.tokens, learned.guessed) == (max(LEAST_WINDOW, maximum), False)


@given(TOKENS)
def test_the_usage_of_an_answer_broken_off_by_an_error_is_unknown(
    used: int,
) -> None:
    assert (
        LearnedWindow()
        .after_refusal(ContextOverflowError("no", partial=True), used, used)
        .tokens
        is None
    )


@given(TOKENS, TOKENS)
def test_our_estimate_is_calibrated_within_bounds(prompt: int, estimate: int) -> None:
    refusal = ContextOverflowError("no", maximum=prompt, prompt=prompt)
    measured = min(MAX_CALIBRATION, max(1.0, prompt / estimate))
    assert LearnedWindow().after_refusal(refusal, estimate, estimate).rate == measured
    assert LearnedWindow().after_full(prompt, estimate).rate == measured


@given(
    st.integers(2_000, 100_000),
    st.floats(1.3, 20),
    st.lists(st.booleans(), min_size=1, max_size=6),
)
def test_counts_are_ignored_after_two_refusals_contradict_them(
    used: int, factor: float, contradicts: list[bool]
) -> None:
    learned = LearnedWindow()
    for wrong in contradicts:
        prompt = int(used * factor) if wrong else used
        refusal = ContextOverflowError("no", maximum=1_000, prompt=prompt)
        learned = learned.after_refusal(refusal, used, used, counted=True)
    assert learned.counts_low == (sum(contradicts) >= 2)
    never_counted = LearnedWindow()
    for _ in contradicts:
        refusal = ContextOverflowError("no", maximum=1_000, prompt=used * 2)
        never_counted = never_counted.after_refusal(refusal, used, used)
    assert not never_counted.counts_low


@given(TOKENS, st.floats(1, MAX_CALIBRATION), st.booleans())
def test_a_learned_window_is_kept_until_settings_or_provider_change(
    tokens: int, rate: float, guessed: bool
) -> None:
    learned = LearnedWindow(
        max(LEAST_WINDOW, tokens), guessed, rate, source="32000 found"
    )
    facts = {
        name: value for name, value in learned.facts().items() if value is not None
    }
    again = LearnedWindow.remembered(facts, "32000 found")
    assert (again.tokens, again.guessed, again.source) == (
        learned.tokens,
        True,
        learned.source,
    )
    assert again.rate == pytest.approx(rate, abs=0.001)
    assert LearnedWindow.remembered(facts, "16000 found") == LearnedWindow(
        source="16000 found"
    )
    assert LearnedWindow.remembered(facts, "32000 configured").tokens is None


@given(
    st.dictionaries(
        st.sampled_from(["window", "window rate", "window source"]),
        st.text(max_size=20),
    )
)
def test_stored_facts_of_any_content_give_a_window_or_none(
    facts: dict[str, str],
) -> None:
    learned = LearnedWindow.remembered(facts, "x")
    assert learned.tokens is None or learned.tokens >= LEAST_WINDOW
    assert 1 <= learned.rate <= MAX_CALIBRATION


@given(TOKENS, TOKENS, st.booleans())
def test_an_assumed_window_that_an_answer_exceeds_is_discarded(
    tokens: int, counted: int, guessed: bool
) -> None:
    after = LearnedWindow(tokens, guessed).after_answer(counted, counted)
    assert after.tokens == (None if guessed and counted > tokens else tokens)
