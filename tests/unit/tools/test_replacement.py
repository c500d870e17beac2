"""Exact replacement."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.errors import ToolError
from acp_agent.tools.files.edit import _apply as apply
from acp_agent.tools.files.edit import _Replacement as Replacement


def edit(old: str, new: str, replace_all: bool = False) -> Replacement:
    return Replacement(old_text=old, new_text=new, replace_all=replace_all)


few = st.text("ab\n ", max_size=6)
texts = st.text("ab\n ", max_size=40)
edits = st.lists(st.builds(edit, few, few, st.booleans()), min_size=1, max_size=4)


def model(text: str, replacements: list[Replacement]) -> str | None:
    """Return the expected result, by `str.replace`; None if an edit cannot be applied."""
    for each in replacements:
        places = [
            at
            for at in range(len(text))
            if each.old_text and text.startswith(each.old_text, at)
        ]
        if (
            not places
            or each.old_text == each.new_text
            or (len(places) > 1 and not each.replace_all)
        ):
            return None
        text = text.replace(each.old_text, each.new_text)
    return text


def outcome(text: str, replacements: list[Replacement]) -> str | None:
    try:
        return apply(text, replacements)[0]
    except ToolError:
        return None


@given(texts, edits)
def test_edits_act_like_string_replacement_or_change_nothing(
    text: str, replacements: list[Replacement]
) -> None:
    assert outcome(text, replacements) == model(text, replacements)


@given(texts, edits)
@example("a\n", [edit("a\n", "b"), edit("b", "\na")])
def test_a_file_with_crlf_keeps_its_line_ends_when_edited(
    text: str, replacements: list[Replacement]
) -> None:
    expected = model(text, replacements)
    found = outcome(text.replace("\n", "\r\n"), replacements)
    if "\n" in text:
        assert found == (None if expected is None else expected.replace("\n", "\r\n"))
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("text", "edits", "said"),
    [
        (
            "x = 1\ny\nx = 1\n",
            [edit("x = 1", "x = 2")],
            "first at lines 1 and 3. .* replace_all",
        ),
        (
            "a\nb\n",
            [edit("a", "c"), edit("zzz", "d")],
            r"^edits\[1\]: this text is not in the file",
        ),
        (
            "def f():\n\treturn  1\n",
            [edit("def f():\n    return 1", "x")],
            "differs only in white space",
        ),
        ("alpha\nbeta\n", [edit("1\talpha\n2\tbeta", "x")], "without the line numbers"),
    ],
)
def test_an_edit_that_cannot_be_applied_says_why(
    text: str, edits: list[Replacement], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        apply(text, edits)
