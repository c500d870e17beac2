"""`Room`: the memory for what is on its way in, of all clients together, so that they cannot use up the machine's.

Does not know what it is used for.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from acp_agent.jsonrpc.framing import MAX_LINE_BYTES

MAX_BYTES = 4 * MAX_LINE_BYTES
SMALL_BYTES = 1 << 20
FOR_SMALL_ONES = MAX_BYTES // 8
"""Is left to messages of at most `SMALL_BYTES`, which those that are large thus never keep out."""


class Room:
    """:param most: bytes that may be held.
    :param for_small_ones: bytes of them that no message beyond `SMALL_BYTES` gets.
    """

    def __init__(self, most: int = MAX_BYTES, for_small_ones: int = FOR_SMALL_ONES) -> None:
        self._most = most
        self._for_small_ones = for_small_ones
        self._held = 0

    @contextmanager
    def share(self) -> Generator[Share]:
        """What one message takes; all of it is given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            share.give_back()

    def take(self, size: int, held: int) -> bool:
        """For `Share`."""
        most = self._most if held + size <= SMALL_BYTES else self._most - self._for_small_ones
        if self._held + size > most:
            return False
        self._held += size
        return True

    def give_back(self, size: int) -> None:
        """For `Share`."""
        self._held -= size


class Share:
    """What one message takes of the room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held = 0

    def take(self, size: int) -> bool:
        """Take so many bytes more.

        :returns: False where there is no room for them; then none of them is taken.
        """
        taken = self._room.take(size, self._held)
        self._held += size if taken else 0
        return taken

    def give_back(self) -> None:
        """Give all of it back."""
        self._room.give_back(self._held)
        self._held = 0
