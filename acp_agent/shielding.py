"""Work that a cancel does not leave half done, and does not wait for without end.

Owns how long a cancel waits. Does not know what the work is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def to_its_end(work: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Do what must not be left half done. A cancel waits for its end, but not for ever: a disk may hang, and somebody
    who is asked may never answer.

    :param seconds: how much longer the work may take once a cancel has come; then it is cancelled itself.
    :returns: what the work does.
    """
    done: list[T] = []
    failure: Exception | None = None
    scope = anyio.CancelScope(shield=True)
    ended = anyio.Event()

    async def run() -> None:
        nonlocal failure
        with scope:
            try:
                done.append(await work())
            except Exception as error:  # raised below, outside of the task group
                failure = error
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        try:
            await ended.wait()
        finally:
            scope.deadline = anyio.current_time() + seconds
    if failure is not None:
        raise failure
    return done[0]
