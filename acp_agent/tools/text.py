"""Text for the model or the editor: makes it printable, cuts it to a limit and computes
its digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from acp_agent.errors import ToolError
from acp_agent.visible import REPLACED, on_one_line, visible

MAX_LINES = 2000
"""Maximum number of lines of a file or a log entry to read at once. `MAX_CHARACTERS`
limits them all together, and `MAX_LINE` limits each line.
"""
MAX_CHARACTERS = 50_000
MAX_LINE = 2000
_MOST_REPLACED = 3
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPE_SEQUENCE = re.compile(
    "\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_])"
)
_WRITTEN_OUT = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def digest(text: str) -> str:
    """Return the hexadecimal SHA-256 of a text in UTF-8, which identifies a version of
    a file.
    """
    import hashlib  # loads OpenSSL

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def clean(text: str) -> str:
    """Replace characters that models and databases reject: control characters except
    tab and line ends, and lone surrogates.
    """
    return _CONTROL.sub("\ufffd", text)


def without_escapes(text: str) -> str:
    """Remove escape sequences, with which programs colour their output."""
    return _ESCAPE_SEQUENCE.sub("", text) if "\x1b" in text else text


def one_line(text: str, limit: int = 120) -> str:
    """Return a text on one line of at most `limit` characters, for titles and names.

    Characters that would hide a part of it or change its order are replaced.
    """
    line = on_one_line(text)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def title_line(text: str, limit: int = 120) -> str:
    """Return a text on one line with every character visible, for the title of a call
    that may need permission. Both ends are kept, since the end of a command matters as
    much as its beginning.

    :param limit: maximum length of the line in characters, at least 20.
    """
    line = visible(text.translate(_WRITTEN_OUT), _replaced)
    if len(line) <= limit:
        return line
    tail = limit // 3
    return f"{line[: limit - tail - 1]}…{line[-tail:]}"


def _replaced(run: str) -> str:
    return REPLACED * min(len(run), _MOST_REPLACED)


def whole_lines(text: str) -> list[str]:
    """Return the lines with their ends. Only LF ends a line, as in git.

    `splitlines` would also end a line at each CR of a progress bar.
    """
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix of two texts or two lists of lines."""
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (each, its) in enumerate(pairs) if each != its),
        min(len(one), len(other)),
    )


def cut_line(line: str, limit: int) -> str:
    """Return a line, cut to `limit` characters with a mark at the end if it is longer."""
    if len(line) <= limit:
        return line
    mark = f"… [{len(line)} characters]"
    return (line[: max(0, limit - len(mark))] + mark)[:limit]


def fitting(lines: Iterable[str], limit: int) -> list[str]:
    """Return as many of the first lines as fit into `limit` characters, including line
    ends.
    """
    kept: list[str] = []
    for line in lines:
        limit -= len(line) + 1
        if limit < 0:
            break
        kept.append(line)
    return kept


def page_of(lines: Sequence[str], offset: int, limit: int, label: str) -> Sequence[str]:
    """Return one page of lines.

    :param offset: first line, from 1.
    :param limit: maximum number of lines; `MAX_LINES` also applies.
    :raises ToolError: if there is no line `offset`.
    """
    if offset > len(lines):
        raise ToolError(
            f"{label} has only {counted(len(lines), 'line')}; there is no line {offset}."
        )
    return lines[offset - 1 : offset - 1 + min(limit, MAX_LINES)]


def cut_middle(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text. If it is longer, return its
    beginning, a mark with the number of characters that were cut, and its end.
    """
    kept = HeadAndTail(limit)
    kept.add(text)
    return kept.text


class HeadAndTail:
    """Collects a text that arrives in pieces, and keeps only as much as `cut_middle`
    returns.

    :param limit: maximum length of the result in characters.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = ""
        self._tail = ""
        self.length = 0

    def add(self, piece: str) -> None:
        """Append a piece."""
        self.length += len(piece)
        if (room := self._limit - len(self._head)) > 0:
            self._head += piece[:room]
        self._tail += piece[-self._limit :]
        if len(self._tail) > 2 * self._limit:
            self._tail = self._tail[-self._limit :]

    @property
    def text(self) -> str:
        """Return the result of `cut_middle` for the whole text."""
        if self.length <= self._limit:
            return self._head
        # The mark's length depends on the count in it, so reserve space for the longest
        # mark.
        room = max(0, self._limit - len(_cut_mark(self.length)))
        last = room - room // 2
        text = (
            self._head[: room // 2]
            + _cut_mark(self.length - room)
            + self._tail[len(self._tail) - last :]
        )
        return text[: self._limit]


def _cut_mark(missing: int) -> str:
    return f"\n[… {missing} characters cut …]\n"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural, such as `1 file`, `2
    files` or `2 entries`.
    """
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}s"
