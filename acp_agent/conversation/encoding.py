"""Base64 in the one form that is stored and sent, and bytes as text.

Programs write base64 in lines, without its padding or with the URL-safe alphabet (RFC 4648, 3 and 5). The store and the
caches of providers need the same characters for the same bytes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

_NOT_PLAIN = "\n\r\t -_"
"""Characters of other forms of base64. Searching for each is faster than a test of every character."""
_ALPHABET = str.maketrans("-_", "+/")


def plain(data: str) -> str:
    """Base64 on one line, padded, in the standard alphabet; as it is where it is no base64."""
    if len(data) % 4 == 0 and not any(each in data for each in _NOT_PLAIN) and _again(data[-4:]) == data[-4:]:
        return data
    joined = "".join(data.split()).translate(_ALPHABET).rstrip("=")
    made = _again(joined + "=" * (-len(joined) % 4))
    return data if made is None else made


def decoded(data: str) -> bytes | None:
    """Return the bytes in plain base64; None where it is none."""
    try:
        return b64decode(data, validate=True)
    except ValueError:
        return None


def text_in(content: bytes) -> str | None:
    """Return bytes as text, which is UTF-8 without a zero byte; None where they are something else."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except ValueError:
        return None


def _again(data: str) -> str | None:
    """Return the same bytes encoded once more; None where it is no base64."""
    content = decoded(data)
    return None if content is None else b64encode(content).decode("ascii")
