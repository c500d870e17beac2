"""The bound on JSON from outside: how many values a long text may hold.

Millions of them would hold the interpreter for up to half a minute, in which no signal ends the process.
"""

from __future__ import annotations

import re

MAX_VALUES = 500_000
"""Of a text that is longer than `_LONG`."""
_LONG = 4 * 1024 * 1024
_VALUE = re.compile(r'"[^"]*+"|[\[{,]')


def has_too_many_values(text: str) -> bool:
    """Return whether a long JSON text holds more than about `MAX_VALUES` values; strings may have any length."""
    if len(text) <= _LONG:
        return False
    bare = text.replace("\\\\", "").replace('\\"', "")
    return any(number == MAX_VALUES for number, _ in enumerate(_VALUE.finditer(bare), 1))
