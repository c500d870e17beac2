"""A session over a WebSocket, as an editor has it that starts its agent."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, model_server
from support.remote import serving
from support.stage import PATIENCE

LONG = "The total is the sum of price and quantity. " * 200


async def test_a_session_goes_on_after_its_client_has_dropped_and_come_again(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    edit = ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "one", "new_text": "two"}]})
    script = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]),
        Reply(tool_calls=[edit]),
        Reply(["Changed it. ", LONG]),
        Reply("## Goal\nThe file says two."),
        Reply("It says two."),
    ]
    async with (
        model_server(script, "openai") as server,
        serving(tmp_path / "home", env=server.env()) as served,
    ):
        editor = {"argv": served.argv(), "capabilities": ZED_BETA}
        async with connected_agent(home=tmp_path / "editor", **editor) as agent:
            session = await agent.new_session(folder)
            await agent.wait_update("available_commands_update")
            assert await agent.prompt(session, "Change it", PATIENCE) == {"stopReason": "end_turn"}
            assert (folder / "a.txt").read_text() == "two\n"
            assert len(agent.desk.permissions) == 1
            assert agent.text() == f"Changed it. {LONG}"
            assert await agent.prompt(session, "/compact", PATIENCE) == {"stopReason": "end_turn"}
            assert agent.updates(kind="compaction_update")[-1]["status"] == "completed"
        async with connected_agent(home=tmp_path / "editor", **editor) as agent:
            listed = await agent.request("session/list", {})
            assert [one["sessionId"] for one in listed["sessions"]] == [session]
            await agent.load(session, folder, PATIENCE)
            await agent.wait_update("usage_update", session)
            assert "Changed it." in agent.text()
            assert await agent.prompt(session, "What does it say?", PATIENCE) == {"stopReason": "end_turn"}
            await agent.wait_update("usage_update", session)
            assert agent.text().endswith("It says two.")
