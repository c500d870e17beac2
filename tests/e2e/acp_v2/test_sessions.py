"""Sessions in version 2: resumed with and without their conversation, listed, closed
and deleted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.memory import second_agent


async def test_a_replay_cannot_begin_anywhere_but_at_the_start(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path) as it:
        session = await it.open(tmp_path)
        cursors: list[Any] = [
            {"type": "message", "messageId": "m"},
            {"type": "_mine"},
            {},
            "start",
            5,
        ]
        for cursor in cursors:
            with pytest.raises(AgentError) as error:
                await it.resume(session, tmp_path, replayFrom=cursor)
            assert error.value.code == -32602, cursor
        await it.resume(session, tmp_path, replayFrom=None)
