"""Parses git's configuration syntax as git does, including quotes, escapes, comments
and continued lines.

Source: git-config(1), "CONFIGURATION FILE", "Syntax"; git's config.c
(`git_parse_source`, `get_value`, `parse_value`)
"""

from __future__ import annotations

from collections.abc import Iterator

_SPACE = b" \t\n\r"
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAME = _LETTERS + b"0123456789-"
_ESCAPES = {b"t": b"\t", b"b": b"\b", b"n": b"\n", b"\\": b"\\", b'"': b'"'}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMMENT = b"#;"


def settings_in(text: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the name and value of each setting, in the order of the file.

    A name's section and last part are in lower case. The value is None if there is no
    `=`.

    :raises ValueError: at the point where git would stop, after yielding the settings
        before that point.
    """
    yield from _Reader(text).settings()


class _Reader:
    """Processes a text byte by byte, as git does."""

    def __init__(self, text: bytes) -> None:
        self._text = text.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
        self._at = 0

    def settings(self) -> Iterator[tuple[bytes, bytes | None]]:
        section = b""
        while self._at < len(self._text):
            byte = self._next()
            if byte in _COMMENT:
                self._skip_line()
            elif byte == b"[":
                section = self._section()
            elif byte in _LETTERS:
                name = (byte + self._while_in(_NAME)).lower()
                yield section + name, self._value()
            elif byte not in _SPACE:
                raise ValueError("neither a section nor a setting")

    def _next(self) -> bytes:
        """Return the next byte, or a line feed at the end of the text, as in git."""
        byte = self._text[self._at : self._at + 1] or b"\n"
        self._at += 1
        return byte

    def _while_in(self, allowed: bytes) -> bytes:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in allowed:
            self._at += 1
        return self._text[start : self._at]

    def _skip_line(self) -> None:
        while self._next() != b"\n":
            pass

    def _section(self) -> bytes:
        name = self._while_in(_NAME + b".").lower()
        byte = self._next()
        if byte in b" \t\r":
            self._while_in(b" \t\r")
            if self._next() != b'"':
                raise ValueError("a subsection without a name")
            name += b"." + self._subsection()
            byte = self._next()
        if byte != b"]":
            raise ValueError("an unfinished section")
        return name + b"."

    def _subsection(self) -> bytes:
        found = bytearray()
        while (byte := self._next()) != b'"':
            if byte == b"\\":
                byte = self._next()
            if byte == b"\n":
                raise ValueError("an unfinished subsection")
            found += byte
        return bytes(found)

    def _value(self) -> bytes | None:
        self._while_in(b" \t")
        byte = self._next()
        if byte == b"\n":
            return None
        if byte != b"=":
            raise ValueError("no value")
        found = bytearray()
        kept = 0  # without trailing blanks
        is_quoted = False
        while True:
            byte = self._next()
            if byte == b"\n":
                if is_quoted:
                    raise ValueError("an unfinished quote")
                return bytes(found[:kept])
            if byte in _SPACE and not is_quoted:
                if found:
                    found += byte
                continue
            if byte in _COMMENT and not is_quoted:
                self._skip_line()
                return bytes(found[:kept])
            if byte == b"\\":
                byte = self._next()
                if byte == b"\n":
                    kept = len(found)  # git keeps blanks before a line continuation
                    continue
                if byte not in _ESCAPES:
                    raise ValueError("an unknown escape")
                found += _ESCAPES[byte]
            elif byte == b'"':
                is_quoted = not is_quoted
            else:
                found += byte
            kept = len(found)
