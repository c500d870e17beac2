"""From a recipe and typed words to a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.errors import RecipeError
from acp_agent.recipes import Argument, HookBinding, NamedHandler, Recipe, RecipeLibrary, builtin_recipes_dir, render
from acp_agent.recipes.template import MAX_OUTPUT, MAX_TEMPLATE, check


def recipe(body: str, *arguments: Argument) -> Recipe:
    return Recipe(
        name="note",
        description="",
        body=body,
        body_line=11,
        source=Path("/r/note.md"),
        origin="user",
        digest="",
        arguments=arguments,
    )


def failure(body: str, *arguments: Argument, given: dict[str, str] | None = None) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        render(recipe(body, *arguments), given or {}, "")
    assert caught.value.source == "/r/note.md"
    return caught.value


def test_arguments_come_from_the_caller_then_from_defaults_and_else_are_empty() -> None:
    body = "{{ a }}|{{ b }}|{{ c }}{% if c %}never{% endif %}|"
    arguments = (Argument("a"), Argument("b", default="B"), Argument("c"))
    assert render(recipe(body, *arguments), {"a": "A"}, "") == "A|B||"
    assert render(recipe(body, *arguments), {"a": "A", "b": ""}, "") == "A|||"


def test_a_missing_required_argument_is_named_with_what_it_is_for() -> None:
    error = failure("x", Argument("branch", "the branch to review", required=True))
    assert "needs the argument `branch` (the branch to review); begin with it, as in `/note branch=…`" in str(error)
    assert str(error).endswith(" a terminal `--arg branch=…`")
    sign = failure("x", Argument("branch", "one\x1b[2J\x9b2J\x07 of\n\tmany", required=True))
    assert "(one\ufffd[2J\ufffd2J\ufffd of\n\tmany)" in str(sign)
    assert render(recipe("{{ b }}", Argument("b", default="main", required=True)), {}, "") == "main"


def test_an_unknown_argument_is_named_with_the_nearest_known_one() -> None:
    error = failure("x", Argument("branch"), given={"brunch": "x"})
    assert "has no argument `brunch`; did you mean `branch`?" in str(error)
    assert "has no argument `zebra`; it takes: branch" in str(failure("x", Argument("branch"), given={"zebra": "x"}))
    assert "it takes none" in str(failure("x", given={"instructions": "x"}))


@pytest.mark.parametrize("name", ["instructions", "arguments"])
def test_the_rest_of_the_line_goes_where_the_recipe_wants_it(name: str) -> None:
    assert render(recipe(f"Do this: {{{{ {name} }}}}!"), {}, " run the tests \n") == "Do this: run the tests!"
    assert render(recipe(f"A{{% if {name} %}}B{{% endif %}}"), {}, "x") == "AB"
    assert render(recipe(f"A{{% if {name} %}}B{{% endif %}}"), {}, "  ") == "A"


def test_the_rest_of_the_line_is_put_below_a_recipe_that_does_not_ask_for_it() -> None:
    text = render(recipe("Say hello.\n"), {}, " in French ")
    assert text == "Say hello.\n\nAdditional instructions from the user:\n\nin French"
    assert render(recipe("Say hello.\n"), {}, " ") == "Say hello."


@settings(deadline=None)
@given(st.text(), st.text())
def test_what_the_user_typed_is_never_read_as_a_template(typed: str, value: str) -> None:
    syntax = "{{ 1 / 0 }}{% zebra %}{# gone #}"
    text = render(recipe("<{{ instructions }}|{{ a }}>", Argument("a")), {"a": value + syntax}, typed + syntax)
    assert text == f"<{(typed + syntax).strip()}|{value + syntax}>"


@settings(deadline=None)
@given(st.text().filter(lambda text: not any(mark in text for mark in ("{{", "{%", "{#", "\r"))))
def test_a_text_without_templates_is_rendered_as_it_stands(text: str) -> None:
    assert render(recipe(text), {}, "") == text.strip()


def test_nothing_is_escaped() -> None:
    assert render(recipe("<b> & {{ instructions }}"), {}, "<i>") == "<b> & <i>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{% for word in ['a', 'b'] %}{{ loop.index }}{{ word | upper }};{% endfor %}", "1A;2B;"),
        ("{{ 'x' if not a else a[0:1] }}", "x"),
        ("{{ a | default('none', true) }}", "none"),
        ("{{ a ~ 'b' + 'c' }}", "bc"),
        ("{% raw %}{{ a }}{% endraw %}", "{{ a }}"),
        ("x\n{% if a is defined and a == '' %}\ny\n{% endif %}\nz", "x\ny\nz"),
        ("a{# a note #}b", "ab"),
        ("{% for n in [1, 2, 3] if n != 2 %}{{ n }}{{ ',' if not loop.last }}{% else %}none{% endfor %}", "1,3"),
        ("{% if a == 'x' %}1{% elif 'b' in ['b'] and 2 >= 1 %}2{% else %}3{% endif %}", "2"),
        ("{{ {'k': ('v', true, none)}.k[0] }}{{ -1 - 1 }}{{ ' B ' | trim | lower }}", "v-2b"),
    ],
)
def test_the_language_is_the_useful_part_of_jinja2(body: str, expected: str) -> None:
    assert render(recipe(body, Argument("a")), {}, "") == expected


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("one\n{{ nobody }}", 12, "'nobody' is undefined"),
        ("one\ntwo\n{% if nobody %}x{% endif %}", 13, "'nobody' is undefined"),
        ("{{ a.b.c }}", 11, "has no attribute 'b'"),
        ("one\n{{ ", 12, "the template is wrong: "),
        ("{% if a %}\nx", 12, "the template is wrong: "),
        ("{% zebra %}", 11, "unknown tag 'zebra'"),
        ("\n{{ a | shout }}", 12, "recipes cannot use the filter `shout`, only capitalize,"),
        ("\n\n{{ a is zebra }}", 13, "No test named 'zebra'"),
        ("{{ a + 1 }}", 11, "the template failed: "),
        ("\n{{ " + "(" * 5000 + ")" * 5000 + " }}", None, "the template failed: "),
    ],
)
def test_a_mistake_is_named_with_its_line_in_the_file(body: str, line: int | None, words: str) -> None:
    error = failure(body, Argument("a"))
    assert words in str(error)
    assert error.line == line


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("one\n{{ instuctions }}", 12, "'instuctions' is undefined; did you mean `instructions`?"),
        ("{% if a %}\nx", 12, "the template is wrong: "),
        ("\n{{ a | shout }}", 12, "recipes cannot use the filter `shout`"),
        ("{{ 'a' * 2 }}", 11, "recipes cannot use `*`"),
        ("\n{% set b = a %}", 12, "recipes cannot use `{% set %}`"),
        ("\n\n{{ a is zebra }}", 13, "No test named 'zebra'"),
        ("\n{{ ''.__class__.__mro__ }}", 12, "recipes cannot use `__mro__`"),
        ("{{ a['__class__'] }}", 11, "recipes cannot use `__class__`"),
    ],
)
def test_a_template_that_nothing_could_make_a_prompt_of_is_found_without_arguments(
    body: str, line: int, words: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        check(recipe(body, Argument("a", required=True)))
    assert words in str(caught.value)
    assert (caught.value.source, caught.value.line) == ("/r/note.md", line)


@pytest.mark.parametrize(
    "body",
    [
        "{% if zebra is defined %}{{ zebra }}{% endif %}",
        "{{ zebra | default('x') }}",
        "{{ a }}{{ arguments }}",
        "}} %}",
    ],
)
def test_a_template_that_some_arguments_make_a_prompt_of_is_none_of_those(body: str) -> None:
    check(recipe(body, Argument("a", required=True)))
    render(recipe(body, Argument("a")), {}, "")


@pytest.mark.parametrize(
    "body",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ a['__cla' ~ 'ss__'] }}",
        "{{ a | attr('__class__') }}",
        "{{ ['__class__'] | map(attribute='__class__') }}",
        "{{ a.format }}{{ a.format.__self__ }}",
        "{{ self.__init__ }}",
        "{{ loop }}",
        "{{ range }}",
        "{{ lipsum.__globals__ }}",
        "{{ cycler.__init__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends '/etc/passwd' %}",
    ],
)
def test_a_template_cannot_reach_python_or_files(body: str) -> None:
    failure(body, Argument("a"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{{ 'a' * 1000000000 }}", "recipes cannot use `*`"),
        ("{{ 9 ** 99999999 }}", "recipes cannot use `**`"),
        ("{{ '%1000000000d' % 1 }}", "recipes cannot use `%`"),
        ("{{ 'a'.ljust(1000000000) }}", "recipes cannot use function calls"),
        ("{{ '{:1000000000}'.format(1) }}", "recipes cannot use function calls"),
        ("{{ range(1000000000) | length }}", "recipes cannot use function calls"),
        ("{{ lipsum(1000000000) }}", "recipes cannot use function calls"),
        ("{{ 'a' | center(1000000000) }}", "recipes cannot use the filter `center`"),
        ("{{ 'aa' | replace('a', 'aa') }}", "recipes cannot use the filter `replace`"),
        ("{{ 'a' | default(b | center(1000000000)) }}", "recipes cannot use the filter `center`"),
        ("{% set a = 'aa' %}" + "{% set a = a ~ a %}" * 40, "recipes cannot use `{% set %}`"),
        ("{% for a in 'ab' %}{% for b in 'ab' %}x{% endfor %}{% endfor %}", "recipes cannot use loops in loops"),
        ("{% for a in 'ab' %}{% if a %}{% for b in a %}{% endfor %}{% endif %}{% endfor %}", "loops in loops"),
        ("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recipes cannot use loops in loops"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recipes cannot use `{% macro %}`"),
    ],
)
def test_a_template_cannot_make_much_of_little(body: str, words: str) -> None:
    assert words in str(failure(body, Argument("a"), Argument("b")))


def test_a_prompt_has_a_largest_size_that_what_the_user_typed_does_not_count_to() -> None:
    loop = "{% for a in instructions %}{{ 'x' }}" + "y" * 300 + "{% endfor %}"
    with pytest.raises(RecipeError, match="renders to more than 256 KiB"):
        render(recipe(loop), {}, "z" * 1000)
    assert len(render(recipe("{{ instructions }}"), {}, "z" * 2 * MAX_OUTPUT)) == 2 * MAX_OUTPUT


def test_a_text_with_template_syntax_has_a_largest_size_and_a_plain_one_has_not() -> None:
    braces = "{{ instructions }}"
    check(recipe(braces + "x" * (MAX_TEMPLATE - len(braces))))
    check(recipe("x" * 2 * MAX_TEMPLATE))
    with pytest.raises(RecipeError, match=r"may have 64 KiB; make it shorter"):
        check(recipe(braces + "x" * (MAX_TEMPLATE - len(braces) + 1)))


def test_the_compact_recipe_asks_for_a_summary_without_tools_and_swaps_once() -> None:
    library = RecipeLibrary.discover(builtin_recipes_dir(), None, None, {"turn_end": ["swap_context"]})
    compact = library.recipes["compact"]
    assert compact.allowed_tools == ()
    assert compact.hooks == {"turn_end": HookBinding((NamedHandler("swap_context"),), once=True)}
    plain, focused = render(compact, {}, ""), render(compact, {}, "focus on {{ the }} tests")
    assert "The user asks for this focus:\n\nfocus on {{ the }} tests\n" in focused
    assert "The user asks for this focus" not in plain
    sections = [line for line in plain.split("\n") if line.startswith("## ")]
    assert len(sections) == 7, "the text says that there are seven"
    assert "{{" not in plain
    assert "{%" not in plain
