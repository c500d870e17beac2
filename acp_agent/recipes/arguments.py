"""Arguments on a command line: `depth=3 topic="two words" and the rest`, read and written.

Only names that the recipe declares are arguments, and only in front: a sentence that holds an `=` stays a sentence.
Knows no prompts and no templates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from acp_agent.errors import RecipeArgumentError
from acp_agent.recipes.model import Argument, Recipe

_ARGUMENT = re.compile(
    r"""\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)=
    (?: "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>[^']*)' | (?P<plain>\S*) )
    (?:\s+|\Z)""",
    re.VERBOSE | re.DOTALL,
)


def split_arguments(recipe: Recipe, line: str) -> tuple[dict[str, str], str]:
    """Take the arguments off the front of a command line.

    A value is one word, or stands in quotes as in a shell: nothing is special between single ones, and a backslash
    takes the next character as it is between double ones. A quote that is not closed is part of a word.

    :param line: what was typed behind the recipe's name.
    :returns: values by name, and the rest: from the first word on that is no argument.
    :raises RecipeArgumentError: an argument is given twice.
    """
    declared = {argument.name for argument in recipe.arguments}
    values: dict[str, str] = {}
    position = 0
    while found := _ARGUMENT.match(line, position):
        name = found["name"]
        if name not in declared:
            break
        _require_new(recipe, name, values)
        if found["double"] is not None:
            values[name] = re.sub(r"\\(.)", r"\1", found["double"], flags=re.DOTALL)
        else:
            values[name] = found["single"] if found["single"] is not None else found["plain"]
        position = found.end()
    return values, line[position:].strip()


def join_arguments(values: Mapping[str, str], rest: str) -> str:
    """The command line that `split_arguments` reads these from, for a recipe that declares them."""
    return " ".join([*(f"{name}={_quoted(value)}" for name, value in values.items()), rest]).strip()


def named_values(recipe: Recipe, words: Iterable[str]) -> dict[str, str]:
    """Read `NAME=VALUE` words, of which each has to be an argument of the recipe.

    :raises RecipeArgumentError: one has another form, names no argument, or one that is given already.
    """
    known = [argument.name for argument in recipe.arguments]
    values: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise RecipeArgumentError(f"{word!r} is no argument; write it as NAME=VALUE")
        if name not in known:
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            raise RecipeArgumentError(f"the recipe `{recipe.name}` has no argument `{name}`; {takes}")
        _require_new(recipe, name, values)
        values[name] = value
    return values


def missing_arguments(recipe: Recipe, given: Collection[str]) -> tuple[Argument, ...]:
    """The arguments without which a recipe cannot be rendered.

    :param given: names of those that have a value.
    """
    return tuple(
        argument
        for argument in recipe.arguments
        if argument.required and argument.default is None and argument.name not in given
    )


def _require_new(recipe: Recipe, name: str, values: Mapping[str, str]) -> None:
    if name in values:
        raise RecipeArgumentError(
            f"the argument `{name}` of the recipe `{recipe.name}` is given twice; give it once. Where the second "
            "belongs to the instructions, put another word before it"
        )


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
