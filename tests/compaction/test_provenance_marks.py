"""What is made of the flags: marks in the summary, and the request to mend it."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.provenance import Flag, Source, check, mark, mend_request, unmark
from acp_agent.compaction.provenance_flags import FlagKind
from acp_agent.compaction.provenance_pieces import Layout

EMPTY = Source.of([])


def _marked(summary: str) -> str:
    return mark(summary, check(summary, EMPTY))


@pytest.mark.parametrize(
    ("summary", "marked"),
    [
        ("See src/a.py.", "See src/a.py [unverified]."),
        ("See `src/a.py`, ok.", "See `src/a.py` [unverified], ok."),
        ("See **`src/a.py`** now", "See **`src/a.py` [unverified]** now"),
        ('It said "two words".', 'It said "two words" [unverified].'),
        ("Here „zwei Worte“, so.", "Here „zwei Worte“ [unverified], so."),
        ("[the docs](https://a.example/b) say", "[the docs](https://a.example/b) [unverified] say"),
        ("[`foo_bar`][ref] says", "[`foo_bar`][ref] [unverified] says"),
        ("<https://a.example/b> says", "<https://a.example/b> [unverified] says"),
        ("`foo_bar`(new) is", "`foo_bar`(new) [unverified] is"),
        ("`foo_bar`[#12] is", "`foo_bar`[#12] [unverified] is"),
        ("The user wants it. Then more.", "The user wants it. [no such user message found] Then more."),
        ("```py\nfoo_bar = 1\nbar_foo = 2\n```\nEnd", "```py\nfoo_bar = 1\nbar_foo = 2\n```\n[unverified]\nEnd"),
        ("- x\n  ```\n  foo_bar\n  ```\n- y", "- x\n  ```\n  foo_bar\n  ```\n  [unverified]\n- y"),
        ("> ~~~\n> foo_bar\n> ~~~", "> ~~~\n> foo_bar\n> ~~~\n> [unverified]"),
        ("So:\n```\nfoo_bar", "So:\n[unverified]\n```\nfoo_bar"),
        ("```\nfoo_bar", "[unverified]\n```\nfoo_bar"),
        ("`a_1` and `a_2`", "`a_1` [unverified] and `a_2` [unverified]"),
        ("Nothing at all.", "Nothing at all."),
    ],
)
def test_a_mark_stands_right_behind_its_piece_and_breaks_no_markdown(summary: str, marked: str) -> None:
    assert _marked(summary) == marked
    assert _marked(marked) == marked
    assert unmark(marked) == summary


def test_marks_are_kept_and_only_what_is_new_is_marked() -> None:
    assert _marked("`a_1` [unverified] and `a_2`.") == "`a_1` [unverified] and `a_2` [unverified]."
    kept = "The user wants it. [no such user message found] `known_1` [unverified]"
    assert mark(kept, ()) == kept


def test_flags_of_a_marked_summary_have_the_marked_summarys_offsets() -> None:
    marked = "`a_1` [unverified] and `a_2` [unverified]"
    flags = check(marked, EMPTY)
    assert [(flag.text, flag.start) for flag in flags] == [("a_1", 1), ("a_2", 24)]


HOSTILE = st.lists(
    st.sampled_from(
        [
            "`",
            "``",
            "```",
            "~~~\n",
            "\n",
            "\n\n",
            " ",
            '"',
            "“",
            "”",
            "(",
            ")",
            "[",
            "](",
            "]",
            "<",
            ">",
            "https://a.b/c",
            "x.py",
            "a/b/",
            "foo_bar",
            "The user wants ",
            "12",
            ". ",
            "- ",
            "## ",
            "> ",
            "\u2028",
            "\x00",
            "[#1]",
            "|",
            "*",
            "\r\n",
            "  ",
        ]
    ),
    max_size=30,
).map("".join)
ANY = st.text(max_size=80) | HOSTILE


@given(ANY)
def test_marking_takes_nothing_away_and_marks_once(summary: str) -> None:
    marked = _marked(summary)
    assert unmark(marked) == unmark(summary)
    assert _marked(marked) == marked
    assert (marked == summary) == (check(summary, EMPTY) == ())


@pytest.mark.parametrize("summary", ["``\n``\n\n>", "a\n> >", "```\nb\n```\n>", ">\n>", "> a\n>\n> b"])
def test_a_mark_behind_a_bare_quotation_sign_is_told_from_one_on_a_line_of_its_own(summary: str) -> None:
    for end in range(1, len(summary) + 1):
        assert unmark(mark(summary, [Flag("path", summary[:end], 0, end)])) == summary


@given(HOSTILE.filter(bool), st.data())
def test_any_spans_can_be_marked_and_unmarked(summary: str, data: st.DataObject) -> None:
    flags: list[Flag] = []
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(summary) - 1))
        end = data.draw(st.integers(start + 1, len(summary)))
        kind: FlagKind = data.draw(st.sampled_from(get_args(FlagKind)))
        flags.append(Flag(kind, summary[start:end], start, end))
    assert unmark(mark(summary, flags)) == summary


@given(HOSTILE)
def test_a_mark_never_changes_what_is_code_and_what_is_a_fence(summary: str) -> None:
    marked = _marked(summary)
    before, after = Layout.of(summary), Layout.of(marked)
    assert [summary[a:b] for _, _, a, b in before.code] == [marked[a:b] for _, _, a, b in after.code]
    fences = [summary[block.start : block.end] for block in before.blocks if block.kind == "fence"]
    assert fences == [marked[block.start : block.end] for block in after.blocks if block.kind == "fence"]


def test_the_request_to_mend_names_each_piece_once_and_each_missing_section() -> None:
    summary = "The user wants gold. `a_1`, `a_1`, src/b.py"
    text = mend_request(check(summary, EMPTY), ["Open work", "Files"])
    assert text.count("a_1") == 1
    for piece in (
        "path: src/b.py",
        "identifier: a_1",
        "The user wants gold.",
        "- Open work",
        "- Files",
        "whole corrected",
    ):
        assert piece in text


def test_the_request_to_mend_speaks_only_of_what_is_wrong_and_stays_short() -> None:
    assert "sections" not in mend_request([Flag("path", "a.py", 0, 4)], [])
    assert "not found" not in mend_request([], ["Files"])
    many = [Flag("quote", f"{number} " + "x" * 5_000, 0, 1) for number in range(500)]
    assert len(mend_request(many, [])) < 25_000
    assert "440 more" in mend_request(many, [])
