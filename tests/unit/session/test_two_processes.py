"""Two agents use one session. Neither loses anything, and the first one learns of the
other's changes.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.compactions import messages, said
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, model_server
from support.stored import wait_logged

pytestmark = pytest.mark.process


def titles(agent: AgentProcess, session: str, since: int = 0) -> list[str]:
    """Return the titles that the client received."""
    updates = agent.updates(session, "session_info_update", since=since)
    return [update["title"] for update in updates if "title" in update]


async def test_settings_changed_by_another_process_are_shown_before_the_next_turn(
    tmp_path: Path,
) -> None:
    tasks = [{"content": "Look", "status": "completed"}]
    script = [
        Reply("One."),
        Reply(tool_calls=[ToolCall("plan", {"entries": tasks})]),
        Reply("Planned."),
    ]
    script += [
        Reply(tool_calls=[ToolCall("shell", {"command": "touch made"})]),
        Reply("Done."),
        Reply("Again."),
    ]
    async with (
        model_server(script, "openai") as server,
        connected_agent(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as first,
        connected_agent(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as second,
    ):
        session = await first.new_session(tmp_path)
        await first.prompt(session, "One?")
        await second.resume(session, tmp_path)
        await second.prompt(session, "Plan it")
        await second.set_mode(session, "full-access")
        await second.set_config_option(session, "thought_level", "low")
        await second.request(
            "session/set_title", {"sessionId": session, "title": "Mine"}
        )
        assert {*titles(first, session)} == {"One?"}
        heard = len(first.lines)
        assert await first.prompt(session, "Go on") == {"stopReason": "end_turn"}
        kinds = [line.update_kind for line in first.lines[heard:]]
        [mode] = first.updates(session, "current_mode_update", since=heard)
        assert mode["currentModeId"] == "full-access"
        assert kinds.index("current_mode_update") < kinds.index("tool_call")
        options = first.updates(session, "config_option_update", since=heard)[0][
            "configOptions"
        ]
        current = {option["id"]: option["currentValue"] for option in options}
        assert (current["mode"], current["thought_level"]) == ("full-access", "low")
        assert titles(first, session, heard) == ["Mine"]
        [plan] = first.updates(session, "plan", since=heard)
        assert plan["entries"][0]["content"] == "Look"
        assert not first.desk.permissions
        # The client does not get the same updates again.
        heard = len(first.lines)
        await first.prompt(session, "Once more")
        assert not titles(first, session, heard)
        repeated = {"current_mode_update", "config_option_update", "plan"}
        assert not repeated & {line.update_kind for line in first.lines[heard:]}


async def test_a_turn_overtaken_by_another_agent_ends_with_an_error_and_loses_nothing(
    tmp_path: Path,
) -> None:
    hold = anyio.Event()
    script = [
        Reply(["It is ", "lost."], hold=hold, hold_after=1),
        Reply("Two."),
        Reply("Three."),
    ]
    async with (
        model_server(script, "openai") as server,
        connected_agent(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as first,
        connected_agent(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as second,
    ):
        session = await first.new_session(tmp_path)
        overtaken = await first.start_prompt(session, "One?")
        await wait_logged(tmp_path, "partial_answer")
        await second.resume(session, tmp_path)
        await second.prompt(session, "Two?")
        hold.set()
        with pytest.raises(
            AgentError, match="Another process has continued this session"
        ):
            await overtaken.result()
        assert await first.prompt(session, "Three?") == {"stopReason": "end_turn"}
        texts = [said(message) for message in messages(server.calls[2].body)]
        assert texts == ["One?", "It is ", "Two?", "Two.", "Three?"]


async def test_a_call_of_an_overtaken_turn_does_not_run_and_ends_in_the_editor(
    tmp_path: Path,
) -> None:
    call = ToolCall("write", {"path": str(tmp_path / "new.txt"), "content": "x"})
    async with (
        model_server(
            [Reply("I write.", tool_calls=[call]), Reply("Two."), Reply("Three.")],
            "openai",
        ) as server,
        connected_agent(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as first,
        connected_agent(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as second,
    ):
        session = await first.new_session(tmp_path)
        first.permission_hold = anyio.Event()
        overtaken = await first.start_prompt(session, "One?")
        await first.until(lambda: first.desk.permissions)
        await second.resume(session, tmp_path)
        await second.prompt(session, "Two?")
        first.permission_hold.set()
        with pytest.raises(
            AgentError, match="Another process has continued this session"
        ):
            await overtaken.result()
        assert not (tmp_path / "new.txt").exists()
        [announced] = first.updates(kind="tool_call")
        assert first.tool(announced["toolCallId"])["status"] == "failed"
        assert await first.prompt(session, "Three?") == {"stopReason": "end_turn"}
