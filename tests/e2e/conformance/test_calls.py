"""How calls and thoughts reach an editor: whole, once, and under ids that tell them
apart.
"""

from __future__ import annotations

from pathlib import Path

from support.editors import BARE, ZED
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stored import wait_logged


async def test_a_terminal_is_named_once_and_by_an_update_that_says_nothing_else(
    tmp_path: Path,
) -> None:
    call = ToolCall("shell", {"command": "echo said"})
    async with stage(
        tmp_path,
        Reply(tool_calls=[call]),
        Reply("Done."),
        editor=ZED,
        mode="full-access",
    ) as it:
        await it.prompt()
        [terminal] = it.agent.desk.terminals
        [named] = [update for update in it.agent.updates() if terminal in str(update)]
        assert {key: value for key, value in named.items() if key != "toolCallId"} == {
            "sessionUpdate": "tool_call_update",
            "content": [{"type": "terminal", "terminalId": terminal}],
        }
        assert [call["status"] for call in it.calls()] == ["completed"]


async def test_titles_and_messages_have_one_line_and_no_markup_of_ours_whatever_a_model_names(
    tmp_path: Path,
) -> None:
    odd = "a\nb\r\nc\x85d\u2028e `x` **y**"
    edit = {"path": odd, "edits": [{"old_text": odd, "new_text": "x"}]}
    calls = [
        ToolCall("read", {"path": odd}),
        ToolCall("list", {"path": odd}),
        ToolCall("glob", {"pattern": odd}),
        ToolCall("grep", {"pattern": odd}),
        ToolCall("recall", {"query": odd}),
        ToolCall("plan", {"entries": [{"content": odd}]}),
        ToolCall("edit", edit),
        ToolCall("write", {"path": odd, "content": odd}),
        ToolCall("shell", {"command": odd}),
        ToolCall("shell", {"command": "`echo` **x**", "cwd": odd}),
        ToolCall(odd),
    ]
    async with stage(
        tmp_path,
        Reply(tool_calls=calls),
        Reply("Done."),
        mode="full-access",
        editor=BARE,
    ) as it:
        await it.prompt()
        titles = [
            update["title"]
            for update in it.agent.updates()
            if update.get("title") and "toolCallId" in update
        ]
        assert len(titles) >= 2 * len(calls)
        assert [
            title
            for title in titles
            if len(title.splitlines()) != 1 or len(title) > 200
        ] == []
        commands = [call for call in it.calls() if call["kind"] == "execute"]
        assert commands[0]["title"] == "a …"
        assert commands[1]["title"].startswith("`echo` **x**")
        assert commands[0]["rawInput"] == {"command": odd}
        received = [line.raw.decode() for line in it.agent.lines if line.received]
        assert [line for line in received if len(line.splitlines()) != 1] == []


async def test_a_call_that_a_cancel_overtook_before_it_was_announced_is_not_updated(
    tmp_path: Path,
) -> None:
    calls = [
        ToolCall("read", {"path": f"{number}{'x' * 4_000}"}) for number in range(400)
    ]
    async with stage(
        tmp_path, Reply("Let me look.", tool_calls=calls), editor=BARE
    ) as it:
        running = await it.agent.start_prompt(it.session, "Work")
        await it.update("agent_message_chunk")
        it.agent.stop_reading()  # a slow editor, so that the announcements wait in the queue
        await wait_logged(it.home, "assistant_answered")
        await it.agent.cancel(it.session)
        it.agent.go_on_reading()
        assert await running.result(30) == {"stopReason": "cancelled"}
        announced = {
            update["toolCallId"] for update in it.agent.updates(kind="tool_call")
        }
        updated = {
            update["toolCallId"] for update in it.agent.updates(kind="tool_call_update")
        }
        assert updated <= announced


async def test_the_name_of_a_tool_that_does_not_exist_is_shown_in_bounds(
    tmp_path: Path,
) -> None:
    replies = [Reply(tool_calls=[ToolCall("x" * 12_000_000)]), Reply("Done.")]
    async with stage(tmp_path, *replies) as it:  # the laws know the limit
        await it.prompt(timeout=120)
