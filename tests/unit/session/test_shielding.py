"""Shielded work is completed, and a cancel does not wait for it forever."""

from __future__ import annotations

import anyio

from acp_agent.shielding import finish_shielded


async def test_a_cancel_waits_for_shielded_work() -> None:
    started = anyio.Event()
    go_on = anyio.Event()
    ended = anyio.Event()

    async def work() -> None:
        started.set()
        await go_on.wait()
        ended.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(finish_shielded, work, 60.0)
            await started.wait()
            tasks.cancel_scope.cancel()
            go_on.set()
        assert ended.is_set()


async def test_a_cancel_does_not_wait_for_work_that_never_ends() -> None:
    began = anyio.Event()
    cut = anyio.Event()

    async def work() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cut.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(finish_shielded, work, 0.01)
            await began.wait()
            tasks.cancel_scope.cancel()
        assert cut.is_set()
