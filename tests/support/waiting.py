"""Waiting for a condition without polling.

    changes = Changes()
    ...
    changes.notify()                                                    # whoever changed something says so
    value = await changes.until(lambda: find(things), 5, lambda: "…")   # whoever waits looks again, and only then

Owns the one wait that all test support uses. Knows nothing of agents, models or processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


class Changes:
    """A broadcast: every `notify` wakes everybody who waits, and each looks for himself."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def notify(self) -> None:
        """Wake every waiter; call it after the change."""
        event, self._event = self._event, anyio.Event()
        event.set()

    async def until(self, look: Callable[[], T | bool | None], timeout: float, describe: Callable[[], str]) -> T:
        """Wait until `look` returns something that is neither None nor False, and return that.

        :param look: called at once and after every change; must not block.
        :param timeout: seconds.
        :param describe: called only when time is up; its text goes into the error.
        :raises TimeoutError: when nothing turned up in time.
        """
        with anyio.move_on_after(timeout):
            while True:
                event = self._event
                found = look()
                if found is not None and found is not False:
                    return found  # type: ignore[return-value]
                await event.wait()
        raise TimeoutError(f"not within {timeout:g} s: {describe()}")
