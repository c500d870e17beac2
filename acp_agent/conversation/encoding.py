"""Normalizes base64 to the form that is stored and sent, and decodes bytes as text.

Programs write base64 with line breaks, without padding or with the URL-safe alphabet
(RFC 4648, 3 and 5). The store and the caches of providers need the same characters for
the same bytes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

_ALPHABET = str.maketrans("-_", "+/")


def plain(data: str) -> str:
    """Return base64 on one line, padded, in the standard alphabet. Return `data`
    unchanged if it is not base64.
    """
    content = decoded(data)
    if content is not None and data.endswith(
        b64encode(content[len(content) - (len(content) % 3 or 3) :]).decode()
    ):
        return data  # the usual case; avoids copying large images
    joined = "".join(data.split()).translate(_ALPHABET).rstrip("=")
    content = decoded(joined + "=" * (-len(joined) % 4))
    return data if content is None else b64encode(content).decode("ascii")


def decoded(data: str) -> bytes | None:
    """Decode plain base64, or return None if it is invalid."""
    try:
        return b64decode(data, validate=True)
    except ValueError:
        return None


def text_in(content: bytes) -> str | None:
    """Return bytes as text, or None if they are not UTF-8 or contain a zero byte."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except ValueError:
        return None
