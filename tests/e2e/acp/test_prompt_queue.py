"""Prompts in a row: queued, answered in order, cancelled, taken back."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.client import AgentError
from support.memory import stage
from support.replies import Reply


async def test_the_queue_is_bounded_and_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Never", hold=anyio.Event())) as it:
        handles = [await it.agent.start_prompt(it.session, "first")]
        await it.held()
        handles += [await it.agent.start_prompt(it.session, "more") for _ in range(65)]
        with pytest.raises(AgentError, match="64 prompts") as error:
            await handles[-1].result()
        assert error.value.code == -32600
        await it.agent.request("session/close", {"sessionId": it.session})
        for handle in handles[:-1]:
            assert await handle.result() == {"stopReason": "cancelled"}
