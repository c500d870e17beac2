"""Texts of a session on their way to a person: without what a terminal would obey, what
would change the direction of reading, and what looks like a secret.

What a page needs so that a text cannot become markup is not done here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from acp_agent.secrets.known import MASK, secrets_of
from acp_agent.secrets.stream import StreamMask
from acp_agent.secrets.text import mask
from acp_agent.tools.text import clean, without_escapes

Safe: TypeAlias = Callable[[str], str]

_C1 = re.compile("[\x80-\x9f]")
"""Control characters that some terminals obey like an escape sequence."""
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""They show a text in another order than the one it has."""
_CUT = "…"
"""Stands where a title was cut: at its end, or in its middle."""
_SHORTEST_BEGINNING = 4
"""Characters of a secret that are more than chance before a mark like that."""


def safe_for(env: Mapping[str, str] = os.environ) -> Safe:
    """Return what makes texts safe to be shown.

    :param env: environment variables; values of those that look like secrets are
        masked.
    """
    secrets = secrets_of(env)

    def safe(text: str) -> str:
        parts = mask(_plain(text), secrets).split(_CUT)
        parts[:-1] = [_without_beginning(part, secrets) for part in parts[:-1]]
        parts[1:] = [_without_end(part, secrets) for part in parts[1:]]
        return _CUT.join(parts)

    return safe


class SafeStream(StreamMask):
    """The same for a text that comes in pieces, and is no title: what is shown of it,
    put together, is what is shown of the whole. An escape sequence that comes in two
    pieces is shown, but for the character that begins it.

    :param env: as `safe_for` takes it.
    """

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        super().__init__(secrets_of(env))

    def feed(self, piece: str) -> str:
        """Take the next piece and return what can be shown now."""
        return super().feed(_plain(piece))


def _plain(text: str) -> str:
    plain = _C1.sub("\ufffd", clean(without_escapes(text)))
    return _DIRECTIONS.sub(lambda found: f"[U+{ord(found[0]):04X}]", plain)


def _without_beginning(text: str, secrets: Sequence[str]) -> str:
    """Return what stands before the mark of a cut, without the beginning of a secret at
    its end.
    """
    for secret in secrets:
        for length in range(min(len(secret), len(text)), _SHORTEST_BEGINNING - 1, -1):
            if text.endswith(secret[:length]):
                return text[:-length] + MASK
    return text


def _without_end(text: str, secrets: Sequence[str]) -> str:
    """Return what stands behind the mark of a cut, without the end of a secret at its
    beginning.
    """
    for secret in secrets:
        for length in range(min(len(secret), len(text)), _SHORTEST_BEGINNING - 1, -1):
            if text.startswith(secret[-length:]):
                return MASK + text[length:]
    return text
