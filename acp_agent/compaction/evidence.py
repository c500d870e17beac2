"""An index of the texts that a summary is checked against. It finds out whether a name,
number, address or quotation occurs in them.

Strings are compared without regard to case, punctuation and plural. A path may lack its
beginning, and a number may be rounded. The parts of a dotted name may occur separately
if the last part occurs as a name. A host, mail address, date, time of day or count of a
test runner has to occur as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from string import ascii_lowercase

from acp_agent.compaction.facts import LONGEST, RUNS, key_of
from acp_agent.frozen import frozen

_FEWEST_DIGITS = 2
_SHORTEST_WORD = 3
_ROUNDED_ZEROS = 3
_MOST_ROUNDED = 0.05

GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:[,'’_\u00a0\u202f]\d{3}){1,20}(?![\w'’])")
TOKEN = re.compile(
    r"[a-z_]+(?=\d+\.\d)|\d+(?:\.\d+)+|[a-z\d_\u00c0-\u052f]+|[^\W\x00-\u052f]+"
)
_NUMBER = re.compile(r"\d+(?:\.(?P<decimals>\d+))?")
_MEMBER = re.compile(
    r"\b_\w+|(?<=[./:$@>-])\w+|(?<=['\"`])\w+(?=['\"`])|\b\w++(?=[(\[/]|\.\w| ?[=:])"
)
_OTHER_DOMAINS = (
    ""
    "ai|app|au|br|ch|cloud|cn|co|corp|de|dev|dk|es|eu|example|fr|invalid|io|jp|kr|lan|local|localhost|nl|se|uk"
)
_LABEL = r"[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?"
# The first domains rarely end a dotted name in code. The others have to follow at least
# two labels.
_DOMAIN = rf"(?:{_LABEL}\.){{1,8}}(?:com|org|net|edu|gov|internal)|(?:{_LABEL}\.){{2,8}}(?:{_OTHER_DOMAINS})"
WHOLES = {
    "host": re.compile(rf"(?<![\w@./:-])(?:{_DOMAIN})(?![\w@-]|\.\w)"),
    "address": re.compile(
        rf"(?<![\w@./+-])[\w.+-]{{1,64}}@(?:{_LABEL}\.){{1,8}}[a-z]{{2,12}}(?![\w@-]|\.\w)"
    ),
    "date": re.compile(r"(?<![\w./-])\d{4}-[01]\d-[0-3]\d(?![\d-])"),
    "time": re.compile(r"(?<![\w.:])[0-2]?\d:[0-5]\d:[0-5]\d(?![\w:])"),
    "count": re.compile(
        r"(?<![\w.,])\d{1,9} (?:passed|failed|skipped|deselected|xfailed|xpassed)(?!\w)"
    ),
}
"""Patterns of pieces that have to occur as a whole, by kind."""
_HYPHENATED = re.compile(r"[a-z]{2,}(?:-[a-z]{2,})+")
_COUNT = re.compile(r"\d{1,9} (?:passed|failed|skipped|deselected|xfailed|xpassed)")
# Candidates for dates and times. The pattern is cheap, since texts are long.
_STAMP = re.compile(r"\d[\d:./-]{5,40}")
_DAY = re.compile(r"(?<!\d)(\d{4})[-/.]?([01]\d)[-/.]?([0-3]\d)(?!\d)")
_CLOCK = re.compile(r"(?<!\d)[0-2]?\d:[0-5]\d:[0-5]\d(?!\d)")
_MONTHS = "january february march april may june july august september october november december"


@frozen
class Evidence:
    """An index of the texts that a summary is checked against."""

    # All words in lower case, separated by one space, with a space at both ends.
    words: str
    tokens: frozenset[str]  # the set of these words
    # Words that occur as names: in a dotted name, in an assignment, as a key, or alone
    # in quotes.
    members: frozenset[str]
    # The keys of all runs. A path is among them only if it occurs on its own, not just
    # as the end of a longer path.
    runs: frozenset[str]
    # File extensions of paths with a directory. They distinguish a file such as
    # `cart.py` from a method such as `Cart.fit`.
    extensions: frozenset[str]
    # Numbers with decimals, then integers, both sorted.
    numbers: tuple[tuple[float, ...], tuple[float, ...]]
    days: frozenset[str]  # dates as eight digits
    clocks: frozenset[str]  # times of day with seconds
    # The numbers before each word of a test runner, such as `passed`.
    counts: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Evidence:
        """Index the texts."""
        folded = [text.casefold() for text in texts]
        # JSON in a text has escaped white space.
        folded += [
            each.replace("\\n", " ").replace("\\r", " ").replace("\\t", " ")
            for each in folded
            if "\\" in each
        ]

        def all_of(pattern: re.Pattern[str]) -> list[str]:
            # One text at a time: Python cannot handle signals during a search.
            return [found for text in folded for found in pattern.findall(text)]

        words = all_of(TOKEN)
        members = frozenset(TOKEN.findall(" ".join({*all_of(_MEMBER)})))
        found = {number[0] for text in folded for number in _NUMBER.finditer(text)}
        found |= {*map(_digits, all_of(GROUPED))}
        decimals = tuple(
            sorted(float(number) for number in found if not number.isdecimal())
        )
        integers = tuple(
            sorted(float(number) for number in found if number.isdecimal())
        )
        runs = frozenset(key_of(run) for run in {*all_of(RUNS)})
        extensions = frozenset(run.rpartition(".")[2] for run in runs if "/" in run)
        counts: dict[str, set[str]] = {}
        for number, noun in (count.split(" ") for count in all_of(_COUNT)):
            counts.setdefault(noun, set()).add(number)
        stamps = " ".join({*all_of(_STAMP)})
        return cls(
            words=f" {' '.join(words)} ",
            tokens=frozenset(words),
            members=members,
            runs=runs,
            extensions=extensions,
            numbers=(decimals, integers),
            days=frozenset("".join(parts) for parts in _DAY.findall(stamps)),
            clocks=frozenset(
                clock.removeprefix("0") for clock in _CLOCK.findall(stamps)
            ),
            counts={noun: frozenset(numbers) for noun, numbers in counts.items()},
        )

    def has(self, kind: str, piece: str) -> bool:
        """Return whether the texts contain a piece, or its parts if these may occur
        separately.

        :param kind: a kind of fact, one of `WHOLES`, or "quotation".
        """
        folded = piece.casefold()
        match kind:
            case "quotation":
                return all(
                    self._has_words(part)
                    for part in folded.replace("...", "…").split("…")
                )
            case "option":
                return folded in self.runs
            case "hash":
                return f" {folded}" in self.words
            case "url":
                return self._has_words(folded.partition("#")[0].partition("://")[2])
            case "number":
                return self._has_number(_digits(folded))
            case "host" | "address":
                return self._has_words(folded)
            case "date":
                return self._has_date(folded)
            case "time":
                return folded.removeprefix("0") in self.clocks
            case "count":
                number, _, noun = folded.partition(" ")
                return noun not in self.counts or number in self.counts[noun]
            case "name" if _HYPHENATED.fullmatch(folded):
                return self._has_words(folded)
            case _:
                by_parts = self._has_path if kind == "path" else self._has_parts
                return self._has_member(piece) and (
                    self._has_words(folded)
                    or self._has_number(folded)
                    or by_parts(folded)
                )

    def _has_member(self, name: str) -> bool:
        """Return whether the last part of a dotted name is a name. It is one if it
        looks like a name or occurs as one in the texts.
        """
        _, dot, member = name.rpartition(".")
        plain = member.rstrip("_")
        is_word = member.startswith("_") or (
            len(plain) >= _SHORTEST_WORD and plain.isalpha() and plain.islower()
        )
        return not (dot and is_word) or not self.members.isdisjoint(
            {member.casefold(), plain}
        )

    def _has_words(self, text: str) -> bool:
        words = TOKEN.findall(text)
        return self.tokens.issuperset(words) and (
            not words[1:] or f" {' '.join(words)} " in self.words
        )

    def _has_path(self, path: str) -> bool:
        """Return whether the texts contain a beginning of the path and, separately, the
        rest of the path.
        """
        if "/" not in path:
            extension = path.rpartition(".")[2]
            return (
                extension in self.tokens
                and extension not in self.extensions
                and self._has_parts(path)
            )
        parts = path.strip("/~.").split("/")
        if len(parts) > 2 and "." not in path and path[0] not in "/~":
            return self._has_parts(path)  # a list, such as `commit/checkout/branch`
        splits = (
            ("/".join(parts[:at]), "/".join(parts[at:])) for at in range(1, len(parts))
        )
        return any(
            rest in self.runs and self._has_words(folder) for folder, rest in splits
        )

    def _has_date(self, date: str) -> bool:
        """Return whether the texts contain a date, in digits or with the month's name."""
        _, month, day = date.split("-")
        if _digits(date) in self.days:
            return True
        name = [*_MONTHS.split(), *"-------"][int(month) - 1]
        days = {day, day.removeprefix("0")}
        names = {name, name[:3]}
        return any(
            f" {a} {b} " in self.words
            for one in days
            for other in names
            for a, b in ((one, other), (other, one))
        )

    def _has_parts(self, text: str) -> bool:
        return all(map(self._has_token, TOKEN.findall(text)))

    def _has_token(self, token: str) -> bool:
        variants = {token, token.strip("_"), f"{token}s", token.removesuffix("s")}
        number = token.removeprefix("l").rstrip(ascii_lowercase)  # `L118`, `30s`
        if number.replace(".", "").isdecimal():
            return len(number) < _FEWEST_DIGITS or self._has_number(number)
        return len(token) < _SHORTEST_WORD or not self.tokens.isdisjoint(variants)

    def _has_number(self, text: str) -> bool:
        """Return whether the texts contain the number, or one that rounds to it."""
        text = text.removeprefix("v")
        if text in self.tokens:
            return True
        if (number := _NUMBER.fullmatch(text)) is None:
            return False
        unit = 10.0 ** (-len(number["decimals"] or ""))
        zeros = len(text) - len(text.rstrip("0"))
        if text.isdecimal() and zeros >= _ROUNDED_ZEROS:
            unit = min(10.0 ** min(zeros, LONGEST), float(text) * _MOST_ROUNDED)
        start = float(text) - unit / 2
        end = float(text) + unit
        kinds = self.numbers if text.isdecimal() else self.numbers[:1]
        return any(
            bisect_left(numbers, start) < bisect_left(numbers, end) for numbers in kinds
        )


def _digits(text: str) -> str:
    return "".join(filter(str.isdecimal, text))
