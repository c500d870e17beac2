"""Masks a streamed text. The masked pieces, joined, equal the result of `mask` for the
whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from acp_agent.secrets.known import known_spans, mask_known
from acp_agent.secrets.text import mask, open_form

MAX_HELD = 10_000
"""Maximum number of characters held back. A secret that is longer, or is part of a
longer word, may be shown in part.
"""
_BREAK = re.compile(r"[\s\x80-\U0010ffff]", re.ASCII)
"""Matches characters that end every form of a secret, except for the forms that
`text.open_form` finds.
"""


class StreamMask:
    """Masks a text that arrives in pieces. After `flush`, the next text may begin.

    :param secrets: known values, as for `mask`.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = secrets
        self._unknown = ""  # its end may begin a known secret
        self._held = ""  # without known secrets

    def feed(self, piece: str) -> str:
        """Feed the next piece, and return the text that can be shown now: usually
        everything except the last word.
        """
        text = self._unknown + piece
        end = self._end_of_known(text)
        known = mask_known(text[:end], self._secrets)
        self._unknown = text[end:]
        self._held += known
        if len(self._held) > MAX_HELD:
            return self._show(len(self._held))
        if not _BREAK.search(known):
            return ""
        return self._show(self._end_of_words())

    def flush(self) -> str:
        """End the text, and return the part that was held back."""
        self._held = self._held + mask_known(self._unknown, self._secrets)
        self._unknown = ""
        return self._show(len(self._held))

    def _show(self, end: int) -> str:
        text = self._held[:end]
        self._held = self._held[end:]
        return mask(text, ())

    def _end_of_known(self, text: str) -> int:
        """Return the index from which the rest of the text may begin a known secret."""
        if len(text) > MAX_HELD:
            return len(text)
        end = min(
            (_beginning(secret, text) for secret in self._secrets), default=len(text)
        )
        return next(
            (
                start
                for start, stop in known_spans(text, self._secrets)
                if start < end < stop
            ),
            end,
        )

    def _end_of_words(self) -> int:
        """Return an index at which the text can be cut, since no form of a secret
        extends across it, whatever follows.
        """
        end = open_form(self._held)
        return next(
            (at for at in range(end, 0, -1) if _BREAK.match(self._held, at - 1)), 0
        )


def _beginning(secret: str, text: str) -> int:
    """Return the index from which the rest of the text is the beginning of a secret, or
    the text's length if there is none.
    """
    starts = range(max(0, len(text) - len(secret) + 1), len(text))
    return next((at for at in starts if secret.startswith(text[at:])), len(text))
