"""Cutting and cleaning text."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.tools.text import HeadAndTail, clean, cut_middle, one_line

any_text = st.text(st.characters(codec=None))


@given(any_text, st.integers(0, 300))
def test_only_a_text_above_the_limit_is_cut_in_the_middle(
    text: str, limit: int
) -> None:
    cut = cut_middle(text, limit)
    assert len(cut) <= limit
    assert len(text) > limit or cut == text


@given(st.text(min_size=1), st.integers(100, 300), st.integers(2, 50))
def test_a_cut_text_keeps_both_ends_and_counts_the_missing_characters(
    text: str, limit: int, times: int
) -> None:
    text = (text * (limit // len(text) + 1)) * times
    cut = cut_middle(text, limit)
    mark = cut.index("\n[… ")
    head = cut[:mark]
    tail = cut[cut.index(" characters cut …]\n", mark) + len(" characters cut …]\n") :]
    missing = int(cut[mark + 4 :].split()[0])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert min(len(head), len(tail)) >= 25
    assert missing == len(text) - len(head) - len(tail)


@given(st.lists(st.text(max_size=80), max_size=40), st.integers(1, 120))
def test_collecting_pieces_gives_the_same_result_as_cutting_the_whole(
    pieces: list[str], limit: int
) -> None:
    kept = HeadAndTail(limit)
    for piece in pieces:
        kept.add(piece)
    whole = "".join(pieces)
    assert kept.text == cut_middle(whole, limit)


@given(any_text)
def test_clean_text_can_be_encoded_and_has_no_control_characters(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert not any(
        ord(character) < 32 and character not in "\t\n\r" for character in cleaned
    )
    assert len(cleaned) == len(text)


@given(any_text, st.integers(1, 100))
def test_a_line_for_people_has_no_characters_that_hide_or_reorder_it(
    text: str, limit: int
) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    turning = {"FSI", "LRE", "LRI", "LRO", "PDF", "PDI", "RLE", "RLI", "RLO"}
    assert not [each for each in line if unicodedata.bidirectional(each) in turning]
    assert not [each for each in line if unicodedata.category(each) == "Cc"]
