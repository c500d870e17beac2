"""Waiting for a condition without polling.

changes = Changes() ... changes.notify()
# whoever changed something says so value = await changes.until(lambda: find(things), 5,
lambda: "…")   # whoever waits looks again, and only then

os.mkfifo(begun) ...                             # another process does `echo > begun`,
and waits there itself until it is read await read_pipe(begun)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


class Changes:
    """A broadcast: every `notify` wakes everybody who waits, and each looks for
    himself.
    """

    def __init__(self) -> None:
        self._event = anyio.Event()

    def notify(self) -> None:
        event = self._event
        self._event = anyio.Event()
        event.set()

    async def until(
        self,
        look: Callable[[], T | bool | None],
        timeout: float,
        describe: Callable[[], str],
    ) -> T:
        """Wait until `look` returns something that is neither None nor False, and
        return that.

        :param look: called at once and after every change; must not block.
        :raises TimeoutError: with the text of `describe`.
        """
        with anyio.move_on_after(timeout):
            while True:
                event = self._event
                found = look()
                if found is not None and found is not False:
                    return found  # type: ignore[return-value]
                await event.wait()
        raise TimeoutError(f"not within {timeout:g} s: {describe()}")


async def all_blocked() -> None:
    """Wait until every other task waits for something.

    As `anyio.wait_all_tasks_blocked`, which looks again only after a tenth of a second.
    """
    this = asyncio.current_task()
    await asyncio.sleep(0)
    while any(_runs(task) for task in asyncio.all_tasks() if task is not this):  # noqa: ASYNC110 - as anyio does
        await asyncio.sleep(0)


def _runs(task: asyncio.Task[Any]) -> bool:
    waiter = getattr(task, "_fut_waiter", None)
    return waiter is None or waiter.done()


async def read_pipe(pipe: Path, timeout: float = 20) -> str:
    """Wait until another process has written to a named pipe and closed it; what it
    wrote.
    """
    with anyio.fail_after(timeout):
        return await anyio.to_thread.run_sync(pipe.read_text, abandon_on_cancel=True)


async def write_pipe(pipe: Path) -> None:
    """Wait until another process reads a named pipe, and let it go on."""
    with anyio.fail_after(20):
        await anyio.to_thread.run_sync(pipe.write_text, "\n", abandon_on_cancel=True)
