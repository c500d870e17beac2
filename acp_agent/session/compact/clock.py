"""`Clock`: the time of pauses, in which the machine may sleep."""

from __future__ import annotations

import time

import anyio

_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On Linux, `CLOCK_MONOTONIC` stands still while the machine sleeps; on macOS it goes on (clock_gettime(2), (3))."""


class Clock:
    """Counts seconds, including those in which the machine sleeps."""

    def now(self) -> float:
        """Return the seconds since some moment in the past."""
        return time.clock_gettime(_ID)

    async def sleep_until(self, moment: float) -> None:
        """Wait until `now` has reached a moment; later, if the machine sleeps meanwhile."""
        await anyio.sleep(max(0.0, moment - self.now()))
