"""Work that must not be left half done is done to its end, and a cancel does not wait
for it without end.
"""

from __future__ import annotations

import anyio

from acp_agent.shielding import finish_shielded


async def test_a_cancel_waits_for_the_end() -> None:
    begun = anyio.Event()
    go_on = anyio.Event()
    ended = anyio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()
        ended.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(finish_shielded, work, 60.0)
            await begun.wait()
            tasks.cancel_scope.cancel()
            go_on.set()
        assert ended.is_set()


async def test_a_cancel_does_not_wait_for_what_never_ends() -> None:
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
