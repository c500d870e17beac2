"""Texts of a session on their way to a person: without what a terminal would obey, what would change the direction of
reading, and what looks like a secret.

What a page needs so that a text cannot become markup is not done here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from acp_agent.masking.texts import mask, secrets_of
from acp_agent.tools.text import clean, without_escapes

Safe: TypeAlias = Callable[[str], str]

_C1 = re.compile("[\x80-\x9f]")
"""Control characters that some terminals obey like an escape sequence."""
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""They show a text in another order than the one it has."""


def safe_for(env: Mapping[str, str]) -> Safe:
    """What makes texts safe to be shown.

    :param env: environment variables; values of those that look like secrets are masked.
    """
    secrets = secrets_of(env)

    def safe(text: str) -> str:
        plain = _C1.sub("\ufffd", clean(without_escapes(text)))
        return mask(_DIRECTIONS.sub(lambda found: f"[U+{ord(found[0]):04X}]", plain), secrets)

    return safe
