"""The order of the wire among the requests that name one session, where some of them open or close it.

Every request runs in a task of its own, so that a `session/close` right behind a `session/load` would find nothing to
close yet. Owns who waits for whom. Does not know what is done in turn.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType

import anyio


class Place:
    """A place in a session's line. To be taken while the request is read, and entered to do what has to wait for the
    places before it; those behind wait until it is left, also by a cancel."""

    __slots__ = ("_due", "_left", "_line", "_lines", "_session_id")

    def __init__(self, lines: dict[str, deque[Place]], session_id: str) -> None:
        self._lines = lines
        self._session_id = session_id
        self._line = lines.setdefault(session_id, deque())
        self._due = anyio.Event()
        self._left = anyio.Event()
        self._line.append(self)

    @property
    def is_due(self) -> bool:
        """Nobody is before it."""
        return self._line[0] is self

    def leave(self) -> None:
        """Let the next one go on."""
        self._left.set()
        self._line.remove(self)
        if self._line:
            self._line[0]._due.set()
        elif self._lines.get(self._session_id) is self._line:
            del self._lines[self._session_id]

    @property
    def is_left(self) -> bool:
        """What was to be done is done, or was given up."""
        return self._left.is_set()

    async def until_left(self) -> None:
        """Wait for that."""
        await self._left.wait()

    async def __aenter__(self) -> None:
        if self.is_due:
            return
        try:
            await self._due.wait()
        except BaseException:
            self.leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class WireOrder:
    """The lines of all sessions; one that nobody stands in takes no memory."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Place]] = {}
        self._removals: list[Place] = []

    def take_place(self, session_id: str) -> Place:
        """Stand behind everybody who named this session before."""
        return Place(self._lines, session_id)

    def take_place_to_remove(self, session_id: str) -> Place:
        """The same, for what takes the session off the list of all."""
        place = self.take_place(session_id)
        self._removals = [*self.removals(), place]
        return place

    def removals(self) -> list[Place]:
        """The places of those that are not done yet: what the list of all sessions has to wait for."""
        return [place for place in self._removals if not place.is_left]
