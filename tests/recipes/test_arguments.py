"""Arguments in front of what is typed behind a recipe's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.errors import RecipeError
from acp_agent.recipes import Argument, Recipe
from acp_agent.recipes.arguments import join_arguments, named_values, split_arguments

RECIPE = Recipe(
    name="note",
    description="",
    body="x",
    body_line=1,
    source=Path("/r/note.md"),
    origin="user",
    digest="",
    arguments=(Argument("depth"), Argument("topic"), Argument("_1")),
)


@pytest.mark.parametrize(
    ("line", "values", "rest"),
    [
        ("", {}, ""),
        ("depth=3", {"depth": "3"}, ""),
        ("depth=3 the session log", {"depth": "3"}, "the session log"),
        (' topic="two words"  depth=3\nand\nmore ', {"topic": "two words", "depth": "3"}, "and\nmore"),
        ("topic='two \"words\\' x", {"topic": 'two "words\\'}, "x"),
        (r'topic="a \"quoted\" \\ word" x', {"topic": r'a "quoted" \ word'}, "x"),
        ("depth= x", {"depth": ""}, "x"),
        ("depth=a=b _1=c", {"depth": "a=b", "_1": "c"}, ""),
        ("topic=don't stop", {"topic": "don't"}, "stop"),
        ('topic="never closed x', {"topic": '"never'}, "closed x"),
        ("zebra=1 depth=3", {}, "zebra=1 depth=3"),
        ("look at depth=3", {}, "look at depth=3"),
        ("Depth=3", {}, "Depth=3"),
        ("depth =3", {}, "depth =3"),
        ("depth=3 or depth=4", {"depth": "3"}, "or depth=4"),
        ("depth=file:///shop/cart.py", {"depth": "file:///shop/cart.py"}, ""),
    ],
)
def test_declared_names_in_front_are_arguments_and_all_else_is_the_rest(
    line: str, values: dict[str, str], rest: str
) -> None:
    assert split_arguments(RECIPE, line) == (values, rest)


@given(
    st.dictionaries(st.sampled_from(["depth", "topic", "_1"]), st.text()),
    st.text().map(str.strip).filter(lambda rest: "=" not in rest),
)
def test_what_was_joined_is_split_into_the_same(values: dict[str, str], rest: str) -> None:
    assert split_arguments(RECIPE, join_arguments(values, rest)) == (values, rest)


@given(st.text(st.sampled_from("depth=3 \"'\\\n")))
def test_no_line_loses_what_was_typed(line: str) -> None:
    try:
        values, rest = split_arguments(RECIPE, line)
    except RecipeError:
        assert line.count("depth=") > 1
        return
    assert line.rstrip().endswith(rest)
    if not values:
        assert rest == line.strip()


def test_named_values_must_be_arguments_of_the_recipe() -> None:
    assert named_values(RECIPE, ["depth=3", "topic=a b=c"]) == {"depth": "3", "topic": "a b=c"}
    with pytest.raises(RecipeError, match="has no argument `zebra`; it takes: depth, topic, _1"):
        named_values(RECIPE, ["zebra=1"])
    with pytest.raises(RecipeError, match="'depth' is no argument; write it as NAME=VALUE"):
        named_values(RECIPE, ["depth"])


def test_an_argument_that_is_given_twice_is_a_mistake_in_both_forms() -> None:
    with pytest.raises(RecipeError, match="the argument `depth` of the recipe `note` is given twice"):
        split_arguments(RECIPE, "depth=3 topic=x depth=4 and more")
    with pytest.raises(RecipeError, match="the argument `depth` of the recipe `note` is given twice"):
        named_values(RECIPE, ["depth=3", "topic=x", "depth=3"])
