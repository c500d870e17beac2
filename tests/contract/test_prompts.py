"""Prompts in a row: queued, answered in order, cancelled, taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError
from support.replies import Reply, ToolCall
from support.stage import conversation, results, stage


async def test_a_prompt_that_comes_while_a_turn_runs_is_answered_after_it(tmp_path: Path) -> None:
    hold = anyio.Event()
    replies = [Reply(["One", "."], hold=hold, hold_after=1), Reply("Two."), Reply("Three.")]
    async with stage(tmp_path, *replies) as it:
        handles = [await it.agent.start_prompt(it.session, text) for text in ("first", "second", "third")]
        await it.update("agent_message_chunk")
        assert not any(handle.done for handle in handles)
        hold.set()
        for handle in handles:
            assert await handle.result() == {"stopReason": "end_turn"}
        order = [line.message.get("id") for line in it.agent.lines if line.label == "response session/prompt"]
        assert order == [handle.id for handle in handles]
        assert conversation(it.server.calls[2].body) == [
            ("user", "first"),
            ("assistant", "One."),
            ("user", "second"),
            ("assistant", "Two."),
            ("user", "third"),
        ]


async def test_every_chunk_of_a_turn_is_written_before_its_response(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply([f"{n} " for n in range(300)], thinking="Hm."), Reply("Next.")) as it:
        handles = [await it.agent.start_prompt(it.session, text) for text in ("first", "second")]
        for handle in handles:
            await handle.result()
        assert handles[0].answer is not None
        before = it.agent.texts(since=0)
        assert list(before.values()) == ["".join(f"{n} " for n in range(300)), "Next."]
        after = it.agent.texts(since=handles[0].answer.index)
        assert list(after.values()) == ["Next."]


async def test_a_cancel_ends_the_running_turn_and_those_behind_it_stay(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(["Half ", "of it"], hold=anyio.Event(), hold_after=1), Reply("Two.")) as it:
        running = await it.agent.start_prompt(it.session, "first")
        behind = await it.agent.start_prompt(it.session, "second")
        await it.update("agent_message_chunk")
        await it.agent.cancel(it.session)
        assert await running.result() == {"stopReason": "cancelled"}
        await it.server.wait_aborted()
        assert await behind.result() == {"stopReason": "end_turn"}
        # The model is told what the user has seen of the broken answer.
        said = conversation(it.server.calls[1].body)
        assert said[0] == ("user", "first")
        assert said[-1][0] == "user"
        assert said[-1][1].endswith("second")
        assert any(role == "assistant" and text.startswith("Half") for role, text in said)


async def test_a_cancel_right_behind_the_prompt_ends_it(tmp_path: Path) -> None:
    def answer(request: dict[str, Any]) -> Reply:
        return Reply("Yes.") if conversation(request)[-1][1].endswith("Again") else Reply(hang=True)

    async with stage(tmp_path, script=answer) as it:
        for _ in range(3):
            handle = await it.agent.start_prompt(it.session, "Hello")
            await it.agent.cancel(it.session)
            assert await handle.result() == {"stopReason": "cancelled"}
        assert await it.prompt("Again") == {"stopReason": "end_turn"}


async def test_a_cancel_without_a_turn_is_ignored_and_does_not_touch_the_next_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes."), Reply("Yes.")) as it:
        await it.agent.cancel(it.session)
        assert await it.prompt() == {"stopReason": "end_turn"}
        await it.agent.cancel(it.session)
        await it.agent.cancel(it.session)
        assert await it.prompt() == {"stopReason": "end_turn"}


async def test_a_cancel_in_a_running_call_fails_it_and_the_next_request_is_whole(tmp_path: Path) -> None:
    calls = [ToolCall("shell", {"command": "sleep 600"}, id="t1"), ToolCall("read", {"path": "a.txt"}, id="t2")]
    async with stage(
        tmp_path, Reply("Look.", tool_calls=calls), Reply("Yes."), mode="full-access", dialect="anthropic"
    ) as it:
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.update("tool_call_update", status="in_progress")
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}
        assert [call["status"] for call in it.calls()] == ["failed", "failed"]
        assert await it.prompt("Again") == {"stopReason": "end_turn"}
        returned = results(it.server.calls[1].body)
        assert [(result.is_error, result.text) for result in returned] == [
            (True, "The user cancelled this call before it finished. It may have had part of its effect."),
            (True, "The user cancelled this call before it ran. It had no effect."),
        ]
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert [call["status"] for call in later.calls()] == ["failed", "failed"]


async def test_cancel_request_takes_a_queued_prompt_out_and_the_model_never_sees_it(tmp_path: Path) -> None:
    hold = anyio.Event()
    async with stage(tmp_path, Reply(["One", "."], hold=hold, hold_after=1), Reply("Three.")) as it:
        first = await it.agent.start_prompt(it.session, "first")
        await it.update("agent_message_chunk")
        second, third = [await it.agent.start_prompt(it.session, text) for text in ("second", "third")]
        await second.cancel()
        with pytest.raises(AgentError) as error:
            await second.result()
        assert error.value.code == -32800
        hold.set()
        assert await first.result() == {"stopReason": "end_turn"}
        assert await third.result() == {"stopReason": "end_turn"}
        assert "second" not in str(conversation(it.server.calls[1].body))


async def test_cancel_request_ends_the_running_prompt_and_leaves_the_queue(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Never", hold=anyio.Event()), Reply("Two.")) as it:
        first = await it.agent.start_prompt(it.session, "first")
        second = await it.agent.start_prompt(it.session, "second")
        await it.held()
        await first.cancel()
        with pytest.raises(AgentError) as error:
            await first.result()
        assert error.value.code == -32800
        await it.server.wait_aborted()
        assert await second.result() == {"stopReason": "end_turn"}
        # What was never asked, and what was answered long ago, cannot be cancelled, and nobody is told.
        heard = len(it.agent.lines)
        await second.cancel()
        for id in ("unknown", None, 1.5, {"a": 1}):
            await it.agent.notify("$/cancel_request", {"requestId": id})
        await it.agent.request("session/list", {})
        assert it.agent.methods_between(heard) == ["response session/list"]


@pytest.mark.process
@pytest.mark.parametrize("way", ["session/close", "session/load", "session/archive", "EOF"])
async def test_prompts_that_still_wait_when_the_session_ends_are_shown_again_and_the_model_never_sees_them(
    tmp_path: Path, way: str
) -> None:
    replies = [Reply(["One", "."], hold=anyio.Event(), hold_after=1), Reply("Four.")]
    async with stage(tmp_path, *replies) as it:
        handles = [await it.agent.start_prompt(it.session, text) for text in ("first", "second", " ", "third")]
        await it.update("agent_message_chunk")
        if way == "EOF":
            await it.agent.close_stdin()
            assert await it.agent.wait_exit() == 0
        else:
            more = {"cwd": str(it.folder), "mcpServers": []} if way == "session/load" else {}
            await it.agent.request(way, {"sessionId": it.session, **more})
            for handle in handles:
                assert await handle.result() == {"stopReason": "cancelled"}
        async with it.restarted() as again:
            await again.agent.load(it.session, it.folder)
            told = [str(update["content"]) for update in again.agent.updates(it.session, "user_message_chunk")]
            assert [text for text in ("first", "second", "third") if any(text in each for each in told)] == [
                "first",
                "second",
                "third",
            ]
            assert len(told) == 3
            assert await again.prompt("fourth") == {"stopReason": "end_turn"}
        asked = str(conversation(it.server.calls[1].body))
        assert "first" in asked
        assert "fourth" in asked
        assert "second" not in asked
        assert "third" not in asked
