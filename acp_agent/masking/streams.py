"""`StreamMask`: a text that comes in pieces, without what looks like a secret.

What it gives, put together, is what `mask` makes of the whole, however it was cut: it holds back what a known value or
a form may go on from, which is the word that is not done yet, and all from where such a beginning stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from acp_agent.masking.texts import mask, whole

MOST_HELD = 50_000
"""Characters; the secret that has more, or that stands in a longer word, may be seen in part."""
_PATIENCE = 64
"""What is held is looked through anew when it has grown by this part, so that a long wait takes no long time."""
_ENDS = re.compile(r"[\s\u0080-\U0010ffff]", re.ASCII)
_PLACES = re.compile(r"[=:/?&#@]")


class StreamMask:
    """Masks a text that comes in pieces. One text at a time; after `flush` the next may begin.

    :param secrets: known values that are masked wherever they stand, as `mask` takes them.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = [secret for secret in secrets if secret]
        self._held: list[str] = []
        self._size = 0
        self._due = 0

    def feed(self, piece: str) -> str:
        """Take the next piece.

        :returns: what can be shown now; most often all but the last word.
        """
        self._held.append(piece)
        self._size += len(piece)
        if self._size <= MOST_HELD and (not _ENDS.search(piece) or self._size < self._due):
            return ""
        text = "".join(self._held)
        end = self._end(text) or (len(text) if len(text) > MOST_HELD else 0)
        self._held, self._size = [text[end:]], len(text) - end
        self._due = self._size + self._size // _PATIENCE
        return mask(text[:end], self._secrets)

    def flush(self) -> str:
        """There is no more.

        :returns: what was held back.
        """
        text = "".join(self._held)
        self._held, self._size, self._due = [], 0, 0
        return mask(text, self._secrets)

    def _end(self, text: str) -> int:
        """Where the text can be cut: no finding goes over it, and none ever will."""
        limit = min((_beginning(secret, text) for secret in self._secrets), default=len(text))
        uncut, unfinished = whole(text, self._secrets, limit)
        limit = min(unfinished, limit)
        while limit > 0:
            at = _last_end(text, limit)
            over = next((start for start, end in uncut if start < at < end), None)
            if over is None:
                return at
            limit = over
        return 0


def _last_end(text: str, limit: int) -> int:
    """The last place up to a limit that is behind a blank, or behind a character that is in no form where there is
    none of the characters that forms with others have."""
    blank = max(text.rfind(each, 0, limit) for each in " \t\n\r\f\v") + 1
    place = _PLACES.search(text, blank, limit)
    for at in range(place.start() if place else limit, blank, -1):
        if text[at - 1] > "\x7f":
            return at
    return blank


def _beginning(secret: str, text: str) -> int:
    """Where the text's end is the beginning of a secret; its length where it is not."""
    at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(text[at:]):
            return at
        at = text.find(secret[0], at + 1)
    return len(text)
