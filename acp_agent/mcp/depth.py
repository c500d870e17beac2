"""Cuts JSON texts that are nested more deeply than the SDK's parser can read.

The parser of pydantic refuses a text with more than 200 levels. A message that it
refuses never reaches the SDK, which would wait for it, so that one tool with a deep
schema would keep a whole server from starting.

Source: pydantic's jiter, `DEFAULT_RECURSION_LIMIT`
"""

from __future__ import annotations

import re

MAX_LEVELS = 150
"""Maximum levels of objects and lists in a message. No real message has half as many."""
TOO_DEEP = "(left out: nested too deeply)"
"""Stands in place of an object or a list that is nested more deeply."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def without_depths(text: str, most: int = MAX_LEVELS) -> str:
    """Return a JSON text in which `TOO_DEEP` stands in place of each object and list
    inside `most` others; the text itself if it has none.
    """
    kept: list[str] = []
    level = 0
    start = 0  # of what is kept next
    for token in _TOKEN.finditer(text):
        if token[0] in ("{", "["):
            level += 1
            if level == most + 1:
                kept += (text[start : token.start()], f'"{TOO_DEEP}"')
        elif token[0] in ("}", "]"):
            if level == most + 1:
                start = token.end()
            level -= 1
    if not kept:
        return text
    return "".join((*kept, text[start:] if level <= most else ""))
