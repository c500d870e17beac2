"""What has begun in an editor ends there, also where it does not read for a while and
the user cancels meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.editors import BARE
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import PATIENCE
from support.stored import wait_logged

FLOOD = [ToolCall("read", {"path": f"{number}{'x' * 4_000}"}) for number in range(400)]
"""Their announcements are more than the queue to an editor takes."""


async def test_calls_that_were_cancelled_end_however_long_the_editor_does_not_read(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("All.", tool_calls=FLOOD), editor=BARE) as it:
        running = await it.agent.start_prompt(it.session, "Work")
        await it.update("agent_message_chunk")
        it.agent.stop_reading()
        await wait_logged(it.home, "assistant_answered")
        await it.agent.cancel(it.session)
        following = await it.agent.start_prompt(it.session, "/pin")
        await wait_logged(it.home, "turn_ended")
        # Nobody gives up: the next turn begins behind the last word of this one.
        with pytest.raises(TimeoutError):
            await wait_logged(it.home, "user_prompted", 2, timeout=3)
        it.agent.go_on_reading()
        assert await running.result(PATIENCE) == {"stopReason": "cancelled"}
        calls = it.calls()
        assert {call["status"] for call in calls} == {"failed"}
        assert len(calls) == len(FLOOD)
        assert await following.result(PATIENCE) == {"stopReason": "end_turn"}
