"""Compiles untrusted regular expressions and wildcards: from recipes, hooks, JSON
Schemas, scripts and models.

RE2 matches them in time linear in the length of the text. Python's `re` backtracks:
`^(a+)+$` takes years for sixty characters, during which it holds the interpreter lock
and cannot be interrupted. RE2 is imported when the first pattern is compiled.

RE2, "Syntax": https://github.com/google/re2/wiki/Syntax
Wildcards: https://git-scm.com/docs/gitignore, and git's wildmatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

_LONGEST_SHOWN = 200
_SYNTAX = (
    "It has no lookaround and no backreferences, never backtracks, allows at most 1,000 repetitions (in a JSON "
    "Schema, use `maxLength`), and writes \\z for "
    "the end of the text and \\x{20ac} for a character by its number"
)
"""Features of other engines that RE2 does not support."""


class PatternError(ValueError):
    """Raised for a pattern that RE2 does not support. The message names the pattern and
    the reason.
    """


class Pattern:
    """A compiled pattern.

    :param compiled: RE2's compiled pattern of bytes.
    """

    __slots__ = ("_compiled",)

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def search(self, text: str | bytes, start: int = 0) -> tuple[int, int] | None:
        """Return the start and end of the first match, in bytes of UTF-8, or None if
        there is no match.

        :param start: index of the byte at which to start.
        """
        data = (
            text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        )
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
    """Compile an untrusted pattern. The library caches compiled patterns.

    :param multiline: whether `^` and `$` also match at line breaks.
    :param dot_all: whether `.` also matches a newline.
    :param within_lines: whether matches must not contain a newline.
    :raises PatternError: if RE2 does not support the pattern.
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
        return Pattern(
            library.compile((flags + pattern).encode("utf-8", "surrogatepass"), options)
        )
    except library.error as error:
        raise PatternError(
            _explained(
                pattern, error.args[0].decode("utf-8", "replace").replace(flags, "", 1)
            )
        ) from error


def _explained(pattern: str, why: str) -> str:
    shown = (
        pattern if len(pattern) <= _LONGEST_SHOWN else f"{pattern[:_LONGEST_SHOWN]}…"
    )
    return f"`{shown}` is not a valid RE2 regular expression: {why}. {_SYNTAX}"


# --- patterns for other engines ---

_PORTABLE = re.compile(
    r"(?P<look>\(\?<?[=!])|(?P<group>\(\?:)|(?P<flags>\(\?)|(?P<capture>\()|(?P<close>\))"
    r"|(?P<class>\[\^?(?:[^\\\[\]]|\\(?:[dDwWsSnrtfv0]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^A-Za-z0-9]))+\])"
    r"|(?P<anchor>[\^$]|\\[bB])|(?P<or>\|)"
    r"|\\(?P<back>[1-9])(?![0-9])"
    r"|(?P<repeat>[*+?]\??|\{(?P<least>[0-9]{1,5})(?P<upto>,(?P<most>[0-9]{0,5}))?\}\??)"
    r"|(?P<plain>[^\\()\[\]{}*+?|^$]|\\(?:[dDwWsSnrtfv0]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^A-Za-z0-9]))",
    re.DOTALL,
)
_UNICODE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_LONGEST_PORTABLE = 4_000
"""Maximum length in characters of a pattern that counts as portable."""


def is_portable(pattern: str) -> bool:
    """Return whether JavaScript and Python accept this regular expression.

    RE2 must accept it too, except for lookarounds and backreferences. Named groups,
    flags, Unicode property classes and variable-length lookbehinds are not portable.

    ECMA-262, "Patterns"; Python, "Regular Expression Syntax".
    """
    shown: list[str] = []  # passed to RE2, which checks everything else
    opened: list[str] = []
    groups = lookbehinds = at = 0
    before = "start"
    if len(pattern) > _LONGEST_PORTABLE:
        return False
    while at < len(pattern):
        token = _PORTABLE.match(pattern, at)
        if token is None:
            return False
        at = token.end()
        kind = token.lastgroup or ""
        text = token[0]
        in_lookbehind = lookbehinds > 0
        if kind in ("look", "group", "capture"):
            opened.append(text)
            lookbehinds += text.startswith("(?<")
            text = "(?:"
        elif kind == "close":
            if not opened:
                return False
            inner = opened.pop()
            lookbehinds -= inner.startswith("(?<")
            groups += inner == "("
            kind = "anchor" if "=" in inner or "!" in inner else "plain"
        elif kind in ("repeat", "least", "upto", "most"):
            least = int(token["least"] or 0)
            most = int(token["most"] or 99_999)
            is_fixed = token["least"] is not None and token["upto"] is None
            if before != "plain" or most < least or (in_lookbehind and not is_fixed):
                return False
            kind = "repeat"
            text = "{1}"  # RE2 allows at most a thousand repetitions
        elif kind == "back":
            if int(token["back"]) > groups:
                return False
            kind = "plain"
            text = "(?:)"
        elif kind == "flags" or (kind == "or" and in_lookbehind):
            return False
        shown.append(_UNICODE.sub(r"\\x{\1}", text))
        before = "plain" if kind in ("class", "plain") else kind
    try:
        compile_pattern("".join(shown))
    except PatternError:
        return False
    return not opened


# --- wildcards for paths ---

_TOKEN = re.compile(
    r"(?P<folders>(?<![^/])\*{2,}/)|(?P<below>(?<![^/])\*{2,}\Z)|(?P<name>(?<![^/])\*(?![^/]))|(?P<stars>\*+)|(?P<one>\?)"
    r"|\[(?>(?P<negated>[!^]?)(?P<items>(?:\[:[^\]]{1,40}:\]|\\.|[^\\])(?:\[:[^\]]{1,40}:\]|\\.|[^\\\]])*+))\]"
    r"|\\(?P<escaped>.)|(?P<plain>[^*?\[\\]+)",
    re.DOTALL,
)
_FIXED = {
    "folders": "(?:.*/)?",
    "below": ".+",
    "name": "[^/]+",
    "stars": "[^/]*",
    "one": "[^/]",
}
_ITEM = re.compile(
    r"(?P<named>\[:[^\]]{1,40}:\])|\\?(?P<low>(?<=\\).|[^\\])(?:-\\?(?P<high>(?<=\\).|[^\\]))?",
    re.DOTALL,
)
_NEVER = r"[^\x00-\x{10FFFF}]"


def compile_wildcards(wildcards: Iterable[str], *, or_literal: bool = False) -> Pattern:
    """Compile wildcards with the syntax of `.gitignore`. A wildcard that matches a
    folder matches everything in it.

    :param or_literal: whether brackets also match themselves, as in folder names such
        as `[id]`.
    :returns: a pattern that matches a relative path with slashes if one of the
        wildcards matches.
    :raises PatternError: if a wildcard ends within a bracket or after a backslash, or
        has an unknown character class.
    """
    found: list[str] = []
    for wildcard in wildcards:
        name = wildcard.removeprefix("./")
        start = wildcard_expression(name.removesuffix("/"), or_literal=or_literal)
        if start is None:
            raise PatternError(
                f"`{wildcard[:_LONGEST_SHOWN]}` ends within a bracket or after a backslash"
            )
        found.append(rf"{start}/.+\z" if name.endswith("/") else rf"{start}(?:/.*)?\z")
    return compile_pattern("|".join(found), dot_all=True)


def wildcard_expression(pattern: str, *, or_literal: bool = False) -> str | None:
    """Return the regular expression that matches paths relative to the pattern's
    folder. The caller appends the part that may follow the match.

    :param pattern: a line of `.gitignore`, without a leading `!` or a trailing `/`.
    :param or_literal: whether brackets also match themselves, including a bracket that
        is never closed.
    :returns: the expression, or None if the pattern ends within a bracket or after a
        backslash.
    """
    parts = ["^" if "/" in pattern else "^(?:.*/)?"]
    pattern = pattern.removeprefix("/")
    last_close = pattern.rfind("]")
    at = 0
    while at < len(pattern):
        # Search only once, not from every bracket.
        is_open = pattern[at] == "[" and at > last_close
        token = None if is_open else _TOKEN.match(pattern, at)
        if token is None:
            if not or_literal or pattern[at] != "[":
                return None
            parts.append(r"\[")
            at += 1
            continue
        at = token.end()
        if token["items"] is not None:
            bracket = _bracket(token["items"], negated=bool(token["negated"]))
            parts.append(
                f"(?:{bracket}|{re.escape(token[0])})" if or_literal else bracket
            )
        else:
            kind = token.lastgroup or ""
            parts.append(_FIXED.get(kind) or re.escape(token[kind]))
    return "".join(parts)


def _bracket(items: str, *, negated: bool) -> str:
    """Return a regular expression for one character of a name, which is never a slash."""
    allowed = ""
    for item in _ITEM.finditer(items):
        if item["named"]:
            allowed += item["named"]
            continue
        low = item["low"]
        high = item["high"]
        allowed += re.escape(low.replace("/", ""))
        if high is not None and low <= high:
            allowed += f"{re.escape(low)}-{re.escape(high)}"
    if negated:
        return f"[^/{allowed}]"
    return f"[{allowed}]" if allowed else _NEVER
