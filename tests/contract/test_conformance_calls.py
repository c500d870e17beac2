"""How calls and thoughts reach an editor: whole, and under ids that tell them apart."""

from __future__ import annotations

from pathlib import Path

import anyio

from support.replies import Reply, ToolCall
from support.stage import stage

LONG = "The cart adds prices. " * 200


async def test_a_replay_announces_every_call_once_and_whole_and_updates_none(tmp_path: Path) -> None:
    calls = [
        ToolCall("read", {"path": "a.txt"}),
        ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]}),
        ToolCall("shell", {"command": "echo said; exit 3"}),
        ToolCall("teleport", {"to": "Mars"}),
    ]
    replies = [Reply(tool_calls=calls), Reply(LONG), Reply("# Goal\nA cart.")]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        await it.prompt()
        await it.prompt("/compact")  # which this editor sees as a call, too
        live = it.calls()
        assert [call["status"] for call in live] == ["completed", "completed", "failed", "failed", "completed"]
        async with it.restarted() as later:
            for _ in range(2):
                heard = len(later.agent.lines)
                await later.agent.load(it.session, it.folder)
                shown = [update for update in later.agent.updates(since=heard) if "toolCallId" in update]
                assert [update["sessionUpdate"] for update in shown] == ["tool_call"] * len(live)
                for before, after in zip(live, shown, strict=True):
                    for key in ("toolCallId", "title", "kind", "status", "rawInput", "locations"):
                        assert after.get(key) == before.get(key), key
                    assert after["content"]


async def test_thoughts_are_a_message_with_one_id_that_is_not_the_answers(tmp_path: Path) -> None:
    hold = anyio.Event()
    reply = Reply(["Hel", "lo."], thinking=["Let me ", "think."], hold=hold, hold_after=1)
    async with stage(tmp_path, reply) as it:
        running = await it.agent.start_prompt(it.session, "Hi")
        await it.update("agent_thought_chunk")  # the rest of the thought comes as a chunk of its own
        hold.set()
        await running.result()
        [(thought, words)] = it.agent.texts("agent_thought_chunk").items()
        [(answer, said)] = it.agent.texts().items()
        assert (words, said) == ("Let me think.", "Hello.")
        assert len(it.agent.updates(kind="agent_thought_chunk")) == 2
        assert thought != answer
