"""A prompt that is cancelled while the configuration is read."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from acp_agent.config import Settings
from acp_agent.session.project.trust import SessionTrust
from support.session_parts import parts


async def test_what_was_read_for_a_cancelled_prompt_is_read_again_for_the_next(tmp_path: Path) -> None:
    async with parts(tmp_path) as it:
        config = it.state.cwd / ".acp-agent" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("hooks: {Stop: [{command: 'true'}]}\n")
        assert await SessionTrust(it.state, it.services, it.client, it.notices).settle()
        it.state.settings = it.services.settings(None)
        begun, go_on = threading.Event(), threading.Event()

        def settings(cwd: Path | None) -> Settings:
            begun.set()
            go_on.wait(5)
            return it.services.settings(cwd)

        trust = SessionTrust(it.state, replace(it.services, settings=settings), it.client, it.notices)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(trust.settle)
                await to_thread.run_sync(begun.wait)
                tasks.cancel_scope.cancel()
            assert not it.state.settings.hooks
            go_on.set()
            await trust.settle()
            assert [hook.origin for hook in it.state.settings.hooks] == ["project"]
