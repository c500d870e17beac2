"""What a check found, and what is made of it: marks in the summary, or one request to the model to mend it.

A mark stands right behind its piece, but never inside code, a link, a quote or a fence, whose Markdown it would break.
Marks are text: they can be taken off again, and a check does not see them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

from acp_agent.compaction.provenance_pieces import CITATION, Layout
from acp_agent.frozen import frozen

FlagKind: TypeAlias = Literal["path", "identifier", "number", "url", "quote", "user_claim", "citation"]

UNVERIFIED = "[unverified]"
NO_MESSAGE = "[no such user message found]"

_MARK = f"(?:{re.escape(UNVERIFIED)}|{re.escape(NO_MESSAGE)})"
_MARKS = re.compile(rf"\A(?:{_MARK}\n)+|\n[ \t>]*{_MARK}(?: {_MARK})*(?=\n|\Z)| {_MARK}")
_NAMES: dict[FlagKind, str] = {
    "path": "path",
    "identifier": "identifier",
    "number": "number",
    "url": "URL",
    "quote": "quote",
    "user_claim": "said of the user",
    "citation": "entry that does not exist",
}
_NOT_FOUND = (
    "The following was not found in what was summarised. Replace each by what really stands there, copied exactly, "
    "or leave it out. What is said of the user needs a message of the user behind it."
)
_ANSWER = (
    "Answer with the whole corrected summary alone, in the same form, with everything else as it was. Call no tools "
    "and mention neither this check nor the correction."
)
_LISTED = 60
_LISTED_LENGTH = 300


@frozen
class Flag:
    """A piece of a summary that its source does not support: `summary[start:end] == text`."""

    kind: FlagKind
    text: str
    start: int
    end: int


@frozen
class Unmarked:
    """A summary without its marks, and where each of them stood in what is left.

    :ivar marks: offset in `text` and the mark with the white space that belongs to it, in order.
    :ivar lengths: of all marks up to and with each.
    """

    text: str
    marks: tuple[tuple[int, str], ...]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, summary: str) -> Unmarked:
        """Take the marks off."""
        parts: list[str] = []
        marks: list[tuple[int, str]] = []
        at = length = 0
        for match in _MARKS.finditer(summary):
            parts.append(summary[at : match.start()])
            length += match.start() - at
            marks.append((length, match[0]))
            at = match.end()
        lengths = tuple(accumulate(len(mark) for _, mark in marks))
        return cls("".join([*parts, summary[at:]]), tuple(marks), lengths)

    def marked(self, start: int, end: int) -> tuple[int, int]:
        """Where a span of `text`, which is not empty, stands in the marked summary."""
        return self._shift(start) + start, self._shift(end - 1) + end

    def unmarked(self, offset: int) -> int:
        """Which offset of `text` an offset of the marked summary is; inside a mark, the mark's place."""
        index = bisect_left(range(len(self.marks)), offset, key=self._start)
        if index == 0:
            return offset
        return max(offset - self.lengths[index - 1], self.marks[index - 1][0])

    def _start(self, index: int) -> int:
        """Where a mark begins in the marked summary."""
        place, mark = self.marks[index]
        return place + self.lengths[index] - len(mark)

    def _shift(self, at: int) -> int:
        index = bisect_right(self.marks, at, key=lambda mark: mark[0])
        return self.lengths[index - 1] if index else 0


def mark(summary: str, flags: Sequence[Flag]) -> str:
    """The summary with a mark behind each flagged piece: `[no such user message found]` behind what the user said,
    `[unverified]` behind all else. Nothing is taken away, and what is marked already is not marked again.

    :param flags: of this summary, as `check` gives them.
    """
    unmarked = Unmarked.of(summary)
    text = unmarked.text
    layout = Layout.of(text)
    closed = Closed(text, layout)
    marks: dict[int, list[str]] = {}
    for place, existing in unmarked.marks:
        marks.setdefault(place, []).append(existing)
    for flag in sorted(flags, key=lambda flag: flag.end):
        name = NO_MESSAGE if flag.kind == "user_claim" else UNVERIFIED
        place, prefix, suffix = closed.place(unmarked.unmarked(flag.end))
        there = marks.setdefault(place, [])
        if any(name in one for one in there):
            continue
        if suffix:
            there.insert(0, f"{name}{suffix}")
        else:
            there.append(f"{' ' if there else prefix}{name}")
    parts: list[str] = []
    at = 0
    for place in sorted(marks):
        parts += [text[at:place], *marks[place]]
        at = place
    return "".join([*parts, text[at:]])


def unmark(summary: str) -> str:
    """The summary without any marks of `mark`."""
    return Unmarked.of(summary).text


def mend_request(flags: Sequence[Flag], missing: Sequence[str]) -> str:
    """The message that asks the model, once, for a corrected and complete summary.

    :param flags: what the source does not support.
    :param missing: titles of required sections that are not there or empty.
    """
    lines = ["Your summary was checked against the conversation and has to be corrected."]
    if flags:
        found = dict.fromkeys((_NAMES[flag.kind], _shortened(flag.text)) for flag in flags)
        lines += [
            "",
            _NOT_FOUND,
            "",
            *(f"- {name}: {text}" for name, text in list(found)[:_LISTED]),
        ]
        if len(found) > _LISTED:
            lines.append(f"- and {len(found) - _LISTED} more of this kind")
    if missing:
        lines += ["", 'These sections are missing or empty. Write each; "None." if there is nothing to say:', ""]
        lines += [f"- {name}" for name in missing]
    lines += ["", _ANSWER]
    return "\n".join(lines)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LISTED_LENGTH else f"{line[:_LISTED_LENGTH]}…"


class Closed:
    """Parts of a text that no mark may stand in: code, links, quotes, citations, fences."""

    def __init__(self, text: str, layout: Layout) -> None:
        self._text = text
        spans = [(start, end) for start, end, _, _ in layout.code]
        spans += [*layout.links, *layout.quotes, *(match.span() for match in CITATION.finditer(text))]
        self._spans = _merged(spans)
        self._fences = [block for block in layout.blocks if block.kind == "fence"]

    def has(self, offset: int) -> bool:
        """Whether an offset is inside one of them, fences aside."""
        index = bisect_right(self._spans, offset, key=lambda span: span[0]) - 1
        return index >= 0 and self._spans[index][0] < offset < self._spans[index][1]

    def place(self, end: int) -> tuple[int, str, str]:
        """The nearest place for a mark at or behind an offset, and what has to stand before and behind the mark."""
        text = self._text
        index = bisect_left(self._fences, end, key=lambda block: block.outer) - 1
        fence = self._fences[index] if index >= 0 else None
        if fence is not None and fence.after is None:
            return (fence.outer - 1, f"\n{fence.prefix}", "") if fence.outer else (0, "", "\n")
        if fence is not None and fence.after is not None and end <= fence.after:
            return fence.after, f"\n{fence.prefix}", ""
        while end and text[end - 1].isspace():
            end -= 1
        line = text.rfind("\n", 0, end) + 1
        if line and not text[line:end].strip(" \t>"):
            # Behind a bare `>` it would look like a mark on a line of its own, of which the `>` is a part.
            return self.place(line - 1)
        while True:
            index = bisect_right(self._spans, end, key=lambda span: span[0]) - 1
            if index >= 0 and self._spans[index][0] < end < self._spans[index][1]:
                end = self._spans[index][1]
            elif text[end : end + 1] in ("(", "["):  # a mark right before it would become a link
                end += 1
                while end < len(text) and not text[end].isspace():
                    end += 1
            else:
                return end, " ", ""


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
