"""Requests that name one session, sent in one go, are handled in the order of the wire,
whatever opens or closes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.memory import agent_in_memory, stage
from support.replies import Reply
from support.stage import PATIENCE, Stage
from support.wire import Pending

OPENINGS = ["session/load", "session/resume"]


async def at_once(it: Stage, *requests: tuple[str, dict[str, Any]]) -> list[Pending]:
    """Send requests and notifications of the stage's session in one write; the
    requests' ids are 0, 1, 2 … as text.
    """
    lines: list[str] = []
    ids: list[str] = []
    for method, params in requests:
        message = {
            "jsonrpc": "2.0",
            "method": method,
            "params": {"sessionId": it.session, **params},
        }
        if method not in ("session/cancel", "$/cancel_request"):
            message["id"] = str(len(ids))
            ids.append(message["id"])
        lines.append(json.dumps(message))
    await it.agent.send_line("\n".join(lines).encode())
    return [it.agent.pending(id) for id in ids]


def opening(it: Stage, method: str) -> tuple[str, dict[str, Any]]:
    return method, {"cwd": str(it.folder), "mcpServers": []}


def prompt(text: str) -> tuple[str, dict[str, Any]]:
    return "session/prompt", {"prompt": [{"type": "text", "text": text}]}


@pytest.mark.parametrize("how", OPENINGS)
async def test_what_is_sent_right_behind_an_opening_finds_the_session_open(
    tmp_path: Path, how: str
) -> None:
    async with stage(tmp_path, Reply("Hello.")) as it:
        await it.agent.request("session/close", {"sessionId": it.session})
        option = {"configId": "thought_level", "value": "high"}
        requests = [
            ("session/set_mode", {"modeId": "plan"}),
            ("session/set_config_option", option),
            prompt("Hi"),
        ]
        opened, mode, configured, prompted = await at_once(
            it, opening(it, how), *requests
        )
        assert (await opened.result())["modes"]["currentModeId"] == "ask"
        assert await mode.result() == {}
        values = {
            option["id"]: option["currentValue"]
            for option in (await configured.result())["configOptions"]
        }
        assert (values["mode"], values["thought_level"]) == ("plan", "high")
        assert await prompted.result(PATIENCE) == {"stopReason": "end_turn"}


async def test_a_cancel_behind_a_prompt_behind_an_opening_ends_that_prompt(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply(hang=True)) as it:
        await it.agent.request("session/close", {"sessionId": it.session})
        opened, prompted = await at_once(
            it, opening(it, "session/load"), prompt("Hi"), ("session/cancel", {})
        )
        await opened.result()
        assert await prompted.result(PATIENCE) == {"stopReason": "cancelled"}


async def test_requests_for_new_sessions_are_answered_in_their_order(
    tmp_path: Path,
) -> None:
    async with agent_in_memory(home=tmp_path) as agent:
        params = {"cwd": str(tmp_path), "mcpServers": []}
        asked = [await agent.start_request("session/new", params) for _ in range(8)]
        made = [(await each.result())["sessionId"] for each in asked]
        answers = [
            line.message["result"]["sessionId"]
            for line in agent.lines
            if "sessionId" in (line.message.get("result") or {})
        ]
        assert answers == made
