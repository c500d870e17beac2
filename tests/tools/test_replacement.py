"""Exact replacement."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.errors import ToolError
from acp_agent.tools.replacement import Replacement, apply

few = st.text("ab\n ", max_size=6)
texts = st.text("ab\n ", max_size=40)
edits = st.lists(st.builds(Replacement, few, few, st.booleans()), min_size=1, max_size=4)


def model(text: str, replacements: list[Replacement]) -> str | None:
    """The same in terms of `str`; None where an edit cannot be applied."""
    for edit in replacements:
        places = [at for at in range(len(text)) if edit.old and text.startswith(edit.old, at)]
        if not places or edit.old == edit.new or (len(places) > 1 and not edit.replace_all):
            return None
        text = text.replace(edit.old, edit.new)
    return text


def outcome(text: str, replacements: list[Replacement]) -> str | None:
    try:
        return apply(text, replacements)
    except ToolError:
        return None


@given(texts, edits)
def test_edits_do_what_replacing_strings_does_or_nothing_at_all(text: str, replacements: list[Replacement]) -> None:
    assert outcome(text, replacements) == model(text, replacements)


@given(texts, edits)
@example("a\n", [Replacement("a\n", "b"), Replacement("b", "\na")])
def test_a_file_with_crlf_is_edited_like_one_without_and_keeps_its_line_ends(
    text: str, replacements: list[Replacement]
) -> None:
    expected = model(text, replacements)
    found = outcome(text.replace("\n", "\r\n"), replacements)
    if "\n" in text:
        assert found == (None if expected is None else expected.replace("\n", "\r\n"))
    else:
        assert found == expected


@given(st.lists(st.sampled_from(["a", "b", " ", "\n", "\r\n"]), max_size=30).map("".join), edits)
def test_line_ends_that_no_edit_touches_stay_as_they_are(text: str, replacements: list[Replacement]) -> None:
    found = outcome(text, replacements)
    expected = model(text.replace("\r\n", "\n"), replacements)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.replace("\r\n", "\n") == expected.replace("\r\n", "\n")


def test_a_mixed_file_keeps_the_line_ends_around_an_edit() -> None:
    text = "one\r\ntwo\nthree\r\nfour\nfive"
    assert apply(text, [Replacement("two\nthree", "2\nand\n3")]) == "one\r\n2\nand\n3\r\nfour\nfive"
    assert apply(text, [Replacement("three\nfour", "3\n4")]) == "one\r\ntwo\n3\r\n4\nfive"


def test_an_edit_may_be_written_with_crlf_itself() -> None:
    assert apply("a\nb\n", [Replacement("a\r\nb", "c\r\nd")]) == "c\nd\n"


def test_a_missing_line_end_at_the_end_stays_missing() -> None:
    assert apply("a\nb", [Replacement("b", "c")]) == "a\nc"


def refused(text: str, *replacements: Replacement) -> str:
    with pytest.raises(ToolError) as caught:
        apply(text, replacements)
    return str(caught.value)


def test_the_places_of_a_text_found_twice_are_named() -> None:
    message = refused("x = 1\ny\nx = 1\n", Replacement("x = 1", "x = 2"))
    assert "lines 1, 3" in message
    assert "replace_all" in message


def test_the_edit_that_fails_is_named_by_its_index() -> None:
    assert refused("a\nb\n", Replacement("a", "c"), Replacement("zzz", "d")).startswith("edits[1]: ")


def test_a_text_that_differs_in_white_space_is_shown_as_it_stands() -> None:
    message = refused("def f():\n\treturn  1\n", Replacement("def f():\n    return 1", "x"))
    assert "lines 1 to 2" in message
    assert "def f():\n\treturn  1" in message


def test_line_numbers_that_were_copied_along_are_noticed() -> None:
    assert "without the line numbers" in refused("alpha\nbeta\n", Replacement("1\talpha\n2\tbeta", "x"))


def test_the_nearest_line_is_named() -> None:
    assert "nearest is line 2: 'total = price * count'" in refused(
        "a\n  total = price * count\n", Replacement("total = prices * count", "x")
    )


def test_a_large_file_is_searched_for_hints_without_delay() -> None:
    text = "".join(f"line {number} of many\n" for number in range(200_000))
    assert "not in the file" in refused(text, Replacement("completely different text", "x"))
