"""A clock that stands still until a test moves it.

clock = stopped_clock(monkeypatch)          # before the agent starts
...
await clock.waited_for()                    # a session waits for some moment
clock.advance(270)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import pytest

from acp_agent.session.turn import factory
from support.waiting import Changes


@dataclass(slots=True)
class StoppedClock:
    """In the place of `Clock`.

    :ivar moments: those that something waits for.
    """

    time: float = 1_000.0
    moments: list[float] = field(default_factory=list[float])
    _moved: anyio.Event = field(default_factory=anyio.Event)
    _changes: Changes = field(default_factory=Changes)

    def now(self) -> float:
        return self.time

    async def sleep_until(self, moment: float) -> None:
        self.moments.append(moment)
        self._changes.notify()
        try:
            while self.time < moment:
                await self._moved.wait()
        finally:
            self.moments.remove(moment)
            self._changes.notify()

    def advance(self, seconds: float) -> None:
        self.time += seconds
        self._moved.set()
        self._moved = anyio.Event()

    async def waited_for(self) -> float:
        """Wait until a session waits, and return the seconds from now until what it
        waits for.
        """
        await self._changes.until(
            lambda: bool(self.moments), 5, lambda: "a session that waits for its clock"
        )
        return self.moments[-1] - self.time


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> StoppedClock:
    clock = StoppedClock()
    monkeypatch.setattr(factory, "Clock", lambda: clock)
    return clock
