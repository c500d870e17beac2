"""Completes work despite cancellation, within a time limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def finish_shielded(work: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Await `work` and return its result. If cancelled, wait for the work to finish.

    :param seconds: how much longer the work may take after cancellation. After that,
        the work is cancelled too, since a disk may hang and a user may never answer.
    """
    done: list[T] = []
    failures: list[Exception] = []
    scope = anyio.CancelScope(shield=True)

    async def run() -> None:
        with scope:
            try:
                done.append(await work())
            except Exception as error:  # raised below, outside the task group
                failures.append(error)
        ended.set()

    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        try:
            await ended.wait()
        finally:
            scope.deadline = anyio.current_time() + seconds
    if failures:
        raise failures[0]
    return done[0]
