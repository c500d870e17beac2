"""Duties of messages as such: which are answered, what is in an error, and whose answer
is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from support.memory import stage
from support.questions import accepted, question
from support.replies import Reply, ToolCall
from support.stage import PATIENCE, results

ASK = ToolCall(
    "ask_user",
    {
        "questions": [
            {"question": "Which?", "options": [{"label": "One"}, {"label": "Two"}]}
        ]
    },
)


async def test_an_answer_on_another_connection_answers_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(tool_calls=[ASK]), Reply("Done.")) as it:
        answered = anyio.Event()

        async def later(params: Mapping[str, Any]) -> Any:
            await answered.wait()
            return accepted(answer_1="Two")

        it.agent.handlers["elicitation/create"] = later
        turn = await it.agent.start_prompt(it.session, "Ask")
        asked = await question(it)
        async with it.restarted(laws=False, validate=False) as other:
            wrong = {
                "jsonrpc": "2.0",
                "id": asked.message["id"],
                "result": accepted(answer_1="One"),
            }
            await other.agent.send_line(json.dumps(wrong).encode())
            assert await other.agent.request("session/list", {})
        answered.set()
        assert await turn.result(PATIENCE) == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.text.endswith("→ Two")
