"""Texts and names that look alike: they differ in characters that models do not see or
that they write differently.

A model that copies a text writes plain spaces, straight quotes and composed letters,
whatever the original has. `fold` makes such texts equal. A folded text is only used to
find the place that the model means, and is never written to a file.

Unicode Standard Annex 15, "Unicode Normalization Forms": NFKD, which decomposes letters
and compatibility characters.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise

from acp_agent.frozen import frozen
from acp_agent.tools.matching.controls import CONTROL, PICTURES, REPLACEMENT, code
from acp_agent.tools.text import common_length

_ALIKE = {
    **dict.fromkeys("\u1680\u180e", " "),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\ufe58", "-"),
    **dict.fromkeys(
        "\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bb\u02bc\u02bd", "'"
    ),
    **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
    # Zero width: joiners, direction marks, variation selectors, the soft hyphen, the
    # byte order mark.
    **dict.fromkeys(
        "\u00ad\u034f\u061c\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff",
        "",
    ),
    **dict.fromkeys(
        map(
            chr,
            (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xFE00, 0xFE10)),
        ),
        "",
    ),
}
_TABLE = str.maketrans(_ALIKE | dict.fromkeys(PICTURES, REPLACEMENT))
_MOST_LISTED = 3
_LONGEST_COMPARED = 4_000
"""Maximum number of characters to compare in detail, after removing the common
beginning and end of two texts.
"""
_MOST_PAIRS = 500_000
"""Maximum number of pairs of equal characters that difflib may examine in that
comparison.
"""
_LONGEST_LINE = 100_000
"""Longest line, in characters, that is searched for lookalikes of a text."""
_MOST_SPLIT = 1_000
"""Maximum number of places to skip because a match there would split a character. The
search ends after that.
"""


def fold(text: str) -> str:
    """Return a form of the text that is the same for all texts that look alike. Line
    ends are kept.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).translate(_TABLE)
    return CONTROL.sub(REPLACEMENT, text)


def clusters(text: str) -> list[str]:
    """Split a text into characters with their combining marks. Their folds, joined, are
    the fold of the text.
    """
    starts: list[int] = []
    for at, character in enumerate(text):
        combines = unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
        if not combines or not starts or text[at - 1] == "\n":
            starts.append(at)
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


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
        return cls(
            pieces,
            at,
            tuple(accumulate((len(fold(piece)) for piece in pieces), initial=0)),
        )

    def index(self, folded: int, *, skip_empty: bool) -> int | None:
        """Return the index of the piece that begins at a position in the fold, or None
        if it lies within a piece.

        :param skip_empty: whether to skip pieces at this position whose fold is empty.
        """
        find = bisect_right if skip_empty else bisect_left
        index = find(self.folded_at, folded) - skip_empty
        return (
            index
            if index < len(self.folded_at) and self.folded_at[index] == folded
            else None
        )


def near_places(text: str, wanted: str, most: int) -> list[tuple[int, int]]:
    """Return the places where `text` contains something that looks like `wanted`, in
    order and without overlaps.

    :param most: the maximum number of places.
    """
    needle = fold(wanted)
    if not needle or (text.isascii() and wanted.isascii() and not CONTROL.search(text)):
        return []
    haystack = fold(text)
    places: list[tuple[int, int]] = []
    start = haystack.find(needle)
    unfolding: _Unfolding | None = None
    split = 0
    while start >= 0 and len(places) < most and split < _MOST_SPLIT:
        unfolding = unfolding or _Unfolding(text, haystack)
        place = unfolding.place(start, start + len(needle))
        split += place is None
        if place is not None and place[0] < place[1]:
            places.append(place)
        start = haystack.find(needle, start + (1 if place is None else len(needle)))
    return places


class _Unfolding:
    """Finds the positions in a text that correspond to positions in its fold. Queries
    must be in ascending order.

    Only lines that contain such a position are split into pieces, and each of them only
    once.
    """

    def __init__(self, text: str, haystack: str) -> None:
        self._lines = text.split("\n")
        self._at = _starts(self._lines)
        self._folded_at = _starts(haystack.split("\n"))
        self._number = -1
        self._folded: Folded | None = None

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the place in the text that corresponds to a place in its fold, or None
        if it would split a character, or if the line is too long.
        """
        first = self._offset(start, skip_empty=True)
        last = self._offset(end, skip_empty=False)
        return None if first is None or last is None else (first, last)

    def _offset(self, folded: int, *, skip_empty: bool) -> int | None:
        number = bisect_right(self._folded_at, folded) - 1
        if number != self._number:
            line = self._lines[number]
            self._number = number
            self._folded = Folded.of(line) if len(line) <= _LONGEST_LINE else None
        if self._folded is None:
            return None
        index = self._folded.index(
            folded - self._folded_at[number], skip_empty=skip_empty
        )
        return None if index is None else self._at[number] + self._folded.at[index]


def _starts(lines: Iterable[str]) -> list[int]:
    """Return the position of each line in the joined text."""
    return [0, *accumulate(len(line) + 1 for line in lines)][:-1]


def carried(part: str, old: str, new: str) -> str:
    """Return the replacement for a part of a text that only looks like `old`.

    Wherever `new` equals `old`, the part's own characters are kept.

    :param part: the part of the text; it has the same fold as `old`.
    """
    was = Folded.of(old)
    wrote = clusters(new)
    there = Folded.of(part)
    result: list[str] = []
    for is_same, start, end, new_start, new_end in _compared(was.pieces, wrote):
        kept = _kept(was, there, start, end) if is_same else None
        if kept is None:
            result += wrote[new_start:new_end]
            continue
        begin, stop, text = kept
        result += wrote[new_start : new_start + begin - start]
        result.append(text)
        result += wrote[new_end - (end - stop) : new_end]
    return "".join(result)


def _compared(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield the equal and the different ranges of two texts: whether they are equal,
    and the bounds in each text.

    The common beginning and end are found first. The middle is compared in detail only
    if that is not too much work.
    """
    start = common_length(old, new)
    common_end = common_length(old[start:][::-1], new[start:][::-1])
    end = len(old) - common_end
    new_end = len(new) - common_end
    if start:
        yield True, 0, start, 0, start
    one = old[start:end]
    other = new[start:new_end]
    counts = Counter(other)
    is_short = max(len(one), len(other)) <= _LONGEST_COMPARED
    if is_short and sum(counts[piece] for piece in one) <= _MOST_PAIRS:
        for kind, first, last, new_first, new_last in SequenceMatcher(
            None, one, other, autojunk=False
        ).get_opcodes():
            yield (
                kind == "equal",
                start + first,
                start + last,
                start + new_first,
                start + new_last,
            )
    elif one or other:
        yield False, start, end, start, new_end
    if common_end:
        yield True, end, len(old), new_end, len(new)


def _kept(
    was: Folded, there: Folded, start: int, end: int
) -> tuple[int, int, str] | None:
    """Return the largest range of these pieces whose bounds are also bounds of pieces
    in the file, and the file's text in that range. Return None if there is none.

    :param was: the text that the model wanted to replace.
    :param there: the text in the file.
    """
    begin = start
    stop = end
    while begin < stop and there.index(was.folded_at[begin], skip_empty=True) is None:
        begin += 1
    while begin < stop and there.index(was.folded_at[stop], skip_empty=True) is None:
        stop -= 1
    if begin >= stop:
        return None
    first = there.index(was.folded_at[begin], skip_empty=begin > 0)
    last = there.index(was.folded_at[stop], skip_empty=True)
    assert first is not None
    assert last is not None
    return begin, stop, "".join(there.pieces[first:last])


def differences(there: str, written: str) -> list[str]:
    """Return the differences in characters between a text and one that looks like it,
    each difference once.

    :returns: phrases such as `U+00A0 where you wrote U+0020`.
    """
    found: dict[str, None] = {}
    for one, other in _differing(there, written):
        found[f"{_codes(one)} where you wrote {_codes(other)}"] = None
        if len(found) > _MOST_LISTED:
            return [*found][:_MOST_LISTED]
    return [*found]


def _differing(there: str, written: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces in which two texts with the same fold differ."""
    one = Folded.of(there)
    other = Folded.of(written)
    # If several pieces share a position, the last counts.
    ends = dict(zip(one.folded_at, one.at, strict=True))
    ends_written = dict(zip(other.folded_at, other.at, strict=True))
    at = at_written = 0
    for place, end in ends.items():
        end_written = ends_written.get(place)
        if end_written is None:
            continue
        pair = _without_common(there[at:end], written[at_written:end_written])
        if any(pair):
            yield pair
        at = end
        at_written = end_written


def _without_common(one: str, other: str) -> tuple[str, str]:
    """Return two texts without their common prefix and suffix."""
    start = common_length(one, other)
    one = one[start:]
    other = other[start:]
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
