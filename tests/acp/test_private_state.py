"""Configuration and state: what is wrong is said in a sentence, nothing is lost, nothing leaks."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from support.client import AgentError, connected_agent
from support.editors import ZED
from support.models import model_server
from support.replies import Reply
from support.stage import stage

SECRET = "my-own-words-0123456789"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


WRONG_CONFIGS = {
    "model: anthropic/claude-test\nmodell: x\n": ["config.yaml:2", "modell"],
    "model: [unclosed\n": ["config.yaml:", "YAML"],
    "mode: yolo\n": ["config.yaml:1", "mode"],
    "compaction:\n  threshold: 7\n": ["config.yaml:2", "compaction.threshold"],
    "- a list\n": ["config.yaml"],
    "\x00": ["config.yaml"],
}


async def test_a_wrong_config_is_an_error_with_its_place_and_is_read_again_once_it_is_mended(tmp_path: Path) -> None:
    config = tmp_path / "home" / "state" / "config.yaml"
    config.parent.mkdir(parents=True)
    async with connected_agent(home=tmp_path / "home") as agent:
        before = await agent.new_session(tmp_path)
        for text, words in WRONG_CONFIGS.items():
            config.write_text(text)
            with pytest.raises(AgentError) as error:
                await agent.new_session(tmp_path)
            for word in (str(config), *words):
                assert word in error.value.message
            assert error.value.data["details"] == error.value.message
        # What needs no settings works on.
        assert [row["sessionId"] for row in (await agent.request("session/list", {}))["sessions"]] == [before]
        config.write_text("mode: plan\n")
        session = await agent.new_session(tmp_path)
        assert agent.opened[session]["modes"]["currentModeId"] == "plan"
        assert agent.stderr == ""


async def test_a_project_s_config_is_checked_as_a_stranger_s(tmp_path: Path) -> None:
    project = tmp_path / "project"
    config = project / ".acp-agent" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("mode: full-access\n")
    async with connected_agent(home=tmp_path / "home") as agent:
        with pytest.raises(AgentError) as error:
            await agent.new_session(project)
        assert f"{config}:1" in error.value.message
        await agent.new_session(tmp_path)


@pytest.mark.parametrize("where", ["file/state", "file", "relative"])
async def test_a_home_that_cannot_be_is_said_in_a_sentence_and_on_no_other_way(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("in the way")
    home = where if where == "relative" else str(tmp_path / where)
    async with connected_agent(home=tmp_path / "home", env={"ACP_AGENT_HOME": home}) as agent:
        for method, params in (("session/new", {"cwd": str(tmp_path), "mcpServers": []}), ("session/list", {})):
            with pytest.raises(AgentError) as error:
                await agent.request(method, params)
            assert home in error.value.message
            assert "Traceback" not in error.value.message
        assert agent.stderr == ""


async def test_a_home_that_is_mended_meanwhile_is_used_by_the_same_process(tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("in the way")
    async with connected_agent(home=tmp_path / "home", env={"ACP_AGENT_HOME": str(obstacle / "state")}) as agent:
        with pytest.raises(AgentError):
            await agent.new_session(tmp_path)
        obstacle.unlink()
        await agent.new_session(tmp_path)


async def test_a_database_that_is_none_is_an_error_that_names_it(tmp_path: Path) -> None:
    state = tmp_path / "home" / "state"
    state.mkdir(parents=True)
    (state / "sessions.db").write_text("this is not a database, and was not made by us" * 100)
    async with connected_agent(home=tmp_path / "home") as agent:
        with pytest.raises(AgentError, match=r"sessions\.db") as error:
            await agent.new_session(tmp_path)
        assert error.value.code == -32603
        assert agent.stderr == ""
    assert (state / "sessions.db").read_text().startswith("this is not a database")


async def test_all_state_is_the_user_s_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes.")) as it:
        await it.prompt()
        state = it.home / "state"
        files = [path for path in state.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"sessions.db", "acp-agent.log"}
        assert {mode_of(path) for path in files} == {0o600}
        assert {mode_of(path) for path in (state, *state.rglob("*")) if path.is_dir()} == {0o700}


async def test_a_key_that_the_provider_echoes_reaches_neither_the_editor_nor_the_log(tmp_path: Path) -> None:
    echo = {"error": {"type": "authentication_error", "message": f"the key {SECRET} is unknown"}}
    replies = [Reply(http_status=401, body=echo), Reply(http_status=400, body=echo), Reply("Yes.")]
    async with stage(tmp_path, *replies, env={"ANTHROPIC_API_KEY": SECRET}, dialect="anthropic") as it:
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


async def test_without_a_key_prompts_say_what_to_set_and_all_else_works(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path, capabilities=ZED) as agent:
        session = await agent.new_session(tmp_path)
        for _ in range(2):
            with pytest.raises(AgentError, match="ANTHROPIC_API_KEY") as error:
                await agent.prompt(session, "Hello")
            assert error.value.code == -32000
            assert error.value.data["details"] == error.value.message
            assert await agent.request("authenticate", {"methodId": "api-key"}) == {}
        await agent.set_mode(session, "plan")
        await agent.load(session, tmp_path)
        assert (
            agent.text("user_message_chunk") == "Hello\nHello"
        )  # nothing is lost, and the model will not see it twice
        assert agent.stderr == ""
        async with model_server([Reply("Yes.")], "chat") as server:
            # The user mends it in the file that the error names, without starting anything anew.
            config = server.write_config(tmp_path, {"model": server.model})
            text = json.loads(config.read_text())
            del text["providers"]["local"]["api_key_env"]
            config.write_text(json.dumps(text))
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello") == {"stopReason": "end_turn"}
