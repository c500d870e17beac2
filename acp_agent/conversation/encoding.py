"""Base64 in the one form that is stored and sent, and bytes as text.

Programs write base64 in lines, without its padding or with the URL-safe alphabet (RFC 4648, 3 and 5). The store and the
caches of providers need the same characters for the same bytes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

_ALPHABET = str.maketrans("-_", "+/")


def plain(data: str) -> str:
    """Return base64 on one line, padded, in the standard alphabet; `data` itself where it is not base64."""
    content = decoded(data)
    if content is not None and data.endswith(b64encode(content[len(content) - (len(content) % 3 or 3) :]).decode()):
        return data  # nearly always, and images are large
    joined = "".join(data.split()).translate(_ALPHABET).rstrip("=")
    content = decoded(joined + "=" * (-len(joined) % 4))
    return data if content is None else b64encode(content).decode("ascii")


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
