"""Text on its way to the model or the editor: made printable, cut to a bound, told apart by digest.

Knows nothing of tools or files.
"""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPE_SEQUENCE = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_])")
# Written backwards or not at all, a line says something else than it is; what joins letters and emoji stays.
_MISLEADING = re.compile(
    "[\x80-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_NO_NEWLINE = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x85": "\\x85", "\u2028": " ", "\u2029": " "})


def digest(text: str) -> str:
    """Identifies a version of a file: the SHA-256 of its text in UTF-8, in hexadecimal."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def clean(text: str) -> str:
    """Replace what no model and no database takes: control characters except tab and line ends, lone surrogates."""
    return _CONTROL.sub("\ufffd", text)


def without_escapes(text: str) -> str:
    """Drop the escape sequences with which programs colour their output."""
    return _ESCAPE_SEQUENCE.sub("", text) if "\x1b" in text else text


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line of at most `limit` characters, for titles and names, without marks that would hide a part of
    it or change its order."""
    line = _MISLEADING.sub("\ufffd", clean(text.translate(_NO_NEWLINE)))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def whole_lines(text: str) -> list[str]:
    """Lines with their ends, which are LF alone, as for git and for the numbers of lines: `splitlines` ends one at
    each of a progress bar's CR as well."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])


def cut_line(line: str, limit: int) -> str:
    """The beginning of a line that is longer than `limit` characters, with a mark; never longer than that."""
    if len(line) <= limit:
        return line
    mark = f"… [{len(line)} characters]"
    return (line[: max(0, limit - len(mark))] + mark)[:limit]


def cut_middle(text: str, limit: int) -> str:
    """Head and tail of a text that is longer than `limit` characters, and how much is missing between them.

    :returns: at most `limit` characters.
    """
    return _joined(text[:limit], text[max(0, len(text) - limit) :], len(text), limit)


class HeadAndTail:
    """A text that arrives in pieces, of which only as much is kept as `cut_middle` shows.

    :param limit: characters of the result.
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
    def truncated(self) -> bool:
        """Whether something is missing."""
        return self.length > self._limit

    @property
    def text(self) -> str:
        """What `cut_middle` makes of the whole."""
        return _joined(self._head, self._tail[-self._limit :], self.length, self._limit)


def _joined(head: str, tail: str, length: int, limit: int) -> str:
    if length <= limit:
        return head
    # The count in the mark changes the mark's length; the widest one is reserved.
    room = max(0, limit - len(_cut_mark(length)))
    last = room - room // 2
    return (head[: room // 2] + _cut_mark(length - room) + tail[len(tail) - last :])[:limit]


def _cut_mark(missing: int) -> str:
    return f"\n[… {missing} characters cut …]\n"


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`, `2 entries`, `2 matches`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}{'es' if noun.endswith('ch') else 's'}"
