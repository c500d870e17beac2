"""Invisible characters are made visible, and ordinary text is unchanged."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.tools.text import one_line, title_line
from acp_agent.visible import harmless, hidden_in, visible

BLANKS = "\u2800\u3164\u115f\u1160\uffa0\xa0\u1680\u2003\u202f\u205f\u3000\U0001d159\U00013441"
ZERO_WIDTH = "\xad\u034f\u180e\u200b\u200c\u200d\u2060\u2063\ufeff\ufe0f\U000e0041\U000e0100\U0001bca0"
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
OBEYED = "\x00\x07\x08\x0b\x0c\r\x1b\x7f\x85\x90\x9b\x9d\u2028\u2029\ud800"
HIDDEN = BLANKS + ZERO_WIDTH + DIRECTIONS + OBEYED
WRITTEN = (
    "Grüße, Ελλάδα, Привет, 日本語「です」, 한국어, ไทย, Tiếng Việt",
    "می\u200cخواهم",  # Persian, with the joiner that its spelling wants
    "क\u094d\u200dष",
    "👩🏽\u200d💻 ❤\ufe0f\u200d🔥 ☃\ufe0f 1\ufe0f\u20e3 🇩🇪",
    "שָׁלוֹם",
    "if x:\n\treturn 1\r\n",
)


@pytest.mark.parametrize("character", HIDDEN, ids=lambda each: f"U+{ord(each):04X}")
def test_invisible_characters_are_shown_by_code_point(
    character: str,
) -> None:
    shown = visible(f"git status{character}; rm")
    assert shown == f"git status[U+{ord(character):04X}]; rm"
    assert visible(f"a{character * 300}z") == f"a[U+{ord(character):04X} ×300]z"
    assert character not in title_line(f"git status{character}; rm")


def test_every_assigned_invisible_code_point_is_shown() -> None:
    # Prepended concatenation marks, such as the sign in front of an Arabic number, do
    # have a shape.
    with_a_shape = {
        *range(0x600, 0x606),
        0x6DD,
        0x70F,
        0x890,
        0x891,
        0x8E2,
        0x110BD,
        0x110CD,
    }
    missed = [
        hex(number)
        for number in range(0x110000)
        if not chr(number).isprintable()
        and unicodedata.category(chr(number)) != "Cn"
        and number not in (9, 10)
        and number not in with_a_shape
        and visible(f"a{chr(number)}z") == f"a{chr(number)}z"
    ]
    assert missed == []


@pytest.mark.parametrize("text", WRITTEN)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible(text) == text
    assert harmless(text) == text


def test_a_joiner_that_joins_nothing_is_shown() -> None:
    assert visible("rm\u200d -rf") == "rm[U+200D] -rf"
    assert visible("👩\u200d; rm") == "👩[U+200D]; rm"
    assert visible("☃\ufe0f\ufe0f") == "☃[U+FE0F ×2]"


def test_stacked_accents_are_limited() -> None:
    assert visible("e" + "\u0301" * 300 + "x") == "e" + "\u0301" * 4 + "[U+0301 ×296]x"


def test_a_run_of_many_different_characters_is_counted() -> None:
    assert visible("a" + "\u200b\u2060" * 50).endswith(" and 94 more]")


texts = st.text(st.characters() | st.sampled_from(HIDDEN + "ab \n\t"), max_size=60)


@given(texts)
def test_nothing_stays_hidden_and_no_visible_text_is_lost(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert not [*hidden_in(shown)]
    left = [each for each in text if each.isascii() and each.isprintable()]
    rest = iter(shown)
    assert all(each in rest for each in left)
    assert shown.count("\n") == text.count("\n")


@given(texts)
def test_no_terminal_control_is_left_in_output(text: str) -> None:
    left = harmless(text).replace("\r\n", "\n")
    assert not any(ord(each) < 32 and each not in "\t\n" for each in left)
    assert not set(left) & {*DIRECTIONS, "\x7f", *map(chr, range(0x80, 0xA0))}


@given(texts, st.integers(20, 80))
def test_a_title_is_one_short_line_that_keeps_both_ends(text: str, limit: int) -> None:
    title = title_line(text, limit)
    assert len(title) <= limit
    assert len(title.splitlines()) <= 1
    assert not [*hidden_in(title)]
    whole = title_line(text, 100_000)
    assert title == whole or title.endswith(whole[-(limit // 3) :])


@given(texts)
def test_a_name_on_one_line_has_no_characters_that_hide_part_of_it(text: str) -> None:
    line = one_line(text, 200)
    assert not set(line) & {
        *DIRECTIONS,
        *OBEYED,
        "\u200b",
        "\ufeff",
        "\u2800",
        "\u3164",
        "\U000e0041",
    }
