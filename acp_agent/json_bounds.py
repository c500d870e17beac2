"""Limits the number of values in a long JSON text from an external source.

Parsing millions of values would block the interpreter for up to half a minute, and no
signal could end the process in the meantime.
"""

from __future__ import annotations

import re

MAX_VALUES = 500_000
"""Maximum number of values in a text longer than `LONG`."""
LONG = 4 * 1024 * 1024
_VALUE = re.compile(rb'"[^"]*+"|[\[{,]')


def has_too_many_values(
    text: bytes, limit: int = MAX_VALUES, length: int = LONG
) -> bool:
    """Return whether a JSON text longer than `length` contains more than about `limit`
    values of any length.
    """
    if len(text) <= length:
        return False
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    return any(number == limit for number, _ in enumerate(_VALUE.finditer(bare), 1))
