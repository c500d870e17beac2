"""Whatever comes down the line: the right error, and the next request works."""

from __future__ import annotations

from pathlib import Path

from support.client import AgentProcess
from support.memory import stage

NOT_FOUND = -32601
INVALID_PARAMS = -32602
NO_SESSION = -32002


async def still_works(agent: AgentProcess) -> None:
    assert "sessions" in await agent.request("session/list", {})


async def test_odd_texts_in_every_place_are_errors_or_answers_and_never_failures_inside(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as it:
        session = f'"sessionId": "{it.session}"'
        for number, odd in enumerate(
            ("\\ud800", "\\u0000", "x\\n\\u001b[31my", "../../etc/passwd", "é" * 5_000)
        ):
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
                answer = await it.agent.wait_for(
                    lambda line, id=id: line.message.get("id") == id
                )
                code = answer.message.get("error", {}).get("code")
                assert code in (None, INVALID_PARAMS, NO_SESSION, NOT_FOUND), answer.raw
        await still_works(it.agent)
        assert it.agent.stderr == ""
        assert (
            "Traceback"
            not in (it.home / "state" / "logs" / "acp-agent.log").read_text()
        )
