"""Permission: which mode asks for what, how it is asked, and what counts as consent."""

from __future__ import annotations

from pathlib import Path

from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage

OUTSIDE = "../outside.txt"
CALLS = {
    "read": ToolCall("read", {"path": "a.txt"}),
    "read outside": ToolCall("read", {"path": OUTSIDE}),
    "write": ToolCall("write", {"path": "b.txt", "content": "b\n"}),
    "write outside": ToolCall("write", {"path": "../made.txt", "content": "b\n"}),
    "shell": ToolCall("shell", {"command": "echo x > shell.txt"}),
    "plan": ToolCall("plan", {"entries": [{"content": "First", "status": "in_progress"}, {"content": "Then"}]}),
    "grep": ToolCall("grep", {"pattern": "one"}),
}


def one_by_one(*calls: ToolCall) -> list[Reply]:
    return [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]


def asked_for(it: Stage) -> list[str]:
    return [params["toolCall"]["toolCallId"] for params in it.agent.desk.permissions]


async def test_a_write_that_a_link_leads_out_of_the_project_is_asked_for_with_the_place_it_leads_to(
    tmp_path: Path,
) -> None:
    calls = [CALLS["write outside"], ToolCall("write", {"path": "down/made.txt", "content": "b\n"})]
    async with stage(tmp_path, *one_by_one(*calls), mode="accept-edits") as it:
        (it.folder / "down").symlink_to(tmp_path)
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        plain, led = [params["toolCall"]["title"] for params in it.agent.desk.permissions]
        assert "leads to" not in plain
        assert led.endswith(f"down/made.txt (leads to {tmp_path / 'made.txt'})")


async def test_a_further_directory_of_the_session_is_inside(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "b.txt").write_text("more\n")
    async with stage(tmp_path, *one_by_one(ToolCall("read", {"path": str(more / "b.txt")}))) as it:
        session = await it.agent.new_session(it.folder, additionalDirectories=[str(more)])
        await it.agent.prompt(session, "Read")
        assert asked_for(it) == []
        assert [call["status"] for call in it.calls()] == ["completed"]


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
