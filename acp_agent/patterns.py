"""Regular expressions that come from outside: from recipes, hooks, JSON Schemas, scripts and models.

RE2 matches them, in a time that is linear in the text. Python's `re` backtracks: `^(a+)+$` takes years over sixty
characters, holds the interpreter's lock meanwhile, and cannot be interrupted. RE2 is loaded with the first pattern.

RE2, "Syntax": https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from typing import Any, cast

_LONGEST_SHOWN = 200
_INSTEAD = (
    (
        ("(?=", "(?!", "(?<=", "(?<!"),
        "It has no lookaround: match what stands around it too; in a JSON Schema, combine patterns by `allOf`, `not`",
    ),
    (
        ("(?P", *(f"sequence: \\{digit}" for digit in "123456789")),
        "It has no backreferences: write out what may be repeated",
    ),
    (("(?>", "++", "*+", "?+"), "It never backtracks: a plain group or quantifier does the same"),
    (
        ("repetition size",),
        "It repeats 1,000 times at most; a JSON Schema has `minLength` and `maxLength` for long texts",
    ),
    (("\\Z",), "It writes \\z for the end of the text"),
    (("\\u",), "It writes \\x{20ac} for a character by its number"),
)
"""What to write in place of what RE2 does not know, with the signs of that in its errors."""


class PatternError(ValueError):
    """A pattern that RE2 cannot match; names it, and says why and what to write instead."""


class Pattern:
    """A compiled pattern.

    :param compiled: RE2's, of bytes.
    """

    __slots__ = ("_compiled",)

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def search(self, text: str | bytes, start: int = 0) -> tuple[int, int] | None:
        """Return where the first match begins and ends, in bytes of UTF-8; None where there is none.

        :param start: the byte to begin at.
        """
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        found = self._compiled.search(data, start)
        return None if found is None else found.span()


def compile_pattern(
    pattern: str,
    *,
    ignore_case: bool = False,
    multiline: bool = False,
    dot_all: bool = False,
    within_lines: bool = False,
) -> Pattern:
    """Compile a pattern that somebody else wrote. The library caches what it has compiled.

    :param multiline: `^` and `$` match at the ends of lines too.
    :param dot_all: `.` matches a newline too.
    :param within_lines: no match contains a newline.
    :raises PatternError: RE2 cannot match it.
    """
    import re2  # pyright: ignore[reportMissingTypeStubs]

    library = cast("Any", re2)
    options = library.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.dot_nl = dot_all
    options.never_nl = within_lines
    flags = "(?m)" if multiline else ""
    try:
        return Pattern(library.compile((flags + pattern).encode("utf-8", "surrogatepass"), options))
    except library.error as error:
        raise PatternError(
            _explained(pattern, error.args[0].decode("utf-8", "replace").replace(flags, "", 1))
        ) from error


def _explained(pattern: str, why: str) -> str:
    shown = pattern if len(pattern) <= _LONGEST_SHOWN else f"{pattern[:_LONGEST_SHOWN]}…"
    instead = next((words for signs, words in _INSTEAD if any(sign in why for sign in signs)), "")
    return f"`{shown}` is no regular expression of RE2: {why}{f'. {instead}' if instead else ''}"
