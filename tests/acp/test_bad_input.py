"""Whatever comes down the line: the right error, and the next request works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, AgentProcess, connected_agent, start_agent
from support.replies import Reply
from support.stage import stage

PARSE_ERROR, INVALID_REQUEST, NOT_FOUND, INVALID_PARAMS, NO_SESSION = -32700, -32600, -32601, -32602, -32002


async def still_works(agent: AgentProcess) -> None:
    assert "sessions" in await agent.request("session/list", {})


async def test_the_very_first_line_may_be_rubbish_too(tmp_path: Path) -> None:
    async with start_agent(home=tmp_path, laws=False) as agent:
        await agent.send_line(b"\xff not json")
        assert (await agent.read_error_with_null_id()).code == PARSE_ERROR
        await agent.send_line(b"[]")
        assert (await agent.read_error_with_null_id()).code == INVALID_REQUEST
        await agent.initialize()
        await still_works(agent)
        assert agent.stderr == ""


async def test_invalid_params_say_which_member_is_wrong(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        for params, word in (
            ({"cwd": 7, "mcpServers": []}, "cwd"),
            ({"cwd": str(tmp_path), "mcpServers": "none"}, "mcpServers"),
            ({"cwd": str(tmp_path), "additionalDirectories": "x"}, "additionalDirectories"),
        ):
            with pytest.raises(AgentError) as error:
                await agent.request("session/new", params)
            assert error.value.code == INVALID_PARAMS
            assert word in error.value.message
            assert error.value.data["details"] == error.value.message


async def test_the_answers_of_a_batch_come_together(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        batch: list[Any] = [
            {"jsonrpc": "2.0", "id": "a", "method": "session/list", "params": {}},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "sess_unknown"}},
            {"jsonrpc": "2.0", "id": "b", "method": "no/such", "params": {}},
            42,
        ]
        await agent.send_line(json.dumps(batch).encode())
        assert await agent.pending("a").result() == {"sessions": []}
        with pytest.raises(AgentError) as error:
            await agent.pending("b").result()
        assert error.value.code == NOT_FOUND
        assert (await agent.read_error_with_null_id()).code == INVALID_REQUEST
        answered = [line.raw for line in agent.lines if line.kind in ("response", "error")][1:]
        assert len(answered) == 3
        assert len(set(answered)) == 1


async def test_odd_texts_in_every_place_are_errors_or_answers_and_never_failures_inside(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        session = f'"sessionId": "{it.session}"'
        for number, odd in enumerate(("\\ud800", "\\u0000", "x\\n\\u001b[31my", "../../etc/passwd", "é" * 5_000)):
            directory = f'"cwd": "/{odd}", "mcpServers": []'
            requests = {
                "session/new": directory,
                "session/resume": f"{session}, {directory}",
                "session/list": f'"cwd": "/{odd}"',
                "session/load": f'"sessionId": "{odd}", {directory}',
                "session/delete": f'"sessionId": "{odd}"',
                "session/close": f'"sessionId": "{odd}"',
                "session/prompt": f'"sessionId": "{odd}", "prompt": []',
                "session/set_mode": f'{session}, "modeId": "{odd}"',
                "session/set_config_option": f'{session}, "configId": "model", "value": "{odd}"',
                "authenticate": f'"methodId": "{odd}"',
                "no/such": f'"{odd}": "{odd}"',
            }
            for method, params in requests.items():
                id = f"{method} {number}"
                line = f'{{"jsonrpc": "2.0", "id": "{id}", "method": "{method}", "params": {{{params}}}}}'
                await it.agent.send_line(line.encode())
                answer = await it.agent.wait_for(lambda line, id=id: line.message.get("id") == id)
                code = answer.message.get("error", {}).get("code")
                assert code in (None, INVALID_PARAMS, NO_SESSION, NOT_FOUND), answer.raw
        await still_works(it.agent)
        assert it.agent.stderr == ""
        assert "Traceback" not in (it.home / "state" / "logs" / "acp-agent.log").read_text()


async def test_a_request_with_the_id_of_one_that_runs_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(hang=True)) as it:
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.held()
        line = {"jsonrpc": "2.0", "id": handle.id, "method": "session/list", "params": {}}
        await it.agent.send_line(json.dumps(line).encode())
        refused = await it.agent.wait_for(lambda line: line.kind == "error")
        assert refused.message["error"]["code"] == INVALID_REQUEST
        await it.agent.request("session/close", {"sessionId": it.session})
        await it.agent.wait_for(lambda line: line.message.get("result") == {"stopReason": "cancelled"})
        it.agent.problems.clear()  # two answers of one id is what was asked for
