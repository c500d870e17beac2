"""Tool calls: announced, run in order, and returned to the model whatever it got wrong."""

from __future__ import annotations

from pathlib import Path

from support.replies import Reply, ToolCall
from support.stage import results, stage


async def test_a_call_is_announced_runs_completes_and_its_result_is_in_the_next_request(tmp_path: Path) -> None:
    replies = [Reply("Let me look.", tool_calls=[ToolCall("read", {"path": "a.txt"})]), Reply("Three lines.")]
    async with stage(tmp_path, *replies, dialect="anthropic") as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        labels = [line.label for line in it.agent.lines if line.update or line.kind == "response"][2:]
        assert labels == [
            "available_commands_update",
            "session_info_update",
            "agent_message_chunk",
            "usage_update",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "agent_message_chunk",
            "usage_update",
            "response session/prompt",
        ]
        [call] = it.calls()
        assert it.statuses(call["toolCallId"]) == ["pending", "in_progress", "completed"]
        assert call["rawInput"] == {"path": "a.txt"}
        assert len(it.agent.texts()) == 2  # each answer is a message of its own
        [result] = results(it.server.calls[1].body)
        assert "2\ttwo" in result.text
        assert not result.is_error


async def test_parallel_calls_are_all_announced_first_and_each_gets_its_own_result_in_order(tmp_path: Path) -> None:
    calls = [ToolCall("read", {"path": f"{name}.txt"}) for name in "abc"]
    files = {f"{name}.txt": f"this is {name}\n" for name in "ac"}
    async with stage(tmp_path, Reply(tool_calls=calls), Reply("Done."), files=files, dialect="anthropic") as it:
        await it.prompt()
        labels = [update["sessionUpdate"] for update in it.agent.updates() if "toolCallId" in update]
        assert labels[:3] == ["tool_call"] * 3
        returned = results(it.server.calls[1].body)
        assert [result.is_error for result in returned] == [False, True, False]
        assert "this is a" in returned[0].text
        assert "this is c" in returned[2].text
        assert len({result.call_id for result in returned}) == 3


WRONG: dict[str, tuple[ToolCall, str]] = {
    "unknown tool": (ToolCall("teleport", {"to": "Mars"}), "no tool 'teleport'"),
    "broken JSON": (ToolCall("read", '{"path": "a.tx'), "not a JSON object"),
    "a list": (ToolCall("read", '["a.txt"]'), "not a JSON object"),
    "missing argument": (ToolCall("read", {}), "path"),
    "wrong type": (ToolCall("read", {"path": 7}), "path"),
    "unknown argument": (ToolCall("read", {"path": "a.txt", "colour": "red"}), "colour"),
    "a directory": (ToolCall("read", {"path": "."}), "directory"),
    "an empty command": (ToolCall("shell", {"command": "  "}), "empty"),
    "no such text": (
        ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "seven", "new_text": "7"}]}),
        "Read it first",
    ),
    "odd path": (ToolCall("read", {"path": "a\0b"}), "NUL"),
    "odd name": (ToolCall("", {}), "no tool ''"),
}


async def test_what_the_model_gets_wrong_goes_back_to_it_and_the_turn_goes_on(tmp_path: Path) -> None:
    replies = [*(Reply(tool_calls=[call]) for call, _ in WRONG.values()), Reply("Sorry.")]
    async with stage(tmp_path, *replies, mode="full-access", dialect="anthropic") as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        for (name, (_, words)), request in zip(WRONG.items(), it.server.calls[1:], strict=True):
            [result] = results(request.body)[-1:]
            assert result.is_error, name
            assert words in result.text, name
        for call in it.calls():
            statuses = it.statuses(call["toolCallId"])
            assert (statuses[0], statuses[-1]) == ("pending", "failed")
        assert it.agent.text() == "Sorry."
