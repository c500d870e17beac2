"""Several clients of one agent: each has its own connection, and nothing of another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.models import Reply
from support.remote import site
from support.stage import PATIENCE, conversation

LONG = "x" * 60_000


async def test_a_client_that_does_not_read_stops_its_own_turns_alone(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        flood = conversation(body)[-1][1] == "Flood"
        return Reply([LONG * 4] * 150) if flood else Reply("Quick.")

    async with site(tmp_path, script=answer) as it, it.client() as slow, it.client() as quick:
        sessions = await it.opened(slow), await it.opened(quick)
        slow.stop_reading()
        turn = await slow.start_prompt(sessions[0], "Flood")
        with pytest.raises(TimeoutError):  # more is said than all that is between the model and the editor can hold
            await it.server.wait_finished(timeout=2)
        assert await quick.prompt(sessions[1], "Hello", PATIENCE) == {"stopReason": "end_turn"}
        await slow.cancel(sessions[0])
        slow.go_on_reading()
        assert await turn.result(PATIENCE) == {"stopReason": "cancelled"}
