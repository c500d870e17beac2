"""What of a file on the disk an editor loses: one that reads it as UTF-8 and nothing else, with line ends made plain,
or gives it as lines.

Such an editor writes what it gets, so that an edit would write the file without what was lost.
"""

from __future__ import annotations

from pathlib import Path

from acp_agent.regular import read_regular

_REPLACED = "\ufffd"


def lost_bytes(path: Path, text: str) -> bool:
    """Whether an editor's text is the file without the bytes that are no UTF-8; one that knows the file's encoding has
    read something in their places.

    :param text: the file, as the editor gave it.
    """
    data = _data(path)
    try:
        data.decode()
    except UnicodeDecodeError:
        return _REPLACED in text or _plain(text) == _plain(data.decode(errors="ignore"))
    return False


def with_last_newline(path: Path, text: str) -> str:
    """The text with the newline at its end that the file has, where it differs from the file in that alone.

    :param text: the file, as the editor gave it.
    """
    if not text or text.endswith("\n") or _plain(_data(path).decode(errors="replace")) != _plain(text) + "\n":
        return text
    return text + ("\r\n" if "\r\n" in text else "\n")


def has_crlf(path: Path) -> bool:
    """Whether every line of the file ends with CRLF, of one at least."""
    ends = (data := _data(path)).count(b"\r\n")
    return ends > 0 and ends == data.count(b"\n")


def lost_crlf(path: Path, text: str) -> bool:
    """Whether a text stands on the disk exactly as an editor was given it, of a file that had CRLF before. An editor
    that remembers line ends has put them back.

    :param text: what the editor was to write.
    """
    return "\r" not in text and "\n" in text and _data(path) == text.encode(errors="surrogatepass")


def with_crlf(text: str) -> str:
    """The text with the line ends that were lost."""
    return text.replace("\n", "\r\n")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _data(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""
