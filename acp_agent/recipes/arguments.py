"""The command line after a recipe's name: leading arguments such as `depth=3 topic="two
words"`, and the rest.

Only names that the recipe declares are arguments, and only at the beginning, so a
sentence may contain an `=`. The rest replaces `$ARGUMENTS`, and its words replace `$1`
to `$9`.
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
# `$10`, `$1.50` and `$1,000` are amounts of money, and a backslash escapes a
# placeholder.
_PLACEHOLDER = re.compile(
    r"(?P<kept>\\(?=\$(?:ARGUMENTS\b|[1-9])))?\$(?:ARGUMENTS\b|(?P<number>[1-9])(?!\d|[.,]\d))"
)


def split_arguments(
    command: str, declared: Collection[str], line: str
) -> tuple[dict[str, str], str]:
    """Split the leading arguments from a command line.

    A value is one word, or quoted as in a shell: nothing is special between single
    quotes, and between double quotes a backslash escapes the next character. An
    unclosed quote is part of a word.

    :param command: name of the command for messages, such as "the recipe `review`".
    :param declared: names of the arguments.
    :param line: the text after the command's name.
    :returns: values by name, and the rest, beginning with the first word that is not an
        argument.
    :raises InvalidParamsError: if an argument is given twice.
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
    """Return a command line that `split_arguments` splits into these values and this
    rest.
    """
    quoted = (
        (name, value.replace("\\", "\\\\").replace('"', '\\"'))
        for name, value in values.items()
    )
    return " ".join([*(f'{name}="{value}"' for name, value in quoted), rest]).strip()


def named_values(recipe: Recipe, words: Iterable[str]) -> dict[str, str]:
    """Parse words of the form `NAME=VALUE` as arguments of the recipe.

    :raises InvalidParamsError: if a word has another form, or its name is unknown or
        given twice.
    """
    known = [argument.name for argument in recipe.arguments]
    values: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise InvalidParamsError(f"{word!r} is no argument; write it as NAME=VALUE")
        if name not in known:
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            raise InvalidParamsError(
                f"the recipe `{recipe.name}` has no argument `{name}`; {takes}"
            )
        _require_new(f"the recipe `{recipe.name}`", name, values)
        values[name] = value
    return values


def missing_arguments(recipe: Recipe, given: Collection[str]) -> tuple[Argument, ...]:
    """Return the required arguments that have neither a value nor a default.

    :param given: names of the arguments that have a value.
    """
    return tuple(
        argument
        for argument in recipe.arguments
        if argument.required and argument.default is None and argument.name not in given
    )


def words_of(typed: str) -> list[str]:
    """Split a typed text as a shell does, or at white space if a quote is not closed."""
    try:
        return shlex.split(typed)
    except ValueError:
        return typed.split()


def pieces(text: str, *, positions: bool) -> Iterator[str | int]:
    """Split a text at its placeholders.

    :param positions: whether `$1` to `$9` are placeholders.
    :returns: texts, and numbers for placeholders: 0 for `$ARGUMENTS`, 1 to 9 for the
        words.
    """
    done = 0
    for found in _PLACEHOLDER.finditer(text):
        if found["number"] is not None and not positions:
            continue
        yield text[done : found.start()]
        done = found.end()
        yield (
            found[0].removeprefix("\\")
            if found["kept"] is not None
            else int(found["number"] or 0)
        )
    yield text[done:]


def fill(text: str, typed: str) -> str:
    """Replace the placeholders of a text with the typed text. Placeholders in the typed
    text are not replaced.
    """
    words = [typed, *words_of(typed), *[""] * 9]
    return "".join(
        piece if isinstance(piece, str) else words[piece]
        for piece in pieces(text, positions=True)
    )


def _require_new(command: str, name: str, values: Mapping[str, str]) -> None:
    if name in values:
        raise InvalidParamsError(
            f"the argument `{name}` of {command} is given twice; give it once. Where the second belongs to the "
            "instructions, put another word before it"
        )
