"""What holds over a whole session: its id, the silence of stderr, and what an editor is told between two turns."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from support.client import AgentError, connected_agent
from support.compactions import both_editors, shown_compactions
from support.editors import TOAD, ZED_BETA, Editor
from support.models import model_server
from support.replies import Reply, ToolCall
from support.stage import stage

LONG = "The cart adds prices. " * 200
BETWEEN_TURNS = {
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
}


@both_editors
async def test_a_compaction_leaves_the_session_its_id_and_the_list_its_row(tmp_path: Path, editor: Editor) -> None:
    async with stage(tmp_path, Reply(LONG), Reply("# Goal\nA cart."), Reply("Yes."), editor=editor) as it:
        await it.prompt("One?")
        await it.prompt("/compact")
        assert shown_compactions(it.agent)[0].statuses[-1] == "completed"
        await it.prompt("Two?")
        assert {line.params["sessionId"] for line in it.agent.lines if line.update} == {it.session}
        async with it.restarted() as later:
            rows = (await later.agent.request("session/list", {}))["sessions"]
            assert [row["sessionId"] for row in rows] == [it.session]
            await later.agent.resume(it.session, it.folder)


@pytest.mark.process
@pytest.mark.parametrize("editor", [ZED_BETA, TOAD], ids=["beta", "toad"])
async def test_nothing_is_written_to_stderr_in_a_session_full_of_trouble(tmp_path: Path, editor: Editor) -> None:
    files = {
        "a.txt": "one\n",
        ".acp-agent/recipes/broken.md": "---\nnonsense: 1\n---\nText\n",
    }
    calls = [
        ToolCall("read", {"path": "gone.txt"}),
        ToolCall("teleport", {}),
        ToolCall("shell", {"command": "echo noise >&2; exit 3"}),
    ]
    replies = [
        Reply(http_status=429, headers={"retry-after": "0"}),
        Reply("Let me look.", tool_calls=calls),
        Reply(LONG),
        Reply(http_status=400, body={"error": {"type": "invalid_request_error", "message": "too odd"}}),
        Reply(""),
        Reply("Half of ", hold=anyio.Event(), hold_after=1),
    ]
    server = {"name": "ide", "command": "/bin/false", "args": [], "env": []}
    async with stage(tmp_path, *replies, editor=editor, files=files, mode="full-access") as it:
        agent = it.agent
        await agent.resume(it.session, it.folder, mcpServers=[server])
        with pytest.raises(AgentError):
            await agent.request("session/load", {"sessionId": "unknown", "cwd": "/", "mcpServers": []})
        with pytest.raises(AgentError):
            await agent.request("no/such", {})
        await agent.notify("no/such", {})
        await it.prompt("Look")
        if editor is TOAD:
            assert await it.prompt("Again") == {"stopReason": "end_turn"}
            assert "too odd" in agent.text()
        else:
            with pytest.raises(AgentError):
                await it.prompt("Again")
        await it.prompt("/compact")
        running = await agent.start_prompt(it.session, "Half")
        await it.held()
        await agent.cancel(it.session)
        assert await running.result() == {"stopReason": "cancelled"}
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
        assert agent.stderr == ""


@pytest.mark.process
async def test_between_two_turns_an_editor_is_told_of_the_session_alone(tmp_path: Path) -> None:
    shell = ToolCall("shell", {"command": "echo begun; sleep 600"})
    replies = [Reply("Hello."), Reply(tool_calls=[shell])]
    async with stage(tmp_path, *replies, editor=TOAD, mode="full-access", dialect="anthropic") as it:
        agent = it.agent
        await it.prompt("Hi")
        heard = len(agent.lines)
        await agent.set_mode(it.session, "plan")
        await agent.set_config_option(it.session, "model", "anthropic/claude-opus-5-5")
        await agent.set_config_option(it.session, "mode", "full-access")
        await agent.set_config_option(it.session, "model", "anthropic/claude-test")
        await it.agent.wait_update("usage_update", since=heard)
        await agent.resume(it.session, it.folder)
        await agent.wait_update("available_commands_update", since=heard)
        running = await agent.start_prompt(it.session, "Run it")
        await agent.until(lambda: any("begun" in terminal.output for terminal in agent.desk.terminals.values()))
        await agent.cancel(it.session)
        assert await running.result() == {"stopReason": "cancelled"}
        assert running.answer is not None
        begun = next(line.index for line in agent.lines[heard:] if line.update_kind == "tool_call")
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
        between = agent.lines[heard:begun] + agent.lines[running.answer.index :]
        kinds = {line.update_kind for line in between if line.update}
        assert {"current_mode_update", "available_commands_update", "usage_update"} <= kinds <= BETWEEN_TURNS


@pytest.mark.parametrize("how", ["session/load", "session/resume"])
async def test_a_session_that_had_no_model_to_ask_goes_on_once_its_user_has_set_one_up(
    tmp_path: Path, how: str
) -> None:
    async with connected_agent(home=tmp_path) as agent, model_server([Reply("Yes.")], "chat") as server:
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentError, match="ANTHROPIC_API_KEY") as error:
            await agent.prompt(session, "Hello")
        assert error.value.code == -32000
        config = server.write_config(tmp_path, {"model": server.model})
        settings = json.loads(config.read_text())
        del settings["providers"]["local"]["api_key_env"]
        config.write_text(json.dumps(settings))
        assert await agent.request("authenticate", {"methodId": "api-key"}) == {}
        await agent.request(how, {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        assert await agent.prompt(session, "Hello", timeout=30) == {"stopReason": "end_turn"}
