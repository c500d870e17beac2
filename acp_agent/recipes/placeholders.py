"""`$ARGUMENTS` and `$1` to `$9`: what was typed behind a command's name, whole or word by word.

Owns where they stand in a text and what they mean, and the rendering of texts that have nothing else: the commands of
Claude Code, of which no brace is a template. Everything is put in once, so that a placeholder among what was typed, or
in what a command printed, stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from acp_agent.errors import RecipeArgumentError, RecipeError
from acp_agent.recipes.model import Recipe
from acp_agent.recipes.surroundings import CommandError, Surroundings

# `$10`, `$1.50` and `$1,000` are amounts, and a backslash keeps a placeholder as it is.
_PLACEHOLDER = re.compile(r"(?P<kept>\\(?=\$(?:ARGUMENTS\b|[1-9])))?\$(?:ARGUMENTS\b|(?P<number>[1-9])(?!\d|[.,]\d))")
_FIRST = re.compile(r"(?<!\\)\$1(?!\d|[.,]\d)")
_COMMAND = re.compile(r"(?<!\S)!`(?P<command>[^`\n]+)`")
_UNQUOTED = re.compile(r"('[^']*'|\"[^\"]*\")|\$ARGUMENTS\b")
_WORDS = "\0"
"""Stands in a command for `$ARGUMENTS` outside of quotes."""
_SHELL_SYNTAX = re.compile(r"[|&;<>$(){}\[\]*?~#!\\]|^\w+=")


def words_of(typed: str) -> list[str]:
    """What was typed, word by word as in a shell; at spaces alone where a quote is not closed."""
    try:
        return shlex.split(typed)
    except ValueError:
        return typed.split()


def has_positions(recipe: Recipe) -> bool:
    """Whether `$1` means a word in a recipe: it stands there, and no arguments have names. Else it is an amount."""
    return not recipe.arguments and _FIRST.search(recipe.body) is not None


def pieces(text: str, *, positions: bool) -> Iterator[str | int]:
    """Cut a text at its placeholders.

    :param positions: whether `$1` to `$9` are some.
    :returns: texts, and 0 for `$ARGUMENTS`, 1 to 9 for the words.
    """
    done = 0
    for found in _PLACEHOLDER.finditer(text):
        if found["number"] is not None and not positions:
            continue
        begin = found.start()
        yield text[done:begin]
        done = found.end()
        yield text[begin + 1 : done] if found["kept"] is not None else int(found["number"] or 0)
    yield text[done:]


def mentions_words(recipe: Recipe) -> bool:
    """Whether a command of Claude Code says where what was typed goes."""
    return any(isinstance(piece, int) for piece in pieces(recipe.body, positions=True))


def render_command(recipe: Recipe, typed: str, around: Surroundings | None) -> Iterator[str]:
    """The text of a command of Claude Code, piece by piece.

    A word of the form !`command` is what that command prints, where the recipe may run it and no shell is needed for
    it; else it stays as it is, for the model to run.

    :param typed: all that stands behind the command's name.
    :raises RecipeError: a command failed; names file and line.
    """
    words = [typed, *words_of(typed)]
    done = 0
    for found in _COMMAND.finditer(recipe.body):
        yield from _put_in(recipe.body[done : found.start()], words)
        line = recipe.body_line + recipe.body.count("\n", 0, found.start())
        try:
            printed = _printed(_argv(found["command"]), words, around)
        except CommandError as error:
            raise command_failed(error, str(recipe.source), line) from error
        yield from _put_in(found[0], words) if printed is None else (printed,)
        done = found.end()
    yield from _put_in(recipe.body[done:], words)


def _put_in(text: str, words: Sequence[str]) -> Iterator[str]:
    return (piece if isinstance(piece, str) else _word(words, piece) for piece in pieces(text, positions=True))


def _word(words: Sequence[str], number: int) -> str:
    return words[number] if number < len(words) else ""


def _argv(command: str) -> list[str] | None:
    """A command line that needs no shell, with `_WORDS` in it; None for another one."""
    without = "".join(part if isinstance(part, str) else "x" for part in pieces(command, positions=True))
    if _SHELL_SYNTAX.search(without):
        return None
    try:
        return shlex.split(_UNQUOTED.sub(lambda found: found[1] or _WORDS, command)) or None
    except ValueError:
        return None


def command_failed(error: CommandError, source: str, line: int | None) -> RecipeError:
    """What to tell of a command that did not succeed. Where it had words that somebody typed, these are to blame."""
    kind = RecipeArgumentError if error.is_typed else RecipeError
    return kind(f"a command of its text did not succeed: {error}", source=source, line=line)


def _printed(argv: Sequence[str] | None, typed: Sequence[str], around: Surroundings | None) -> str | None:
    """What a command prints; None where it does not run.

    :param argv: its words, with placeholders and `_WORDS`.
    """
    if argv is None or around is None:
        return None
    put_in = [pair for word in argv for pair in _words_put_in(word, typed)]
    # As in a shell, a word that nothing was typed for is none.
    asked = [(word, is_typed) for word, is_typed in put_in if word]
    words = [word for word, _ in asked]
    if not words or around.refuses(words):
        return None
    return around.shell(*words, typed=[place for place, (_, is_typed) in enumerate(asked) if is_typed])


def _words_put_in(word: str, typed: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """What a word of a command becomes, and whether somebody typed it: outside of quotes, `$ARGUMENTS` is as many words
    as were typed, the first and the last of which go on with what stands beside it. No shell reads any of them."""
    first, *others = word.split(_WORDS)
    made = ["".join(_put_in(first, typed))]
    for other in others:
        begin, *rest = words_of(typed[0]) or [""]
        made = [*made[:-1], made[-1] + begin, *rest]
        made[-1] += "".join(_put_in(other, typed))
    is_typed = bool(others and typed[0]) or any(_put_in_of(word, typed))
    return ((one, is_typed) for one in made)


def _put_in_of(text: str, words: Sequence[str]) -> Iterator[str]:
    """What placeholders of a text stand for."""
    return (_word(words, piece) for piece in pieces(text, positions=True) if isinstance(piece, int))
