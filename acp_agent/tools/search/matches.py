"""Finds matching lines for `grep`. A file is searched in blocks, which is many times
faster than line by line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from acp_agent.patterns import Pattern
from acp_agent.tools.matching.line_ends import shown_lines
from acp_agent.tools.matching.near import fold
from acp_agent.tools.matching.replace import notation_of
from acp_agent.tools.text import cut_line

BLOCK = 10 << 20
"""Bytes to search at once, up to the last line end. A file of at most this size is a
single block.
"""
MAX_LINE_BYTES = 64 << 20
MAX_LINES = 300
MAX_LINE = 500
MOST_NEAR = 20
_BOM = "\ufeff"


class TooLongLineError(Exception):
    """Raised if a line is too long to be read whole."""


@dataclass(slots=True)
class Matches:
    """Collects the matching lines of all files.

    :ivar near_pattern: the folded pattern, to find lines that only look like a match;
        None to skip this search.
    :ivar is_ascii: whether the pattern is ASCII. If so, an ASCII text cannot contain
        lookalikes of a match.
    :ivar context: lines to show before and after each match.
    :ivar lines: the lines found, as `path:line:text`, with context lines as
        `path-line-text`.
    :ivar near: lines that look like a match, collected while no line matches.
    :ivar legends: sentences about which characters stand for control characters in
        `lines`.
    :ivar cut: whether there are more matches.
    """

    pattern: Pattern
    near_pattern: Pattern | None
    context: int
    is_ascii: bool = True
    lines: list[str] = field(default_factory=list[str])
    near: list[str] = field(default_factory=list[str])
    legends: dict[str, None] = field(default_factory=dict[str, None])
    cut: bool = False

    def add(self, name: str, file: BinaryIO) -> Iterator[None]:
        """Search a file. Yields after each block, so that the caller can stop.

        :param name: the name of the file, as shown.
        :raises TooLongLineError: if a line has more than `MAX_LINE_BYTES`.
        """
        search = _FileSearch(self, name)
        for number, block in enumerate(_blocks(file)):
            if not number and b"\0" in block[:8192]:
                return
            text = block.decode("utf-8", "replace")
            search.add(text if number else text.removeprefix(_BOM))
            if self.cut:
                return
            yield


@dataclass(slots=True)
class _FileSearch:
    """The search of one file.

    :ivar before: the number of lines in the previous blocks.
    :ivar collected: the number of the last line that was added to the result.
    :ivar last: the number of the last line that matched.
    :ivar tail: the last lines of the previous block, for the context.
    """

    matches: Matches
    name: str
    before: int = 0
    collected: int = 0
    last: int | None = None
    tail: list[str] = field(default_factory=list[str])

    def add(self, text: str) -> None:
        """Search the next block of the file, which ends at the end of a line."""
        lines = shown_lines(text)
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        joined = "\n".join(lines)
        hits = self._hits(joined)
        if hits or self.last is not None:
            self._collect(text, lines, hits)
        pattern = (
            None
            if self.matches.is_ascii and joined.isascii()
            else self.matches.near_pattern
        )
        if not self.matches.lines and pattern is not None:
            self._collect_near(pattern, joined, lines)
        self.before += len(lines)
        self.tail = (
            (self.tail + lines)[-self.matches.context :] if self.matches.context else []
        )

    def _hits(self, text: str) -> list[int]:
        """Return the line numbers of matches in the file, from 1. Stop at the maximum
        number of lines.
        """
        matches = self.matches
        data = text.encode("utf-8", "replace")
        hits: list[int] = []
        number = self.before
        start = 0
        while (
            start <= len(data)
            and (span := matches.pattern.search(data, start)) is not None
        ):
            if len(matches.lines) + len(hits) >= MAX_LINES:
                matches.cut = True
                break
            number += data.count(b"\n", start, span[0]) + 1
            hits.append(number)
            end = data.find(b"\n", span[1])
            start = (len(data) if end < 0 else end) + 1
        return hits

    def _collect(self, text: str, lines: list[str], hits: list[int]) -> None:
        """Collect the matching lines with their context, part of which may be in the
        previous block.
        """
        around = self.matches.context
        notation = notation_of(text)
        first = self.before - len(self.tail) + 1
        known = [*self.tail, *lines]
        wanted = {
            near for hit in hits for near in range(hit - around, hit + around + 1)
        }
        if self.last is not None:
            wanted.update(range(self.last + 1, self.last + around + 1))
        for at in sorted(wanted):
            if max(first, self.collected + 1) <= at < first + len(known):
                sign = ":" if at in hits else "-"
                line = notation.show(known[at - first])
                self.matches.lines.append(
                    f"{self.name}{sign}{at}{sign}{cut_line(line, MAX_LINE)}"
                )
                if legend := notation.legend(line):
                    self.matches.legends[legend] = None
                self.collected = at
        if hits:
            self.last = hits[-1]

    def _collect_near(self, pattern: Pattern, text: str, lines: list[str]) -> None:
        """Collect lines that look like a match."""
        data = fold(text).encode("utf-8", "replace")
        start = 0
        while (
            len(self.matches.near) < MOST_NEAR
            and (span := pattern.search(data, start)) is not None
        ):
            at = data.count(b"\n", 0, span[0])
            self.matches.near.append(
                f"{self.name}:{self.before + at + 1}:{cut_line(lines[at], MAX_LINE)}"
            )
            end = data.find(b"\n", span[1])
            if end < 0:
                return
            start = end + 1


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in pieces that end at line ends.

    :raises TooLongLineError: if a line has more than `MAX_LINE_BYTES`.
    """
    rest = b""
    while data := file.read(BLOCK):
        end = data.rfind(b"\n") + 1 if len(data) == BLOCK else len(data)
        if end:
            yield rest + data[:end]
            rest = data[end:]
            continue
        rest += data
        if len(rest) > MAX_LINE_BYTES:
            raise TooLongLineError
    if rest:
        yield rest
