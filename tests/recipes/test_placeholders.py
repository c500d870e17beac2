"""What was typed, put in for `$ARGUMENTS` and `$1`, and never read as anything but a value."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.recipes import Argument, Recipe, render
from acp_agent.recipes.placeholders import pieces, words_of


def recipe(body: str, *arguments: Argument, is_template: bool = True) -> Recipe:
    return Recipe("note", "", body, 1, Path("/r/note.md"), "user", "", arguments=arguments, is_template=is_template)


WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), max_size=11)
SYNTAX = st.sampled_from(
    ["{{ 1 / 0 }}", "{% zebra %}", "{# gone #}", "$ARGUMENTS", "$1", "$2", "!`touch ran`", "@a.txt"]
)


@settings(deadline=None)
@given(st.text(), SYNTAX, st.text(), st.booleans())
def test_nothing_that_was_typed_is_ever_read_as_a_template_or_a_placeholder(
    before: str, syntax: str, after: str, is_template: bool
) -> None:
    typed = f"{before}{syntax}{after}".strip()
    rendered = render(recipe("<$ARGUMENTS|$1|$2>", is_template=is_template), {}, typed)
    words = [*words_of(typed), "", ""]
    assert rendered == f"<{typed}|{words[0]}|{words[1]}>"


@settings(deadline=None)
@given(WORDS)
def test_the_words_are_those_of_a_shell(words: list[str]) -> None:
    import shlex

    assert words_of(shlex.join(words)) == words


@settings(deadline=None)
@given(st.text())
def test_any_line_has_words(typed: str) -> None:
    assert all(isinstance(word, str) for word in words_of(typed))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["$1", "$9", "$ARGUMENTS", "\\$1", "$", "a", "1", ".", "0", "\\"])), st.booleans())
def test_cutting_a_text_loses_nothing_but_backslashes_before_placeholders(parts: list[str], positions: bool) -> None:
    text = "".join(parts)
    again = "".join(
        piece if isinstance(piece, str) else (f"${piece}" if piece else "$ARGUMENTS")
        for piece in pieces(text, positions=positions)
    )
    assert again.replace("\\", "") == text.replace("\\", "")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Fix $1 in $2.", "Fix the log in x."),
        ("All of: $ARGUMENTS!", "All of: 'the log' x!"),
        ("$1 and \\$1 and \\$ARGUMENTS", "the log and $1 and $ARGUMENTS"),
        ("$1: $10, $1.50, $1,000, US$, $ARGUMENTSX", "the log: $10, $1.50, $1,000, US$, $ARGUMENTSX"),
        ("{% if 1 %}$1{% endif %}{{ '$1' }}{# $1 #}", "the log$1"),
        ("$1 $3.", "the log ."),
        ("It costs $5 a month: $ARGUMENTS", "It costs $5 a month: 'the log' x"),
    ],
)
def test_a_recipe_takes_what_was_typed_whole_or_word_by_word(body: str, expected: str) -> None:
    assert render(recipe(body), {}, "'the log' x") == expected


def test_in_a_recipe_whose_arguments_have_names_only_the_whole_rest_is_put_in() -> None:
    body = "Pay $1, $5 to {{ a }}: $ARGUMENTS"
    assert render(recipe(body, Argument("a")), {"a": "$1"}, "x y") == "Pay $1, $5 to $1: x y"


def test_where_the_words_have_a_place_they_are_not_put_below() -> None:
    assert render(recipe("Fix $1."), {}, "it now") == "Fix it."
    assert "Additional instructions" in render(recipe("Fix \\$1."), {}, "it now")
    assert render(recipe("Fix $2.", is_template=False), {}, "it now") == "Fix now."
    assert render(recipe("Fix.", is_template=False), {}, "it now").endswith("from the user:\n\nit now")


def test_in_a_command_of_claude_code_a_brace_is_a_brace() -> None:
    body = "Set ${{ secrets.TOKEN }} {% raw %} {# here #} for $1"
    assert render(recipe(body, is_template=False), {}, "ci") == body.replace("$1", "ci")
