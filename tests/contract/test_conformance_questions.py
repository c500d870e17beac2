"""What the agent asks an editor: one thing at a time, what it offers and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.editors import BARE, CODECOMPANION, ZED, Editor
from support.replies import Reply, ToolCall
from support.serving import Handler
from support.stage import results, stage


async def test_what_a_second_initialize_takes_back_is_not_asked_any_more(tmp_path: Path) -> None:
    calls = [
        ToolCall("read", {"path": "a.txt"}),
        ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]}),
        ToolCall("shell", {"command": "echo said"}),
    ]
    replies = [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]
    async with stage(tmp_path, *replies, editor=BARE) as it:
        for capabilities in (ZED.capabilities, {}):
            await it.agent.initialize(clientCapabilities=capabilities)
        session = await it.agent.new_session(it.folder)
        await it.agent.set_mode(session, "full-access")
        assert await it.agent.prompt(session, "Work", timeout=30) == {"stopReason": "end_turn"}
        assert [line.method for line in it.agent.lines if line.kind == "request"] == []
        assert [call["status"] for call in it.calls()] == ["completed"] * 3


@pytest.mark.parametrize("editor", [ZED, CODECOMPANION], ids=["zed", "codecompanion"])
async def test_of_several_calls_in_one_answer_permission_is_asked_for_one_after_the_other(
    tmp_path: Path, editor: Editor
) -> None:
    calls = [ToolCall("shell", {"command": f"echo {number}"}) for number in range(3)]
    async with stage(tmp_path, Reply(tool_calls=calls), Reply("Done."), editor=editor) as it:
        asking, most = 0, 0
        ask = it.agent.handlers["session/request_permission"]

        async def count(params: Mapping[str, Any]) -> Any:
            nonlocal asking, most
            asking += 1
            most = max(most, asking)
            try:
                # A second question that was sent along with this one has been taken in by then.
                await it.agent.request("session/list", {})
                return await ask(params)
            finally:
                asking -= 1

        it.agent.handlers["session/request_permission"] = count
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert most == 1
        assert [params["toolCall"]["rawInput"]["command"] for params in it.agent.desk.permissions] == [
            "echo 0",
            "echo 1",
            "echo 2",
        ]
        assert [call["status"] for call in it.calls()] == ["completed"] * 3


async def test_members_and_meta_that_nobody_knows_are_ignored_in_an_editors_answers(tmp_path: Path) -> None:
    calls = [
        ToolCall("read", {"path": "a.txt"}),
        ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]}),
        ToolCall("shell", {"command": "echo said"}),
    ]
    replies = [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]
    more = {"_meta": {"claudeCode": {"options": [1, None]}, "": {}}, "unknownMember": [{}]}

    def more_of(handler: Handler) -> Handler:
        async def answer(params: Mapping[str, Any]) -> Any:
            result = {**(await handler(params) or {}), **more}
            if "outcome" in result:
                result["outcome"] |= more
            return result

        return answer

    async with stage(tmp_path, *replies) as it:
        it.agent.handlers |= {method: more_of(handler) for method, handler in it.agent.handlers.items()}
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [call["status"] for call in it.calls()] == ["completed"] * 3
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert "said" in results(it.server.calls[3].body)[-1].text
        assert len(it.agent.desk.permissions) == 2


async def test_a_cancel_request_with_meta_takes_the_prompt_back(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Never", hold=anyio.Event())) as it:
        prompt = await it.agent.start_prompt(it.session, "Work")
        await it.held()
        await it.agent.notify("$/cancel_request", {"requestId": prompt.id, "_meta": {"zed": 1}, "unknownMember": 2})
        await it.agent.until(lambda: prompt.done)
        assert prompt.answer is not None
        assert prompt.answer.message["error"]["code"] == -32800
