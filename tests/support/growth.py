"""How the time of a function grows with its input: hostile inputs of two sizes,
compared generously.
"""

from __future__ import annotations

import gc
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from re import _constants as codes  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any, cast

_FLOOR = 0.02
"""Seconds of the thread that are never too many."""
_MOST = 8
"""Times as long for an input that is four times as long: between 4, which is linear,
and 16, which is quadratic.
"""
_TRIES = 4

PUMPS = (
    *("a", " ", "\n", "\t", "\0", "\ud800", "é", "中", "e\u0301", "\u0301", "\u2800"),
    *(
        "(",
        ")",
        "[",
        "{",
        "<",
        "[]",
        "{}",
        "()",
        "[[",
        "{{",
        "{%",
        "<a>",
        "</a>",
        "<!--",
        "<think>",
        "</think>",
    ),
    *(
        "'",
        '"',
        "`",
        "```",
        "```\n",
        "~~~\n",
        "\\",
        "\\\\",
        '\\"',
        "a\\n",
        "$(",
        "${",
        "$",
    ),
    *(
        ",",
        ";",
        ":",
        "/",
        "//",
        "/*",
        "*/",
        "*",
        "**",
        "***/",
        "?",
        "!",
        "#",
        "# a\n",
        "- ",
        "- a\n",
        "> a\n",
        "1. a\n",
    ),
    *(
        "a b ",
        "a\n",
        "a\r",
        "\r\n",
        "a\r\n",
        " \n",
        "\n ",
        "aB0_",
        "a.",
        "a-",
        "-a",
        "a=",
        "a: ",
        "a:b,",
        "a/",
        "../",
    ),
    *(
        "eyJ-",
        "eyJa.",
        "sk-",
        "sk-a1",
        "token=",
        "token ",
        "--token ",
        '"token": "',
        "Bearer ",
        "x-a-",
        "://",
        "a://b@",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN ",
        "password: ",
        "?a=",
        "&key=",
        "https://a?b#",
        "@",
        "a@",
        "@a:b:",
    ),
    *(
        "\x1b[",
        "\x1b]",
        "\x1b[1m",
        "\x1b[2K",
        "\x1b[2J",
        "\x1b[A",
        "\b",
        "a\b",
        "\x07",
        "a\x07\n",
        "\x1b7",
        "\x1b[H",
    ),
    *(
        "1",
        "1.",
        "1,000",
        "0x",
        "1e9",
        "-1 ",
        "null,",
        "[1,",
        '{"a":',
        '"a",',
        "data: {}\n\n",
        "data: a\n",
        "&a [*a,",
    ),
    *(
        "a && ",
        "a;",
        "a | ",
        "if a; then ",
        "<<a ",
        "[^",
        "[:a",
        "a{1,",
        "{a,b}",
        "!a\n",
        "*a*",
        "\\d+",
        "(?=",
        "(a|",
    ),
    *(
        "previous_user_message>",
        "<file>",
        "<tool_call>",
        "[#1] ",
        "## A\n",
        "exit code ",
        "error ",
        "no ",
        "。",
        "a!  ",
    ),
)
"""Pieces that hostile texts repeat: delimiters of the formats that are read here, alone
and nested.
"""


def seconds(work: Callable[[Any], object], value: object) -> float:
    """Return how long this thread works on a value; an error that the work raises is an
    answer too.
    """
    # How long a collection of garbage takes says something of the tests that ran
    # before.
    gc.disable()
    began = time.thread_time()
    try:
        work(value)
    except RecursionError:
        raise
    except Exception:
        pass
    finally:
        ended = time.thread_time()
        gc.enable()
    return ended - began


def grows_too_fast(
    work: Callable[[Any], object], make: Callable[[int], object], size: int
) -> str:
    """Return how the time grew from `size` to four times as much, if it grew faster
    than linearly each time it was measured; an empty string if not.

    :param work: called with what `make` returns for a size.
    """
    told = ""
    for _ in range(_TRIES):
        large = seconds(work, make(4 * size))
        if large < _FLOOR:
            return ""
        small = seconds(work, make(size))
        if large < _MOST * small + _FLOOR:
            return ""
        told = f"{small:.3f} s for {size:,}, {large:.3f} s for {4 * size:,}"
        if large > 20 * _FLOOR and large > 2 * _MOST * small:
            break
    return told


def repeated(pump: str, before: str = "", behind: str = "") -> Callable[[int], str]:
    """Return a maker of texts of about a given length that repeat a piece."""
    return lambda size: before + pump * (size // len(pump)) + behind


# --- inputs for a regular expression, made from its own parts ---

_ALPHABET = "aA0_- \n\"'`.<>[]{}()/\\|:;,=*#~!\0\x1b\ud800é中"


def hostile_inputs(
    pattern: re.Pattern[Any], count: int, seed: int = 7
) -> Iterator[Callable[[int], Any]]:
    """Yield makers of texts that repeat parts of what a pattern matches, so that it
    nearly matches at many places.
    """
    chance = random.Random(seed)
    tree = parser.parse(pattern.pattern, pattern.flags)
    for _ in range(count):
        sample = _sample(tree, chance) or "a"
        start = chance.randrange(len(sample))
        pump = sample[start : start + chance.randint(1, 14)]
        letter = chance.choice([*sample, *_ALPHABET])
        pump = chance.choice((pump, pump, pump + letter, letter + pump, letter))
        before = chance.choice((sample[:start], sample[:start], "", "\n", '"'))
        behind = chance.choice(("", "\0", "!", "\n", " "))
        make = repeated(pump, before, behind)
        if isinstance(pattern.pattern, bytes):
            yield lambda size, make=make: make(size).encode("utf-8", "surrogatepass")
        else:
            yield make


def _sample(tree: Any, chance: random.Random) -> str:
    """Return a text that a parsed pattern matches, but for lookarounds and references."""
    return "".join(_sample_of(code, value, chance) for code, value in tree)


def _sample_of(code: Any, value: Any, chance: random.Random) -> str:
    match str(code):
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL":
            return chance.choice([each for each in _ALPHABET if ord(each) != value])
        case "ANY":
            return chance.choice('a b"-')
        case "IN":
            return _one_of(value, chance)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            times = min(least + chance.choice((0, 0, 1, 2, 3)), int(most))
            if chance.random() < 0.5:
                return _sample(inner, chance) * times
            return "".join(_sample(inner, chance) for _ in range(times))
        case "SUBPATTERN":
            return _sample(value[3], chance)
        case "ATOMIC_GROUP":
            return _sample(value, chance)
        case "BRANCH":
            return _sample(chance.choice(value[1]), chance)
        case "ASSERT":
            return _sample(value[1], chance) if chance.random() < 0.5 else ""
        case "GROUPREF_EXISTS":
            return _sample(
                value[1] if value[2] is None or chance.random() < 0.5 else value[2],
                chance,
            )
        case _:
            return ""


def _one_of(items: Sequence[tuple[Any, Any]], chance: random.Random) -> str:
    """Return a character of a set."""
    written = "".join(_written(code, value) for code, value in items)
    matches = re.compile(
        f"[{'^' if items[0][0] is codes.NEGATE else ''}{written}]"
    ).match
    ends = [chr(end) for code, value in items if code is codes.RANGE for end in value]
    literals = [chr(value) for code, value in items if code is codes.LITERAL]
    fitting = [each for each in (*_ALPHABET, *ends, *literals) if matches(each)]
    return chance.choice(fitting) if fitting else ""


def _written(code: Any, value: Any) -> str:
    if code is codes.LITERAL:
        return re.escape(chr(value))
    if code is codes.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    if code is codes.CATEGORY:
        name = cast("str", str(value)).removeprefix("CATEGORY_")
        letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.removeprefix("NOT_")]
        return "\\" + (letter.upper() if name.startswith("NOT_") else letter)
    return ""
