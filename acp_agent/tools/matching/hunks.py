"""Finds the changed lines of a text and formats them as hunks, in time proportional to
the number of lines.

Lines that occur exactly once in both texts are anchors, as in git's patience algorithm.
Between two anchors, the common lines at both ends are skipped, and the rest is searched
for anchors again. A part without anchors counts as replaced as a whole, unless it is
short enough for difflib, which takes time cubic in the number of lines.

Source: git-diff(1), `--patience`; GNU diffutils manual, "Detailed Description of
Unified Format"
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from acp_agent.frozen import frozen
from acp_agent.tools.text import common_length, whole_lines

_CONTEXT = 3
"""Number of unchanged lines before and after a change."""
_DEEPEST = 32
"""Maximum number of times that a part is divided at anchors."""
_FEW_PAIRS = 1_000
"""Maximum number of pairs of lines in two parts that difflib compares."""
_NO_NEWLINE = "\\ No newline at end of file\n"


@frozen
class Part:
    """A range of lines in the old text, and the range in the new text that replaces it.
    The ends are exclusive.
    """

    old_start: int
    old_end: int
    new_start: int
    new_end: int
    depth: int = 0


def hunks(old_text: str, new_text: str, first_changed: int | None = None) -> str:
    """Return the changed lines of a text, with a few lines of context, in unified
    format without file names.

    :param first_changed: the number of the first changed line in the file, from 1, if
        the texts are only a part of the file; None if they are the whole file.
    """
    old = whole_lines(old_text)
    new = whole_lines(new_text)
    skipped = 0  # lines of the file before both texts
    if first_changed is not None:
        skipped = max(0, first_changed - 1 - common_length(old, new))
    return "".join(
        _hunk(old, new, group, skipped) for group in _groups(changed_parts(old, new))
    )


def added_in(text: str) -> str:
    """Return the added lines of hunks, without their marks."""
    return "".join(line[1:] for line in whole_lines(text) if line.startswith("+"))


def change_counts(text: str) -> tuple[int, int]:
    """Return how many lines hunks add, and how many they remove."""
    marks = Counter(line[:1] for line in text.split("\n"))
    return marks["+"], marks["-"]


def changed_parts(old: Sequence[str], new: Sequence[str]) -> Iterator[Part]:
    """Yield the parts that differ, in order. All lines between them are equal."""
    waiting = [Part(0, len(old), 0, len(new))]
    while waiting:
        part = _trimmed(old, new, waiting.pop())
        old_lines = old[part.old_start : part.old_end]
        new_lines = new[part.new_start : part.new_end]
        if not old_lines and not new_lines:
            continue
        anchors = _anchors(old_lines, new_lines) if part.depth < _DEEPEST else []
        if anchors:
            waiting += reversed([*_between(part, anchors)])
        elif old_lines and new_lines and len(old_lines) * len(new_lines) <= _FEW_PAIRS:
            yield from _compared(part, old_lines, new_lines)
        else:
            yield part


def _trimmed(old: Sequence[str], new: Sequence[str], part: Part) -> Part:
    """Return a part without the common lines at its beginning and its end."""
    old_lines = old[part.old_start : part.old_end]
    new_lines = new[part.new_start : part.new_end]
    first = common_length(old_lines, new_lines)
    last = common_length(old_lines[first:][::-1], new_lines[first:][::-1])
    return Part(
        part.old_start + first,
        part.old_end - last,
        part.new_start + first,
        part.new_end - last,
        part.depth,
    )


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest sequence of unique common lines that has the same order in
    both texts, as their indices.
    """
    old_counts = Counter(old)
    new_counts = Counter(new)
    places = {line: index for index, line in enumerate(new) if new_counts[line] == 1}
    pairs = [
        (index, places[line])
        for index, line in enumerate(old)
        if old_counts[line] == 1 and line in places
    ]
    # For each length, the smallest last index of an ascending sequence in the new text.
    ends: list[int] = []
    last_pairs: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last_pairs[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last_pairs[length : length + 1] = [number]
    found: list[tuple[int, int]] = []
    number = last_pairs[-1] if last_pairs else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _between(part: Part, anchors: Iterable[tuple[int, int]]) -> Iterator[Part]:
    """Yield the parts of a part before, between and after its anchors."""
    old_start = part.old_start
    new_start = part.new_start
    for old_index, new_index in anchors:
        old_end = part.old_start + old_index
        new_end = part.new_start + new_index
        yield Part(old_start, old_end, new_start, new_end, part.depth + 1)
        old_start = old_end + 1
        new_start = new_end + 1
    yield Part(old_start, part.old_end, new_start, part.new_end, part.depth + 1)


def _compared(part: Part, old: Sequence[str], new: Sequence[str]) -> Iterator[Part]:
    """Yield the differing parts of short texts, found by difflib."""
    # Imported here, because most runs do not need it.
    from difflib import (
        SequenceMatcher,
    )

    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(
        None, old, new
    ).get_opcodes():
        if tag != "equal":
            yield Part(
                part.old_start + old_start,
                part.old_start + old_end,
                part.new_start + new_start,
                part.new_start + new_end,
            )


def _groups(changes: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield groups of changes that form one hunk, because their context overlaps or
    touches.
    """
    group: list[Part] = []
    for change in changes:
        if group and change.old_start - group[-1].old_end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(
    old: Sequence[str], new: Sequence[str], changes: Sequence[Part], skipped: int
) -> str:
    """Return one hunk of a patch."""
    before = min(_CONTEXT, changes[0].old_start)
    after = min(_CONTEXT, len(old) - changes[-1].old_end)
    old_start = changes[0].old_start - before
    new_start = changes[0].new_start - before
    old_end = changes[-1].old_end + after
    new_end = changes[-1].new_end + after
    ranges = (
        f"-{_range(old_start, old_end, skipped)} +{_range(new_start, new_end, skipped)}"
    )
    lines = [f"@@ {ranges} @@\n"]
    at = old_start
    for change in changes:
        lines += (f" {line}" for line in old[at : change.old_start])
        lines += (f"-{line}" for line in old[change.old_start : change.old_end])
        lines += (f"+{line}" for line in new[change.new_start : change.new_end])
        at = change.old_end
    lines += (f" {line}" for line in old[at:old_end])
    return "".join(
        line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines
    )


def _range(start: int, end: int, skipped: int) -> str:
    """Return a range of lines as in the header of a hunk, such as `3,7`. An empty range
    has the number of the line before it.
    """
    length = end - start
    first = skipped + start + (1 if length else 0)
    return str(first) if length == 1 else f"{first},{length}"
