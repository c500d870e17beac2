"""From a recipe and typed words to a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.errors import InvalidParamsError, RecipeError
from acp_agent.recipes.model import Argument, Recipe
from acp_agent.recipes.template import MAX_OUTPUT, check, render


def recipe(body: str, *arguments: Argument, commands: tuple[str, ...] = ()) -> Recipe:
    path = Path("/r/note.md")
    return Recipe(
        "note",
        "",
        body,
        11,
        path,
        "user",
        "",
        arguments=arguments,
        allowed_commands=commands,
    )


def failure(
    body: str, *arguments: Argument, given: dict[str, str] | None = None
) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        render(recipe(body, *arguments), given or {}, "")
    assert caught.value.source == "/r/note.md"
    return caught.value


def test_arguments_come_from_the_caller_then_from_defaults_and_else_are_empty() -> None:
    body = "{{ a }}|{{ b }}|{{ c }}{% if c %}never{% endif %}|"
    arguments = (Argument("a"), Argument("b", default="B"), Argument("c"))
    assert render(recipe(body, *arguments), {"a": "A"}, "") == "A|B||"
    assert render(recipe(body, *arguments), {"a": "A", "b": ""}, "") == "A|||"


def test_a_missing_or_unknown_argument_is_named() -> None:
    known = (Argument("branch", "the branch to review", required=True),)
    for arguments, values, words in (
        (
            known,
            {},
            "needs the argument `branch` (the branch to review); begin with it, as in `/note branch=…`",
        ),
        (known, {"brunch": ""}, "no argument `brunch`; did you mean `branch`?"),
        ((), {"instructions": "x"}, "it takes none"),
    ):
        with pytest.raises(InvalidParamsError) as caught:
            render(recipe("x", *arguments), values, "")
        assert words in str(caught.value)
    assert (
        render(recipe("{{ b }}", Argument("b", default="main", required=True)), {}, "")
        == "main"
    )


@pytest.mark.parametrize("name", ["instructions", "arguments"])
def test_the_rest_of_the_line_goes_where_the_recipe_wants_it(name: str) -> None:
    assert (
        render(recipe(f"Do this: {{{{ {name} }}}}!"), {}, " run the tests \n")
        == "Do this: run the tests!"
    )
    assert render(recipe(f"A{{% if {name} %}}B{{% endif %}}"), {}, "x") == "AB"
    assert render(recipe(f"A{{% if {name} %}}B{{% endif %}}"), {}, "  ") == "A"


@settings(deadline=None)
@given(
    st.text().filter(
        lambda text: not any(mark in text for mark in ("{{", "{%", "{#", "\r"))
    )
)
def test_a_text_without_templates_is_rendered_as_it_stands(text: str) -> None:
    assert render(recipe(text), {}, "") == text.strip()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "{% for word in ['a', 'b'] %}{{ loop.index }}{{ word | upper }};{% endfor %}",
            "1A;2B;",
        ),
        ("{{ 'x' if not a else a[0:1] }}", "x"),
        (
            "{{ a | default('none', true) }}{{ zebra | default('<b> & c') }}",
            "none<b> & c",
        ),
        ("{{ a ~ 'b' + 'c' }}{{ 7 // 2 }}", "bc3"),
        ("{% raw %}{{ a }}{% endraw %}", "{{ a }}"),
        ("x\n{% if a is defined and a == '' %}\ny\n{% endif %}\nz", "x\ny\nz"),
        (
            "{% for n in [1, 2, 3] if n != 2 %}{{ n }}{{ ',' if not loop.last }}{% else %}none{% endfor %}",
            "1,3",
        ),
        (
            "{{ {'k': ('v', true, none)}.k[0] }}{{ -1 - 1 }}{{ ' B ' | trim | lower }}",
            "v-2b",
        ),
        ("{% if zebra is defined %}{{ zebra }}{% endif %}}} %}", "}} %}"),
    ],
)
def test_the_language_is_the_useful_part_of_jinja2(body: str, expected: str) -> None:
    check(recipe(body, Argument("a")))
    assert render(recipe(body, Argument("a")), {}, "") == expected


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("one\n{{ ", 12, "the template is wrong: "),
        ("{% zebra %}", 11, "unknown tag 'zebra'"),
        ("\n\n{{ a is zebra }}", 13, "No test named 'zebra'"),
        ("\n{{ " + "(" * 5000 + ")" * 5000 + " }}", None, "the template failed: "),
        (
            "one\n{{ instuctions }}",
            12,
            "'instuctions' is undefined; did you mean `instructions`?",
        ),
        ("\n{{ a | center(1000000000) }}", 12, "No filter named 'center'"),
        ("{{ 'a' * 1000000000 }}", 11, "recipes cannot use `*`"),
        ("{{ 9 ** 99999999 }}", 11, "recipes cannot use `**`"),
        ("{{ '%1000000000d' % 1 }}", 11, "recipes cannot use `%`"),
        (
            "\n{% set a = 'aa' %}" + "{% set a = a ~ a %}" * 40,
            12,
            "recipes cannot use `{% set %}`",
        ),
        (
            "{% macro m() %}{{ m() }}{% endmacro %}",
            11,
            "recipes cannot use `{% macro %}`",
        ),
        ("{% include '/etc/passwd' %}", 11, "recipes cannot use `{% include %}`"),
        ("{% from 'os' import path %}", 11, "recipes cannot use `{% import %}`"),
        (
            "{% for a in 'ab' %}{% if a %}{% for b in a %}{% endfor %}{% endif %}{% endfor %}",
            11,
            "loops in loops",
        ),
        (
            "{% for a in [1] recursive %}{% endfor %}",
            11,
            "recipes cannot use loops in loops",
        ),
        (
            "{{ 'a'.ljust(1000000000) }}",
            11,
            "recipes cannot call functions but shell(...)",
        ),
        ("{{ range(1000000000) | length }}", 11, "recipes cannot call functions"),
        ("{{ [shell][0]('ls') }}", 11, "recipes cannot call functions"),
    ],
)
def test_a_template_that_could_never_become_a_prompt_is_found_when_it_is_read(
    body: str, line: int | None, words: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        check(recipe(body, Argument("a", required=True), commands=("*",)))
    assert words in str(caught.value)
    assert (caught.value.source, caught.value.line) == ("/r/note.md", line)
    assert words in str(failure(body, Argument("a"), Argument("b")))


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("one\ntwo\n{% if nobody %}x{% endif %}", 13, "'nobody' is undefined"),
        ("{{ a.b.c }}", 11, "has no attribute 'b'"),
        ("{{ a + 1 }}", 11, "the template failed: "),
        ("{{ ''.__class__ }}", 11, "unsafe"),
        ("{{ ''['__class__'].__mro__ }}", 11, "unsafe"),
        ("{{ a['__cla' ~ 'ss__'] }}", 11, "unsafe"),
        ("{{ a.format.__self__ }}", 11, "no attribute '__self__'"),
        ("{% if 1 %}{{ self.__init__ }}{% endif %}", 11, "unsafe"),
        ("{% if 1 %}{{ range }}{{ lipsum.__globals__ }}{% endif %}", 11, "undefined"),
    ],
)
def test_what_depends_on_the_values_is_found_when_the_recipe_is_used(
    body: str, line: int, words: str
) -> None:
    check(recipe(body, Argument("a")))
    error = failure(body, Argument("a"))
    assert words in str(error)
    assert error.line == line


def test_a_recipe_that_lists_no_commands_runs_none_and_that_is_seen_when_it_is_read() -> (
    None
):
    with pytest.raises(
        RecipeError,
        match=r"note\.md:12: .*shell\(\) needs `allowed_commands` in the front matter",
    ):
        check(recipe("\n{% if git.dirty %}{{ shell('git', 'log') }}{% endif %}"))


def test_a_prompt_has_a_largest_size_that_what_the_user_typed_does_not_count_to() -> (
    None
):
    loop = "{% for a in instructions %}{{ 'x' }}" + "y" * 300 + "{% endfor %}"
    with pytest.raises(RecipeError, match="renders to more than 256 KiB"):
        render(recipe(loop), {}, "z" * 1000)
    typed = "words and " * (MAX_OUTPUT // 5) + "words"
    assert render(recipe("{{ instructions }}"), {}, typed) == typed
