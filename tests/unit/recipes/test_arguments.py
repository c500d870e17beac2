"""What is typed behind a recipe's name: arguments in front, and words that are put in
for `$ARGUMENTS` and `$1`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.errors import InvalidParamsError
from acp_agent.recipes.arguments import (
    fill,
    join_arguments,
    named_values,
    pieces,
    split_arguments,
    words_of,
)
from acp_agent.recipes.model import Argument, Recipe
from acp_agent.recipes.template import render


def recipe(body: str, *arguments: Argument, is_template: bool = True) -> Recipe:
    return Recipe(
        "note",
        "",
        body,
        1,
        Path("/r/note.md"),
        "user",
        "",
        arguments=arguments,
        is_template=is_template,
    )


RECIPE = recipe("x", Argument("depth"), Argument("topic"), Argument("_1"))
DECLARED = {argument.name for argument in RECIPE.arguments}


@pytest.mark.parametrize(
    ("line", "values", "rest"),
    [
        ("", {}, ""),
        ("depth=3 the session log", {"depth": "3"}, "the session log"),
        (
            ' topic="two words"  depth=3\nand\nmore ',
            {"topic": "two words", "depth": "3"},
            "and\nmore",
        ),
        ("topic='two \"words\\' x", {"topic": 'two "words\\'}, "x"),
        (r'topic="a \"quoted\" \\ word" x', {"topic": r'a "quoted" \ word'}, "x"),
        ("depth= x", {"depth": ""}, "x"),
        ("depth=a=b _1=c", {"depth": "a=b", "_1": "c"}, ""),
        ('topic="never closed x', {"topic": '"never'}, "closed x"),
        ("zebra=1 depth=3", {}, "zebra=1 depth=3"),
        ("Depth=3", {}, "Depth=3"),
        ("depth =3", {}, "depth =3"),
        ("depth=3 or depth=4", {"depth": "3"}, "or depth=4"),
    ],
)
def test_declared_names_in_front_are_arguments_and_all_else_is_the_rest(
    line: str, values: dict[str, str], rest: str
) -> None:
    assert split_arguments("it", DECLARED, line) == (values, rest)


@given(
    st.dictionaries(st.sampled_from(["depth", "topic", "_1"]), st.text()),
    st.text().map(str.strip).filter(lambda rest: "=" not in rest),
)
def test_what_was_joined_is_split_into_the_same(
    values: dict[str, str], rest: str
) -> None:
    assert split_arguments("it", DECLARED, join_arguments(values, rest)) == (
        values,
        rest,
    )


def test_named_values_must_be_arguments_of_the_recipe() -> None:
    assert named_values(RECIPE, ["depth=3", "topic=a b=c"]) == {
        "depth": "3",
        "topic": "a b=c",
    }
    with pytest.raises(
        InvalidParamsError, match="has no argument `zebra`; it takes: depth, topic, _1"
    ):
        named_values(RECIPE, ["zebra=1"])
    with pytest.raises(
        InvalidParamsError, match="'depth' is no argument; write it as NAME=VALUE"
    ):
        named_values(RECIPE, ["depth"])


def test_an_argument_that_is_given_twice_is_a_mistake_in_both_forms() -> None:
    for give in (
        lambda: split_arguments("it", DECLARED, "depth=3 topic=x depth=4 and more"),
        lambda: named_values(RECIPE, ["depth=3", "topic=x", "depth=3"]),
    ):
        with pytest.raises(
            InvalidParamsError, match=r"the argument `depth` of .* is given twice"
        ) as caught:
            give()
        assert caught.value.code == -32602


SYNTAX = st.sampled_from(
    [
        "{{ 1 / 0 }}",
        "{% zebra %}",
        "{# gone #}",
        "$ARGUMENTS",
        "$1",
        "$2",
        "!`touch ran`",
    ]
)


@settings(deadline=None)
@given(st.text(), SYNTAX, st.text(), st.booleans())
def test_nothing_that_was_typed_is_read_as_a_template_or_a_placeholder(
    before: str, syntax: str, after: str, is_template: bool
) -> None:
    typed = f"{before}{syntax}{after}".strip()
    words = [*words_of(typed), "", ""]
    assert (
        render(recipe("<$ARGUMENTS|$1|$2>", is_template=is_template), {}, typed)
        == f"<{typed}|{words[0]}|{words[1]}>"
    )


@given(
    st.lists(
        st.sampled_from(
            ["$1", "$9", "$ARGUMENTS", "\\$1", "$", "a", "1", ".", "0", "\\"]
        )
    ),
    st.booleans(),
)
def test_cutting_a_text_loses_nothing_but_backslashes_before_placeholders(
    parts: list[str], positions: bool
) -> None:
    text = "".join(parts)
    cut = pieces(text, positions=positions)
    again = "".join(
        piece if isinstance(piece, str) else f"${piece or 'ARGUMENTS'}" for piece in cut
    )
    assert again.replace("\\", "") == text.replace("\\", "")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Fix $1 in $2.", "Fix the log in x."),
        ("All of: $ARGUMENTS!", "All of: 'the log' x!"),
        ("$1 and \\$1 and \\$ARGUMENTS", "the log and $1 and $ARGUMENTS"),
        (
            "$1: $10, $1.50, $1,000, US$, $ARGUMENTSX",
            "the log: $10, $1.50, $1,000, US$, $ARGUMENTSX",
        ),
        ("{% if 1 %}$1{% endif %}{{ '$1' }}{# $1 #}", "the log$1"),
        ("{% raw %}$1{% endraw %} $3.", "the log ."),
        ("It costs $5 a month: $ARGUMENTS", "It costs $5 a month: 'the log' x"),
    ],
)
def test_a_recipe_takes_what_was_typed_whole_or_word_by_word(
    body: str, expected: str
) -> None:
    assert render(recipe(body), {}, "'the log' x") == expected
    if "{" not in body and "$1" in body:
        assert fill(body, "'the log' x") == expected


def test_in_a_recipe_whose_arguments_have_names_only_the_whole_rest_is_put_in() -> None:
    body = "Pay $1, $5 to {{ a }}: $ARGUMENTS"
    assert (
        render(recipe(body, Argument("a")), {"a": "$1"}, "x y")
        == "Pay $1, $5 to $1: x y"
    )


def test_what_was_typed_stands_below_a_text_that_gives_it_no_place() -> None:
    below = "\n\nAdditional instructions from the user:\n\nit now"
    for body, is_template, expected in (
        ("Fix $1.", True, "Fix it."),
        ("Fix \\$1.", True, f"Fix \\$1.{below}"),
        ("Fix $2.", False, "Fix now."),
        ("Fix.", False, f"Fix.{below}"),
    ):
        assert render(recipe(body, is_template=is_template), {}, " it now ") == expected
