"""`Clock`: measures pauses, including the time while the machine is suspended."""

from __future__ import annotations

import time

import anyio

_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On Linux, `CLOCK_MONOTONIC` stops while the machine is suspended; on macOS it
continues (clock_gettime(2), (3)).
"""


class Clock:
    """Counts seconds, even while the machine is suspended."""

    def now(self) -> float:
        """Return the seconds since an arbitrary moment in the past."""
        return time.clock_gettime(_ID)

    async def sleep_until(self, moment: float) -> None:
        """Wait until `now` reaches a moment, or longer if the machine is suspended in
        the meantime.
        """
        await anyio.sleep(max(0.0, moment - self.now()))
