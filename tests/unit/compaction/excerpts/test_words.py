"""Quoting the user's messages within a number of tokens."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.excerpts.quotes import typed_messages
from acp_agent.compaction.excerpts.rules import rule_spans, segments
from acp_agent.compaction.excerpts.updates import later_related
from acp_agent.compaction.excerpts.words import (
    GAP,
    SHORT,
    TypedMessage,
    quotes_within,
    shorten,
)
from acp_agent.conversation.messages import Entry, Text, UserMessage
from acp_agent.conversation.swaps import Quote

LONG = (
    "The cart shows the wrong total on the second page after a voucher was taken back. "
)
PROMPT = f"Fix the cart. {LONG * 3}Budget cap is $500. Never exceed it. {LONG * 6}Then show me the diff."
TRACE = "\n".join(f'  File "shop/cart.py", line {n}, in total_{n}' for n in range(200))
LOG = "\n".join(
    f'  File "shop/cart.py", line {number}, in total_{number}' for number in range(200)
)
TEXTS = st.lists(
    st.sampled_from(
        [
            *"ab \n",
            LONG,
            "Never push. ",
            "- two spaces\n",
            "\n\n",
            "```\ncode()\n```\n",
            "> quoted\n",
            "必ず。",
            TRACE,
        ]
    ),
    max_size=12,
).map("".join)


def said(*texts: str) -> list[TypedMessage]:
    return typed_messages(
        [
            Entry(seq, UserMessage("m", (Text(text),)))
            for seq, text in enumerate(texts, 1)
        ],
        (),
    )


def kept(*texts: str, room: int = 10_000) -> list[str]:
    return [quote.text for quote in quotes_within(said(*texts), room)[0]]


def test_short_messages_are_quoted_in_full_oldest_first() -> None:
    texts = [
        "Fix the cart.",
        "Tabs, 4 wide.",
        "The version is mine to publish.",
        "Go on.",
    ]
    assert kept(*texts) == texts


def test_a_long_message_keeps_both_ends_and_its_rule_with_the_sentence_before() -> None:
    [text] = kept(PROMPT)
    assert len(text) <= SHORT + 100
    assert text.startswith("Fix the cart.")
    assert text.endswith("show me the diff.")
    assert "Budget cap is $500. Never exceed it." in text
    assert GAP in text


def test_pasted_text_is_shortened_before_typed_text() -> None:
    typed = "It still fails, with the voucher of yesterday and with the one of today: "
    [text] = kept(
        f"{typed}\n\n```\n{TRACE}\n```\n\nWhat does the first line say about the cart?"
    )
    assert text.startswith(typed.strip())
    assert text.endswith("What does the first line say about the cart?")
    assert "total_199" not in text


def test_the_first_request_the_newest_message_and_rules_have_priority() -> None:
    texts = [
        "Fix the cart of the shop.",
        *(f"{LONG} Look at row {n}." for n in range(40)),
        "Now the tax, please.",
    ]
    texts[7] = "Never touch the migrations folder."
    left = kept(*texts, room=120)
    assert {texts[0], texts[7], texts[-1]} <= {*left}
    assert sum(estimate_text(text) for text in left) <= 120


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (
            "Never spend more than the budget cap of $500.",
            "The budget cap is $700 now.",
        ),
        ("Always report times in UTC.", "Quick update: report times in Pacific time."),
        ("予算の上限は必ず500ドルです。", "予算の上限は700ドルになりました。"),
    ],
)
@pytest.mark.parametrize("room", [0, 10, 20, 30, 40, 60, 100, 400])
def test_an_older_value_is_never_kept_without_the_newer_one(
    older: str, newer: str, room: int
) -> None:
    others = [f"{LONG} Look at row number {n} of that page, too." for n in range(9)]
    quotes, outdated = quotes_within(
        said(*others[:3], older, *others[3:6], newer, *others[6:]), room
    )
    left = [quote.text for quote in quotes]
    assert newer in left or (older not in left and (4 in outdated))


def test_two_similar_but_unrelated_messages_are_both_kept() -> None:
    pair = [
        "The production database is Postgres 15.",
        "The staging database is MySQL 8.",
    ]
    assert kept(*pair) == pair


def test_a_repeated_message_is_kept_at_its_newest_place() -> None:
    quotes, _ = quotes_within(said("Go on.", "Fix the tax.", "Go  on."), 1_000)
    assert [quote.seq for quote in quotes] == [2, 3]


def test_rules_stored_by_earlier_versions_stay_unless_the_log_has_them() -> None:
    entries = [Entry(5, UserMessage("m", (Text("Fix it. Never push."),)))]
    carried = (Quote(2, "Always test."), Quote(5, "Never push."))
    assert [each.text for each in typed_messages(entries, carried)] == [
        "Always test.",
        "Fix it. Never push.",
    ]


@given(TEXTS)
def test_segments_join_to_the_text_and_rules_lie_within_it(text: str) -> None:
    assert "".join(piece for _, piece in segments(text)) == text
    for start, end in rule_spans(text):
        assert 0 <= start < end <= len(text)


@given(TEXTS, st.integers(80, 600))
@example(f"a```\ncode()\n```\n{LOG}\n```\ncode()\n```", 141)
def test_all_parts_of_a_shortened_message_are_slices_of_it_in_order(
    text: str, limit: int
) -> None:
    message = TypedMessage(1, text.strip(), tuple(rule_spans(text.strip())))
    shortened = shorten(message, limit)
    assert len(shortened) <= max(len(message.text), limit) + len(GAP) * 8
    at = 0
    for piece in shortened.split(GAP.strip()):
        assert piece.strip() in message.text[at:]
        at = message.text.index(piece.strip(), at) + len(piece.strip())


@given(st.lists(TEXTS, max_size=8), st.integers(0, 300))
def test_the_users_text_never_exceeds_its_tokens(texts: list[str], room: int) -> None:
    quotes, outdated = quotes_within(said(*texts), room)
    assert (
        sum(estimate_text(f"[#{quote.seq}] {quote.text}\n") for quote in quotes) <= room
    )
    assert not outdated & {quote.seq for quote in quotes}
    assert [quote.seq for quote in quotes] == sorted({quote.seq for quote in quotes})


@given(st.lists(st.text(alphabet="abcd e", max_size=20), max_size=12))
def test_only_later_messages_are_related(texts: list[str]) -> None:
    for number, later in enumerate(later_related(texts)):
        assert all(number < each < len(texts) for each in later)
