"""Line ends: splits a text into its lines, joined by LF, and the original end of each
line.

A model writes LF, regardless of the file's line ends, so texts are compared by their
lines. An unchanged line keeps its end, a changed line gets the end of the line that it
replaces, and a new line gets the end of its neighbour.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, zip_longest

from acp_agent.frozen import frozen
from acp_agent.tools.matching.controls import Notation
from acp_agent.tools.matching.hunks import changed_parts

LF = "\n"
CR = "\r"
CRLF = "\r\n"
_END = re.compile("\r\n|\n|\r")


@frozen
class Lines:
    """A text, with its line ends kept separately.

    :ivar plain: the text with LF as every line end.
    :ivar ends: the original line ends, in order: LF, CRLF or CR.
    """

    plain: str
    ends: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Lines:
        """Split a text."""
        if CR not in text:
            return cls(text, (LF,) * text.count(LF))
        return cls(_END.sub(LF, text), tuple(_END.findall(text)))

    @property
    def text(self) -> str:
        """Return the text with its original line ends."""
        if CR not in self.ends and CRLF not in self.ends:
            return self.plain
        lines = self.plain.split(LF)
        return "".join(chain.from_iterable(zip_longest(lines, self.ends, fillvalue="")))

    @property
    def only_cr(self) -> bool:
        """Return whether CR is the only line end, as in classic Mac OS."""
        return bool(self.ends) and all(end == CR for end in self.ends)

    @property
    def usual(self) -> str:
        """Return the most common line end, or LF if there is none."""
        counts = Counter(self.ends)
        return max(counts, key=lambda end: (counts[end], end == LF), default=LF)

    @property
    def shown_ends(self) -> tuple[str, ...]:
        """Return the line ends as a model sees them: a CR among other ends is shown,
        and every other end is LF.
        """
        if self.only_cr:
            return (LF,) * len(self.ends)
        return tuple(CR if end == CR else LF for end in self.ends)


def shown_lines(text: str) -> list[str]:
    """Return the lines of a text as they are numbered for a model, without their ends.

    LF and CRLF end a line. CR ends a line only in a text without other line ends;
    elsewhere it belongs to a progress bar. If the text ends with a line end, the last
    line is empty.
    """
    if CR not in text:
        return text.split(LF)
    lines = Lines.of(text)
    plain = lines.plain if lines.only_cr else text.replace(CRLF, LF)
    return plain.split(LF)


def as_sent(text: str, notation: Notation) -> Lines:
    """Return the lines of a text that a model wrote about a file with this notation.

    A CRLF counts as an LF. A CR counts as a CR, and so does the character that stands
    for it.
    """
    text = text.replace(CRLF, LF)
    marks = [mark for mark, control in notation.controls.items() if control == CR]
    ends = tuple(
        LF if end == LF else CR
        for end in re.findall(f"[{re.escape(''.join((LF, CR, *marks)))}]", text)
    )
    plain = text.translate({ord(mark): LF for mark in (CR, *marks)})
    return Lines(notation.read(plain), ends)


class Fitting:
    """The line ends for lines that replace others, at any number of places.

    An unchanged line keeps its end, and a changed one gets the end of the line that it
    replaces. An added line gets the end of the line before it.

    :param new: the new lines, with the ends that the model wrote.
    :param old: the lines that the model named, with the ends that it wrote or was
        shown.
    """

    def __init__(self, new: Lines, old: Lines) -> None:
        self._new = new
        self._old = old

    def ends(self, kept: Sequence[str], after: str, usual: str) -> tuple[str, ...]:
        """Return the line ends of the new lines at one place.

        :param kept: the ends that the old lines have in the file.
        :param after: the end of the line that contains the last of the old lines; empty
            if it has none.
        :param usual: the most common line end of the file.
        """
        new = self._new.ends
        old = self._old.ends
        if set(kept) | {after or usual} == {usual} and CR not in new:
            return (usual,) * len(new)
        ends: list[str] = []
        for written, at in zip(new, self._replaced, strict=False):
            was_written = old[at] if at < len(old) else LF
            if (written == CR) != (was_written == CR):
                # The model was shown a CR among other ends, so it intends to change or
                # add one.
                ends.append(CR if written == CR else usual if usual != CR else LF)
            elif at < len(kept):
                ends.append(kept[at])
            else:
                ends.append(after or (kept[-1] if kept else usual))
        return tuple(ends)

    @cached_property
    def _replaced(self) -> Sequence[int]:
        """For each new line, the index of the old line whose end it gets."""
        olds = self._old.plain.split(LF)
        news = self._new.plain.split(LF)
        replaced: list[int] = []
        at = 0  # the first old line after the previous part
        for part in changed_parts(olds, news):
            replaced += range(at, part.old_start)
            last = max(part.old_end - 1, 0)
            for index in range(part.new_end - part.new_start):
                replaced.append(min(part.old_start + index, last))
            at = part.old_end
        replaced += range(at, len(olds))
        return replaced
