"""Texts and names that look alike: they differ in characters that models do not see or that they write differently.

A model that copies a text writes plain spaces, straight quotes and composed letters, whatever the original has. `fold`
makes such texts equal. A folded text is never written anywhere: it only serves to find the place that the model means.

Unicode Standard Annex 15, "Unicode Normalization Forms": NFKD, which decomposes letters and compatibility characters.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from acp_agent.frozen import frozen
from acp_agent.tools.matching.controls import CONTROL, PICTURES, REPLACEMENT, code
from acp_agent.tools.text import common_length

_ALIKE = {
    **dict.fromkeys("\u1680\u180e", " "),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\ufe58", "-"),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bb\u02bc\u02bd", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
    # Zero width: joiners, direction marks, variation selectors, the soft hyphen, the byte order mark.
    **dict.fromkeys("\u00ad\u034f\u061c\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff", ""),
    **dict.fromkeys(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xFE00, 0xFE10))), ""),
}
_TABLE = str.maketrans(_ALIKE | dict.fromkeys(PICTURES, REPLACEMENT))
_MOST_TOLD = 3
_LONGEST_COMPARED = 20_000
"""Longest replacement, in characters, that is compared in detail with the text that it replaces."""


def fold(text: str) -> str:
    """Return a form of the text that is the same for all texts that look alike. Line ends are kept."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).translate(_TABLE)
    return CONTROL.sub(REPLACEMENT, text)


def clusters(text: str) -> list[str]:
    """Split a text into pieces whose folds make up its fold: each character with its combining marks."""
    pieces: list[str] = []
    for character in text:
        combines = unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
        if combines and pieces and pieces[-1] != "\n":
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


@frozen
class Folded:
    """A text and its fold, with the position of each piece in both.

    :ivar pieces: see `clusters`.
    :ivar at: where each piece begins in the text, followed by the end of the text.
    :ivar folded_at: the same positions in the fold.
    """

    pieces: tuple[str, ...]
    at: tuple[int, ...]
    folded_at: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Folded:
        """Fold a text, which should be short."""
        pieces = tuple(clusters(text))
        at = tuple(accumulate(map(len, pieces), initial=0))
        return cls(pieces, at, tuple(accumulate((len(fold(piece)) for piece in pieces), initial=0)))

    def index(self, folded: int, *, behind: bool) -> int | None:
        """Return the index of the piece that begins at a position in the fold, or None if it lies within a piece.

        :param behind: whether to skip the pieces at this position that fold to nothing.
        """
        find = bisect_right if behind else bisect_left
        index = find(self.folded_at, folded) - behind
        return index if index < len(self.folded_at) and self.folded_at[index] == folded else None


def near_places(text: str, wanted: str, most: int) -> list[tuple[int, int]]:
    """Return the places where `text` contains something that looks like `wanted`, in order and without overlaps.

    :param most: the maximum number of places.
    """
    needle = fold(wanted)
    if not needle or (text.isascii() and wanted.isascii() and not CONTROL.search(text)):
        return []
    haystack = fold(text)
    places: list[tuple[int, int]] = []
    start = haystack.find(needle)
    lines: list[str] | None = None
    while start >= 0 and len(places) < most:
        lines = text.split("\n") if lines is None else lines
        place = _unfolded(lines, haystack, start, start + len(needle))
        if place is not None and place[0] < place[1]:
            places.append(place)
        start = haystack.find(needle, start + (1 if place is None else len(needle)))
    return places


def _unfolded(lines: Sequence[str], haystack: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the place in a text that corresponds to a place in its fold, or None if it would split a character.

    :param lines: the lines of the text.
    """
    first = _offset(lines, haystack, start, behind=True)
    last = _offset(lines, haystack, end, behind=False)
    return None if first is None or last is None else (first, last)


def _offset(lines: Sequence[str], haystack: str, folded: int, *, behind: bool) -> int | None:
    """Return the position in a text that corresponds to one in its fold. Only the line that contains it is split up."""
    number = haystack.count("\n", 0, folded)
    line = Folded.of(lines[number])
    index = line.index(folded - haystack.rfind("\n", 0, folded) - 1, behind=behind)
    if index is None:
        return None
    return sum(len(lines[each]) + 1 for each in range(number)) + line.at[index]


def carried(part: str, old: str, new: str) -> str:
    """Return the replacement for a part of a text that only looks like `old`.

    Where `new` is the same as `old`, the part's own characters are kept.

    :param part: the part of the text; it has the same fold as `old`.
    """
    if max(len(old), len(new)) > _LONGEST_COMPARED:
        return new
    was, wrote, there = Folded.of(old), clusters(new), Folded.of(part)
    matcher = SequenceMatcher(None, was.pieces, wrote, autojunk=False)
    result: list[str] = []
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        kept = _kept(was, there, start, end) if kind == "equal" else None
        if kept is None:
            result += wrote[new_start:new_end]
            continue
        begin, stop, text = kept
        result += wrote[new_start : new_start + begin - start]
        result.append(text)
        result += wrote[new_end - (end - stop) : new_end]
    return "".join(result)


def _kept(was: Folded, there: Folded, start: int, end: int) -> tuple[int, int, str] | None:
    """Return the range of these pieces that align with pieces of the text, and the text of those pieces."""
    begin, stop = start, end
    while begin < stop and there.index(was.folded_at[begin], behind=True) is None:
        begin += 1
    while begin < stop and there.index(was.folded_at[stop], behind=True) is None:
        stop -= 1
    if begin >= stop:
        return None
    first = there.index(was.folded_at[begin], behind=begin > 0)
    last = there.index(was.folded_at[stop], behind=True)
    assert first is not None
    assert last is not None
    return begin, stop, "".join(there.pieces[first:last])


def differences(there: str, written: str) -> list[str]:
    """Return the differences in characters between a text and one that looks like it, each difference once.

    :returns: phrases such as `U+00A0 where you wrote U+0020`.
    """
    found: dict[str, None] = {}
    for one, other in _differing(there, written):
        found[f"{_codes(one)} where you wrote {_codes(other)}"] = None
        if len(found) > _MOST_TOLD:
            return [*found][:_MOST_TOLD]
    return [*found]


def _differing(there: str, written: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces in which two texts with the same fold differ."""
    one, other = Folded.of(there), Folded.of(written)
    ends = dict(zip(one.folded_at, one.at, strict=True))  # if several pieces share a position, the last counts
    ends_written = dict(zip(other.folded_at, other.at, strict=True))
    at = at_written = 0
    for place, end in ends.items():
        end_written = ends_written.get(place)
        if end_written is None:
            continue
        pair = _without_common(there[at:end], written[at_written:end_written])
        if any(pair):
            yield pair
        at, at_written = end, end_written


def _without_common(one: str, other: str) -> tuple[str, str]:
    """Return two texts without their common prefix and suffix."""
    start = common_length(one, other)
    one, other = one[start:], other[start:]
    end = common_length(one[::-1], other[::-1])
    return one[: len(one) - end], other[: len(other) - end]


def _codes(text: str) -> str:
    if not text:
        return "nothing"
    return " ".join(map(code, text[:4])) + " …" * (len(text) > 4)


def alike(wanted: str, names: Iterable[str]) -> list[str]:
    """Return the names that look like the wanted name."""
    folded = fold(wanted)
    return [name for name in names if name != wanted and fold(name) == folded]
