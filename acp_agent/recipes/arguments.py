"""The command line after a recipe's name: leading arguments such as `depth=3 topic="two words"`, and the rest.

Only names that the recipe declares are arguments, and only in front: a sentence that holds an `=` stays a sentence. The
rest is put in for `$ARGUMENTS`, and its words for `$1` to `$9`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping

from acp_agent.errors import InvalidParamsError
from acp_agent.recipes.model import Argument, Recipe

_ARGUMENT = re.compile(
    r"""\s*(?P<name>[^\s=]+)=
    (?: "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>[^']*)' | (?P<plain>\S*) )
    (?:\s+|\Z)""",
    re.VERBOSE | re.DOTALL,
)
# `$10`, `$1.50` and `$1,000` are amounts, and a backslash keeps a placeholder as it is.
_PLACEHOLDER = re.compile(r"(?P<kept>\\(?=\$(?:ARGUMENTS\b|[1-9])))?\$(?:ARGUMENTS\b|(?P<number>[1-9])(?!\d|[.,]\d))")


def split_arguments(command: str, declared: Collection[str], line: str) -> tuple[dict[str, str], str]:
    """Take the arguments off the front of a command line.

    A value is one word, or stands in quotes as in a shell: nothing is special between single ones, and a backslash
    takes the next character as it is between double ones. A quote that is not closed is part of a word.

    :param command: what has these arguments, such as "the recipe `review`".
    :param declared: their names.
    :param line: what was typed behind the command's name.
    :returns: values by name, and the rest: from the first word on that is no argument.
    :raises InvalidParamsError: an argument is given twice.
    """
    values: dict[str, str] = {}
    position = 0
    while (found := _ARGUMENT.match(line, position)) and found["name"] in declared:
        _require_new(command, found["name"], values)
        if found["double"] is not None:
            value = re.sub(r"\\(.)", r"\1", found["double"], flags=re.DOTALL)
        else:
            value = found["single"] if found["single"] is not None else found["plain"]
        values[found["name"]] = value
        position = found.end()
    return values, line[position:].strip()


def join_arguments(values: Mapping[str, str], rest: str) -> str:
    """Return the command line that `split_arguments` reads these from, for a recipe that declares them."""
    quoted = ((name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in values.items())
    return " ".join([*(f'{name}="{value}"' for name, value in quoted), rest]).strip()


def named_values(recipe: Recipe, words: Iterable[str]) -> dict[str, str]:
    """Read words of the form `NAME=VALUE`, each an argument of the recipe.

    :raises InvalidParamsError: one has another form, names no argument, or one that is given already.
    """
    known = [argument.name for argument in recipe.arguments]
    values: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise InvalidParamsError(f"{word!r} is no argument; write it as NAME=VALUE")
        if name not in known:
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            raise InvalidParamsError(f"the recipe `{recipe.name}` has no argument `{name}`; {takes}")
        _require_new(f"the recipe `{recipe.name}`", name, values)
        values[name] = value
    return values


def missing_arguments(recipe: Recipe, given: Collection[str]) -> tuple[Argument, ...]:
    """Return the arguments without which a recipe cannot be rendered.

    :param given: names of those that have a value.
    """
    return tuple(
        argument
        for argument in recipe.arguments
        if argument.required and argument.default is None and argument.name not in given
    )


def words_of(typed: str) -> list[str]:
    """Split what was typed as a shell does; at spaces alone where a quote is not closed."""
    try:
        return shlex.split(typed)
    except ValueError:
        return typed.split()


def pieces(text: str, *, positions: bool) -> Iterator[str | int]:
    """Cut a text at its placeholders.

    :param positions: whether `$1` to `$9` are some.
    :returns: texts, and 0 for `$ARGUMENTS`, 1 to 9 for the words.
    """
    done = 0
    for found in _PLACEHOLDER.finditer(text):
        if found["number"] is not None and not positions:
            continue
        yield text[done : found.start()]
        done = found.end()
        yield found[0].removeprefix("\\") if found["kept"] is not None else int(found["number"] or 0)
    yield text[done:]


def fill(text: str, typed: str) -> str:
    """Put what was typed in for the placeholders of a text, once: a placeholder in it stays as it is."""
    words = [typed, *words_of(typed), *[""] * 9]
    return "".join(piece if isinstance(piece, str) else words[piece] for piece in pieces(text, positions=True))


def _require_new(command: str, name: str, values: Mapping[str, str]) -> None:
    if name in values:
        raise InvalidParamsError(
            f"the argument `{name}` of {command} is given twice; give it once. Where the second belongs to the "
            "instructions, put another word before it"
        )
