"""Configuration and state: what is wrong is said in a sentence, nothing is lost,
nothing leaks.
"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from support.client import AgentError
from support.memory import agent_in_memory, stage
from support.replies import Reply

SECRET = "my-own-words-0123456789"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("where", ["file/state", "file", "relative"])
async def test_a_home_that_cannot_be_is_said_in_a_sentence_and_on_no_other_way(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    home = where if where == "relative" else str(tmp_path / where)
    async with agent_in_memory(
        home=tmp_path / "home", env={"ACP_AGENT_HOME": home}
    ) as agent:
        for method, params in (
            ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            ("session/list", {}),
        ):
            with pytest.raises(AgentError) as error:
                await agent.request(method, params)
            assert home in error.value.message
            assert "Traceback" not in error.value.message
        assert agent.stderr == ""


async def test_all_state_is_the_user_s_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes.")) as it:
        await it.prompt()
        state = it.home / "state"
        files = [path for path in state.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"sessions.db", "acp-agent.log"}
        assert {mode_of(path) for path in files} == {0o600}
        assert {
            mode_of(path) for path in (state, *state.rglob("*")) if path.is_dir()
        } == {0o700}


async def test_a_key_that_the_provider_echoes_reaches_neither_the_editor_nor_the_log(
    tmp_path: Path,
) -> None:
    echo = {
        "error": {
            "type": "authentication_error",
            "message": f"the key {SECRET} is unknown",
        }
    }
    replies = [
        Reply(http_status=401, body=echo),
        Reply(http_status=400, body=echo),
        Reply("Yes."),
    ]
    async with stage(
        tmp_path, *replies, env={"ANTHROPIC_API_KEY": SECRET}, dialect="anthropic"
    ) as it:
        it.server.key = SECRET  # whoever comes with another one gets another answer
        for _ in range(2):
            with pytest.raises(AgentError):
                await it.prompt()
        await it.prompt()
        said = b"".join(line.raw for line in it.agent.lines).decode()
        assert "is unknown" in said
        assert SECRET not in said + it.agent.stderr
        for path in (it.home / "state").rglob("*"):
            if path.is_file():
                assert SECRET.encode() not in path.read_bytes()
