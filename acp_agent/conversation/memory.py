"""What a session remembers word for word through every compaction: pins and quotations. Plain values."""

from __future__ import annotations

from acp_agent.frozen import frozen


@frozen
class Pin:
    """A text that the user pinned; `number` names it for as long as the session lives and is never given again."""

    number: int
    text: str


@frozen
class Quote:
    """Something that the user said, word for word, with the seq of the log's entry where it stands."""

    seq: int
    text: str


@frozen
class Memory:
    """What outlives every compaction of a session.

    :ivar next_pin: number of the next pin; one that was taken back never gets its number again.
    :ivar rules: sentences of the user that version 0.1 carried as rules; newer compactions find them in the log.
    """

    pins: tuple[Pin, ...] = ()
    next_pin: int = 1
    rules: tuple[Quote, ...] = ()
