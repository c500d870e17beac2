"""The bound on JSON from outside: how many values a long text may hold.

Millions of them would hold the interpreter for up to half a minute, in which no signal ends the process.
"""

from __future__ import annotations

import re

MAX_VALUES = 500_000
"""Of a text that is longer than `LONG`."""
LONG = 4 * 1024 * 1024
_VALUE = re.compile(rb'"[^"]*+"|[\[{,]')


def has_too_many_values(text: bytes, limit: int = MAX_VALUES, length: int = LONG) -> bool:
    """Return whether a JSON text longer than `length` holds more than about `limit` values, whatever their length."""
    if len(text) <= length:
        return False
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    return any(number == limit for number, _ in enumerate(_VALUE.finditer(bare), 1))
