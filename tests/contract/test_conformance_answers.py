"""What every answer of the agent has in common, whichever method was called."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.editors import CODECOMPANION, TOAD
from support.models import Reply, model_server
from support.stage import stage

MODES = ["ask", "accept-edits", "plan", "full-access"]
MEBIBYTE = 1 << 20


async def test_a_request_that_succeeds_is_answered_with_an_object_and_never_with_null(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Hello."), editor=TOAD) as it:
        agent, of_session = it.agent, {"sessionId": it.session}
        opening = {"cwd": str(it.folder), "mcpServers": []}
        requests = {
            "authenticate": {"methodId": "api-key"},
            "session/load": {**of_session, **opening},
            "session/resume": {**of_session, **opening},
            "session/list": {},
            "session/set_mode": {**of_session, "modeId": "plan"},
            "session/set_config_option": {**of_session, "configId": "mode", "value": "ask"},
            "session/prompt": {**of_session, "prompt": [{"type": "text", "text": "Hi"}]},
            "session/close": of_session,
            "session/delete": of_session,
        }
        for method, params in requests.items():
            await agent.request(method, params, timeout=30)
        answered = {line.method: line.message["result"] for line in agent.lines if line.kind == "response"}
        assert answered.keys() == {"initialize", "session/new", *requests}
        assert [method for method, result in answered.items() if not isinstance(result, dict)] == []


async def test_a_new_session_comes_with_its_modes_and_with_a_select_for_the_model(tmp_path: Path) -> None:
    async with (
        model_server() as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=CODECOMPANION) as agent,
    ):
        opened = agent.opened[await agent.new_session(tmp_path)]
        assert [mode["id"] for mode in opened["modes"]["availableModes"]] == MODES
        options = {option["category"]: option for option in opened["configOptions"] if "category" in option}
        assert options.keys() == {"mode", "model", "thought_level"}
        assert options["mode"]["currentValue"] == opened["modes"]["currentModeId"] == "ask"
        assert options["model"]["type"] == "select"
        assert options["model"]["currentValue"] == server.model
        assert server.model in [choice["value"] for choice in options["model"]["options"]]


async def test_a_line_of_33_mib_is_read(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        assert await agent.request("session/list", {"_meta": {"large": "x" * (33 * MEBIBYTE)}}, timeout=30) == {
            "sessions": []
        }
