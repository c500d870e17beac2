"""How numbers are written: which words of a summary are numbers, what they count, and how else each may be written.

It does not know what is looked up, nor why. Dates, exponents and numbers in hexadecimal, octal or binary are each one
number; what a sign does to a number is not told apart, since a summary writes `-17` for seventeen deleted lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

NUMBER = re.compile(r"(?:[vV]|L(?=\d+\Z))?(\d[\d_.,'’\u00a0\u202f]*)([^\W\d_]{0,8})")
RANGE = re.compile(r"L?\d[\d.]*(?:-L?\d[\d.]*)+")
RATIO = re.compile(r"\d[\d.,'’\u00a0\u202f]*(?:/[+-]?\d[\d.,'’\u00a0\u202f]*)+")
"""`37/40`, and what else is numbers with slashes alone."""
_GROUPED = r"\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?!\d)(?:\.\d+)?"
GROUPED = rf"(?:\d{{1,9}}/)?{_GROUPED}(?:/(?:{_GROUPED}|\d+))*"
"""A number with marks between its thousands, also as a part of a ratio."""
WITH_COMMA = r"(?:\d{1,3}(?:\.\d{3})+|\d{1,18}),\d{1,2}(?!\d)[^\W\d_]{0,8}(?!\w|[.,]\d)"
"""A number with a comma before its decimals, or two numbers of a list."""
UNIT_AFTER = re.compile(
    r"[ \u00a0\u202f]?(?:%|(?:[munµ]s|s|sec|seconds?|min|minutes?|h|hours?|days?|[kKMGT]i?B|bytes|tokens|px)\b)"
)
_UNIT = re.compile(r"[^\W\d_]{0,8}(?!\w)|T\d")
_ZEROS = re.compile(r"0+")
_NO_DECIMALS = re.compile(r"\.0{1,2}(?!\d)")
_REST_OF_VERSION = re.compile(r"(?!\.\d{3}\.\d{3})\.\d{1,3}\.\d{1,3}(?!\.?\d)")
_SECONDS = re.compile(r"\d:\d\d:\Z")
_DATE = re.compile(r"(\d{4})([-/])(\d\d?)\2(\d\d?)|(\d\d?)([/.])(\d\d?)\6(\d{4})")
_RADIX = re.compile(r"0(?:[xX][\da-fA-F_]{2,}|[oO][0-7_]{2,}|[bB][01_]{2,})")
_EXPONENT = re.compile(r"\d+(?:\.\d+)?[eE][+-]?\d{1,3}")
_SCIENTIFIC = re.compile(r"(?<![\w.])\d{1,40}(?:\.\d{1,40})?[eE][+-]?\d{1,3}(?!\w|\.\d)")
_VALUE = re.compile(r"\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?")
_LARGEST_EXPONENT = 30
_TALLY_AFTER = re.compile(
    r"[*_]{0,3}[ \u00a0](?:of (?:the )?\d+ )?(?:(?:cases?|checks?|compiler|integration|lint|more|new|other|"
    r"syntax|tests?|type|unit) ){0,3}(?:were |have |has )?(?P<kind>pass|fail|error)(?:es|ed|ing|ures?|s)?\b"
)
_TALLY_BEFORE = re.compile(r"\b(?P<kind>pass|fail|error)(?:ed|ing|ures|s)?(?:: ?|=)[*_]{0,3}\Z", re.IGNORECASE)
_MARKS = "[*_`]{0,3}"
_EXIT_BEFORE = re.compile(
    rf"\bexit(?:ed|s)?(?: with)?(?:[ -](?:code|status))?{_MARKS}(?: of| was| is|:)?{_MARKS}[ =]{_MARKS}-?\Z|"
    rf"\brc{_MARKS} ?[:=]{_MARKS} ?{_MARKS}-?\Z|"
    rf"\breturn(?:ed)?[ -](?:code|status){_MARKS}(?: of| was| is)?[ :=]{{1,2}}{_MARKS}[ =]?{_MARKS}-?\Z",
    re.IGNORECASE,
)
_ENDED_BEFORE = re.compile(
    rf"\b(?:died|end(?:ed|s)|finish(?:ed|es)|quit|terminate[ds]) with (?:a )?(?:code|status)(?: of)? {_MARKS}-?\Z",
    re.IGNORECASE,
)
_OF_HTTP = re.compile(r"[2-5]\d\d(?!\d)")
_RETURNED = re.compile(
    r"\b(?:build|command|compiler|job|linter|make|process|program|pytest|run|script|shell|suite|tests?)\b"
    r"[^.,;:\n]{0,24} returned [*_]{0,3}-?\Z",
    re.IGNORECASE,
)
_OF_WHICH = re.compile(r"[*_]{0,3} (?!(?:after|again|and|as|because|but|for|in|on|so|there|when|which|with)\b)[a-z]")
"""Behind a number, a word for what there are so many of."""
_NONE_FAILED = re.compile(
    r"\b(?:(?:no|zero) (?:\w+ )?tests? (?:have |has )?failed|none (?:of (?:the tests|them) )?failed|"
    r"(?:(?:no|zero)(?: \w+)?|without(?: any)?) (?:failing tests|test failures)|zero failures)\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:ensure|if|make sure|once|should|so that|unless|until|verify|when|whether)\b[^.;:]*\Z", re.IGNORECASE
)
_NAMED_BY_NUMBER = re.compile(
    r"(?:\b(?:attempt|case|check|chunk|commit|group|item|job|level|line|no\.?|node|number|option|part|phase|python|round|"
    r"run|shard|stage|step|task|test|try|version)|#) ?\Z",
    re.IGNORECASE,
)
_BEFORE = 32


def is_whole(word: str) -> bool:
    """Whether a word is a date, or a number with an exponent or a radix: one number, whatever is between its digits."""
    return any(form.fullmatch(word) for form in (_DATE, _RADIX, _EXPONENT))


def counted(text: str, start: int, end: int) -> str:
    """What the number at `[start, end)` counts, where that can be told: `pass`, `fail`, `error`, or `exit`."""
    begin = max(0, start - _BEFORE)
    if _EXIT_BEFORE.search(text, begin, start):
        return "exit"
    if _ENDED_BEFORE.search(text, begin, start) and not _OF_HTTP.match(text, start):
        return "exit"
    if _RETURNED.search(text, max(0, start - 2 * _BEFORE), start) and not _OF_WHICH.match(text, end):
        return "exit"
    match = _TALLY_BEFORE.search(text, begin, start)
    if match is None and not _NAMED_BY_NUMBER.search(text, begin, start):
        match = _TALLY_AFTER.match(text, end)
    return match["kind"].casefold() if match else ""


def none_failed(text: str) -> Iterator[tuple[int, int]]:
    """Where a text says in words that no test has failed, which is a zero."""
    for match in _NONE_FAILED.finditer(text):
        if not _SUPPOSED.search(text, max(0, match.start() - _BEFORE), match.start()):
            yield match.span()


def ends(text: str, at: int, end: int) -> bool:
    """Whether a number that was found at `[at, end)` of a text ends there, as far as its value goes.

    A unit may follow, the rest of a version (`3.11` and `v18` of `3.11.4` and `v18.17.0`), and the parts of a second.
    Zeros at the end of decimals may only where a unit follows, since `3.10` may be a version that `3.1` is not.
    """
    if text[end : end + 1] == "." and text[end + 1 : end + 2].isdecimal():
        if "." in text[at:end] or text[at - 1 : at] in ("v", "V") or _REST_OF_VERSION.match(text, end):
            return True
        zeros = _NO_DECIMALS.match(text, end)
        return _SECONDS.search(text, max(0, at - 5), at) is not None or (
            zeros is not None and UNIT_AFTER.match(text, zeros.end()) is not None
        )
    if _UNIT.match(text, end):
        return True
    zeros = _ZEROS.match(text, end) if "." in text[at:end] or "," in text[at:end] else None
    return zeros is not None and UNIT_AFTER.match(text, zeros.end()) is not None


def scientific(text: str) -> Iterator[Decimal]:
    """The values of the numbers with an exponent in a text, of which there are too many notations to look for each."""
    return (Decimal(match[0]) for match in _SCIENTIFIC.finditer(text))


def value(number: str) -> Decimal | None:
    """What a number is worth; None where it is more than digits, a point and an exponent."""
    return Decimal(number) if _VALUE.fullmatch(number) else None


def written(number: str) -> tuple[str, ...]:
    """A number as it is, and as else the same number may be written; none is rounded."""
    return tuple(dict.fromkeys([number, *_otherwise(number)]))


def _otherwise(number: str) -> Iterator[str]:
    if date := _DATE.fullmatch(number):
        yield from _dates(date)
        return
    if _RADIX.fullmatch(number):
        yield number[:2].lower() + number[2:].lower()
        yield number[:2].lower() + number[2:].upper()
        return
    if _EXPONENT.fullmatch(number):
        yield number.lower()
        yield number.upper()
        if abs(int(re.split("[eE]", number)[1])) > _LARGEST_EXPONENT:
            return
        number = f"{Decimal(number).normalize():f}"
    if re.fullmatch(WITH_COMMA, number):
        number = number.replace(".", "").replace(",", ".")
    whole = re.sub(r"(?<=\d)[,_'’\u00a0\u202f ](?=\d{3}(?!\d))", "", number)
    yield whole
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", whole):
        whole = whole.replace(".", "")
        yield whole
    if whole.isdecimal() and 3 < len(whole) < 40:
        for mark in ",_. '":
            yield f"{int(whole):,}".replace(",", mark)
    integer, _, decimals = whole.partition(".")
    if integer.isdecimal() and decimals.isdecimal() and len(integer) < 40:
        yield f"{integer},{decimals}"
        if len(integer) > 3:
            for mark, point in (",.", ".,", " ,", " .", "_.", "'."):
                yield f"{int(integer):,}".replace(",", mark) + point + decimals


def _dates(date: re.Match[str]) -> Iterator[str]:
    """A date in the usual orders and with the usual marks; whether the day or the month is first is not known."""
    if date[1]:
        year, orders = date[1], ((int(date[3]), int(date[4])),)
    else:
        first, second = int(date[5]), int(date[7])
        year, orders = date[8], ((first, second), (second, first))
    for month, day in orders:
        yield f"{year}-{month:02}-{day:02}"
        for one, other in ((f"{month:02}", f"{day:02}"), (str(month), str(day))):
            yield from (f"{year}/{one}/{other}", f"{one}/{other}/{year}", f"{other}/{one}/{year}")
            yield f"{other}.{one}.{year}"
