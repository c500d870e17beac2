"""Permission: which mode asks for what, how it is asked, and what counts as consent."""

from __future__ import annotations

from pathlib import Path

from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage


def one_by_one(*calls: ToolCall) -> list[Reply]:
    return [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]


def asked_for(it: Stage) -> list[str]:
    return [params["toolCall"]["toolCallId"] for params in it.agent.desk.permissions]


async def test_always_holds_for_this_kind_and_where_it_is_remembered_so_for_this_session_and_after_a_restart(
    tmp_path: Path,
) -> None:
    write = ToolCall("write", {"path": "b.txt", "content": "1"})
    again = ToolCall("write", {"path": "b.txt", "content": "2"})
    shell = [ToolCall("shell", {"command": command}) for command in ("echo 1", "echo 1 2", "echo 1", "ls")]
    replies = [*one_by_one(write, again, *shell), *one_by_one(again), *one_by_one(ToolCall("shell", {"command": "ls"}))]
    async with stage(tmp_path, *replies, config={"remember_permissions": "session"}) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        calls = it.calls()
        asked = [call["rawInput"].get("command", "write") for call in calls if call["toolCallId"] in asked_for(it)]
        assert asked == ["write", "echo 1", "echo 1 2", "ls"]
        async with it.restarted() as later:
            await later.agent.resume(it.session, it.folder)
            assert await later.prompt() == {"stopReason": "end_turn"}
            assert asked_for(later) == []
        other = await it.agent.new_session(it.folder)
        await it.agent.prompt(other, "In another session")
        assert len(asked_for(it)) == 5
