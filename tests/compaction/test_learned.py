"""What is learned of a model's window, whatever is observed in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import MIN_OUTPUT
from acp_agent.compaction.estimate import MAX_CALIBRATION
from acp_agent.session.learned import DOUBT, LEAST_WINDOW, LearnedWindow, own_window, shorter_answer

Lesson: TypeAlias = tuple[str, int]
TOKENS = st.integers(1, 2_000_000)
RATES = st.floats(1, MAX_CALIBRATION)
LESSONS = st.lists(st.tuples(st.sampled_from(["states", "suspects", "accepts"]), TOKENS), max_size=8)
TEACH: dict[str, Callable[[LearnedWindow, int], LearnedWindow]] = {
    "states": LearnedWindow.states,
    "suspects": LearnedWindow.suspects,
    "accepts": LearnedWindow.accepts,
}


def taught(*lessons: Lesson) -> LearnedWindow:
    """What these teach."""
    learned = LearnedWindow()
    for kind, tokens in lessons:
        learned = TEACH[kind](learned, tokens)
    return learned


def of(lessons: list[Lesson], kind: str) -> list[int]:
    """The numbers of one kind."""
    return [tokens for each, tokens in lessons if each == kind]


@given(LESSONS, TOKENS)
def test_a_window_is_never_above_what_is_known_or_was_stated(lessons: list[Lesson], known: int) -> None:
    window = taught(*lessons).window(known)
    assert 1 <= window <= known
    assert all(window <= max(LEAST_WINDOW, stated) for stated in of(lessons, "states"))


@given(LESSONS, TOKENS)
def test_no_suspicion_makes_a_window_smaller_than_what_was_accepted(lessons: list[Lesson], known: int) -> None:
    learned = taught(*lessons)
    certain = taught(*(lesson for lesson in lessons if lesson[0] == "states")).window(known)
    accepted = max(of(lessons, "accepts"), default=0)
    assert learned.window(known) >= min(accepted, certain)
    assert learned.window(known) >= min(LEAST_WINDOW, certain)
    assert learned.is_guess(known) == (learned.window(known) < certain)
    if not of(lessons, "suspects"):
        assert learned.window(known) == certain


@given(st.lists(st.tuples(st.sampled_from(["states", "suspects", "accepts"]), TOKENS), max_size=4))
def test_the_order_in_which_a_window_is_learned_does_not_matter(lessons: list[Lesson]) -> None:
    assert len({taught(*order) for order in permutations(lessons)}) == 1


@given(LESSONS, TOKENS)
def test_where_nothing_is_said_what_was_accepted_is_tried_or_three_quarters_of_what_was_refused(
    lessons: list[Lesson], most: int
) -> None:
    likely = taught(*lessons).likely(most)
    assert int(most * 0.75) <= likely <= most
    assert likely >= min(most, max(of(lessons, "accepts"), default=0))


@given(LESSONS, TOKENS, TOKENS, TOKENS, st.none() | TOKENS)
def test_a_shorter_answer_is_asked_for_until_there_is_one(
    lessons: list[Lesson], own: int, tokens: int, more: int, later: int | None
) -> None:
    learned = taught(*lessons).asks_for(tokens, later)
    assert learned.longest(own) == min(own, tokens, later or tokens)
    for over in (learned.accepts(more), learned.next_turn()):
        assert over.longest(own) == min(own, later or own)
        assert over.asks_for(tokens).next_turn().longest(own) == min(own, later or own)


@given(LESSONS, TOKENS, TOKENS, TOKENS)
def test_what_fits_with_a_shorter_answer_is_not_counted_for_more_before_that_has_come(
    lessons: list[Lesson], prompt: int, estimate: int, answer: int
) -> None:
    refused = taught(*lessons).counts(prompt, estimate)
    fits = refused.asks_for(answer, fits=True)
    assert fits.rate == 1
    assert refused.asks_for(answer).rate == refused.rate
    assert fits.accepts(prompt).rate == fits.next_turn().rate == fits.asks_for(answer).rate == refused.rate


@given(TOKENS, TOKENS)
def test_a_count_of_the_providers_calibrates_ours_within_bounds(prompt: int, estimate: int) -> None:
    for learned in (LearnedWindow().counts(prompt, estimate), LearnedWindow().measures(prompt, estimate).suspects(1)):
        assert 1 <= learned.rate <= MAX_CALIBRATION
        if estimate <= prompt <= MAX_CALIBRATION * estimate:
            assert abs(learned.rate * estimate - prompt) < 1


@given(LESSONS, TOKENS, TOKENS, TOKENS)
def test_what_answers_count_is_doubted_until_a_refusal_and_counts_less_than_what_that_counts(
    lessons: list[Lesson], prompt: int, estimate: int, more: int
) -> None:
    measured = taught(*lessons).measures(prompt, estimate)
    refusals = of(lessons, "suspects") + of(lessons, "states")
    assert measured.rate == (LearnedWindow().counts(prompt, estimate).rate if refusals else 1)
    assert measured.measures(more, estimate).suspects(1) == taught(*lessons).measures(more, estimate).suspects(1)
    refused = measured.counts(more, estimate)
    assert refused.rate == refused.measures(prompt, estimate).rate == LearnedWindow().counts(more, estimate).rate


@given(TOKENS, st.none() | TOKENS, TOKENS, TOKENS, RATES)
def test_a_prompt_is_sent_again_only_where_it_fits_with_an_answer_that_is_worth_it(
    stated: int, prompt: int | None, used: int, answer: int, rate: float
) -> None:
    less = shorter_answer(stated, prompt, used, answer, rate)
    if less is not None:
        assert min(MIN_OUTPUT, stated // 4) <= less < answer
        assert (prompt or max(used, used * DOUBT / rate)) + less <= stated
    elif prompt is not None and prompt + answer > stated:
        assert stated * 0.98 - prompt < min(MIN_OUTPUT, stated // 4) + 1


@given(TOKENS, st.none() | TOKENS, TOKENS, RATES)
def test_what_fits_a_stated_window_by_our_count_fits_it_by_the_providers(
    stated: int, prompt: int | None, used: int, rate: float
) -> None:
    window = own_window(stated, prompt, used, rate)
    assert 0 <= window <= min(stated, used), "what was refused has to give way"
    if prompt is not None and prompt >= stated:
        assert window * prompt <= stated * used
    if prompt is None and used >= stated:
        # Where nobody counts, ours may be too small by a third, unless it was corrected by as much already.
        assert window * max(1, DOUBT / rate) <= stated
        assert rate < DOUBT or window == stated
