"""Texts that look like a passage of a file."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.errors import ToolError
from acp_agent.tools.matching.near import carried, clusters, fold, near_places
from acp_agent.tools.matching.replace import Editing
from support.workspace import Workspace

letters = st.text(
    st.sampled_from("aé e\u0301 \u00a0’'-–\u200b…．.\n한ﬁ\u0323\u0307x\ufeff\x1b␛"),
    max_size=12,
)


@given(st.text(st.characters(codec="utf-8")))
@example("a\u0323\u0307")
def test_folded_pieces_join_to_the_folded_text(text: str) -> None:
    assert "".join(map(fold, clusters(text))) == fold(text)
    assert fold(text).count("\n") == text.count("\n")
    assert fold(unicodedata.normalize("NFC", text)) == fold(text)


@given(letters, letters, letters)
def test_a_lookalike_place_has_the_same_fold_and_splits_no_character(
    before: str, part: str, after: str
) -> None:
    text = before + part + after
    for start, end in near_places(text, part, 5):
        assert fold(text[start:end]) == fold(part)
        assert clusters(text) == [
            *clusters(text[:start]),
            *clusters(text[start:end]),
            *clusters(text[end:]),
        ]


@given(letters, letters, letters)
def test_unchanged_parts_of_a_replacement_keep_the_files_characters(
    start: str, old: str, end: str
) -> None:
    there = f"<{start}[{old}]{end}>"
    wrote = f"<{fold(start)}[{fold(old)}]{fold(end)}>"
    assert carried(there, wrote, wrote) == there
    replaced = carried(there, wrote, f"<{fold(start)}[NEW]{fold(end)}>")
    assert replaced.startswith(f"<{start}[")
    assert replaced.endswith(f"NEW]{end}>")
    assert fold(replaced) == fold(f"<{start}[NEW]{end}>")


@pytest.mark.parametrize(
    ("there", "written", "told"),
    [
        ("say \u00a0hi", "say  hi", "U+00A0 where you wrote U+0020"),
        ("10\u202f000 €", "10 000 €", "U+202F where you wrote U+0020"),
        ("caf\u00e9 = 1", "cafe\u0301 = 1", "U+00E9 where you wrote U+0065 U+0301"),
        ("cafe\u0301 = 1", "caf\u00e9 = 1", "U+0065 U+0301 where you wrote U+00E9"),
        ("it’s", "it's", "U+2019 where you wrote U+0027"),
        (
            "“so”",
            '"so"',
            "U+201C where you wrote U+0022, U+201D where you wrote U+0022",
        ),
        ("1–2", "1-2", "U+2013 where you wrote U+002D"),
        ("a - b", "a \u2212 b", "U+002D where you wrote U+2212"),
        ("a\u200bb", "ab", "U+200B where you wrote nothing"),
        ("ab c", "a\u00adb c", "nothing where you wrote U+00AD"),
        ("甲，乙", "甲,乙", "U+FF0C where you wrote U+002C"),
        ("wait…", "wait...", "U+2026 where you wrote U+002E U+002E U+002E"),
    ],
)
async def test_the_only_lookalike_place_is_used_and_its_code_points_reported(
    workspace: Workspace, there: str, written: str, told: str
) -> None:
    path = workspace.file("a.txt", f"{there}|first\nsecond\n")
    await workspace.call("read", path="a.txt")
    edits: list[Any] = [{"old_text": f"{written}|first", "new_text": f"{written}|1"}]
    answer = await workspace.text("edit", path="a.txt", edits=edits)
    assert path.read_text() == f"{there}|1\nsecond\n"
    assert f"found at line 1, where the file has {told};" in answer


def test_neither_of_two_lookalike_places_is_used() -> None:
    editing = Editing("it’s a\nit\u02bcs a\n")
    with pytest.raises(
        ToolError,
        match=r"but have U\+2019 where you wrote U\+0027, first at lines 1 and 2",
    ):
        editing.replace("it's a", "b", everywhere=False, name="old_text")
    editing.replace("it's a", "b", everywhere=True, name="old_text")
    assert editing.text == "b\nb\n"


def test_an_exact_place_is_preferred_to_a_lookalike() -> None:
    editing = Editing("it’s\nit's\n")
    editing.replace("it's", "is", everywhere=True, name="old_text")
    assert editing.text == "it’s\nis\n"


@pytest.mark.parametrize(
    ("text", "old", "told"),
    [
        (
            "def f():\n\treturn  1\n",
            "def f():\n    return 1",
            r"begins at line 1; it has U\+0009 where you wrote U\+0020",
        ),
        (
            "a\nb\nc = 1\n",
            "a\nb\nc = 2",
            r"from line 1 on, but its line 3 differs: line 3 of the file is 'c = 1'",
        ),
        ("a\nb\nc = 1\n", "a\nb\nc = 2", r"it has U\+0031 where you wrote U\+0032"),
        ("a\nb", "a\nb\nc", "The file ends before line 3 of this text"),
        ("a\n", "zzz", "Not even its first line is in the file"),
    ],
)
def test_a_miss_says_at_which_line_and_character_the_text_differs(
    text: str, old: str, told: str
) -> None:
    with pytest.raises(ToolError, match=told):
        Editing(text).replace(old, "x", everywhere=False, name="old_text")
