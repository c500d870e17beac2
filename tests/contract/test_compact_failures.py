"""Compactions that fail or are cancelled: it is said once, and the history is what it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from support.client import AgentProcess, connected_agent
from support.compactions import RECIPE_TEXT, TERMINAL, bare, both_editors, shown_compactions
from support.editors import ZED_BETA, Editor
from support.models import BEFORE_HEADERS, ModelServer, Reply, model_server

LONG = "The cart adds prices. " * 250
FAILURES: dict[str, Sequence[Reply]] = {
    "a refused request": [Reply(http_status=400)],
    "nothing": [Reply("")],
    "blanks": [Reply(["  \n", "\n"])],
    "cut off": [Reply("# Goal\nTo be", stop="max_tokens")],
    "a lost connection": [Reply(["# Goal", "\nA cart."], drop_after=1)],
    "an error in the stream": [Reply(["# Goal", "\nA cart."], sse_error="overloaded_error", fail_after=1)],
    "a refusal": [Reply("I cannot.", stop="refusal")],
    "larger than what it replaces": [Reply("word " * 3_000)],
}


async def assert_nothing_happened(agent: AgentProcess, server: ModelServer, session: str, summary_call: int) -> None:
    """The next request holds what was there before, and it is answered."""
    server.add(Reply("Still here."))
    assert await agent.prompt(session, "Go on.") == {"stopReason": "end_turn"}
    before, after = bare(server.calls[summary_call].body), bare(server.calls[-1].body)
    assert after["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "Go on."}]}
    assert {**after, "messages": after["messages"][:-1]} == {**before, "messages": before["messages"][:-1]}
    assert not server.calls[-1].mentions(RECIPE_TEXT)


async def compact(agent: AgentProcess, session: str) -> str:
    """Type `/compact`, and return what the user is told of it: a message, or the sentence of an error."""
    begun = len(agent.lines)
    turn = await agent.start_prompt(session, "/compact")
    await agent.until(lambda: turn.done, 20)
    assert turn.answer is not None
    if turn.answer.kind == "response":
        assert turn.answer.message["result"] == {"stopReason": "end_turn"}
        return agent.text(since=begun)
    error = turn.answer.message["error"]
    assert "data" not in error
    return error["message"]


async def test_a_summary_that_cannot_be_used_changes_nothing_and_the_user_is_told_why(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with (
        model_server() as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        for failure, replies in FAILURES.items():
            with subtests.test(failure):
                server.add(Reply(LONG), *replies)
                session = await agent.new_session(tmp_path)
                await agent.prompt(session, "Count.")
                begun, asked = len(agent.lines), len(server.calls)
                told = await compact(agent, session)
                [compaction] = shown_compactions(agent, since=begun)
                assert compaction.statuses == ["in_progress", "failed"]
                assert compaction.text == told
                assert "unchanged" in told
                assert not agent.updates(kind="usage_update", since=begun)
                await assert_nothing_happened(agent, server, session, asked)


@both_editors
async def test_a_cancelled_compaction_changes_nothing(tmp_path: Path, editor: Editor) -> None:
    async with (
        model_server((), "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=editor) as agent,
    ):
        for number, after in enumerate((BEFORE_HEADERS, 1), 1):
            server.add(Reply(LONG), Reply(["# Goal", "\nA cart."], hold=anyio.Event(), hold_after=after))
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "Count.")
            begun, asked = len(agent.lines), len(server.calls)
            turn = await agent.start_prompt(session, "/compact")
            await server.wait_held(number)
            await agent.cancel(session)
            assert await turn.result() == {"stopReason": "cancelled"}
            await server.wait_aborted(number)
            [compaction] = shown_compactions(agent, since=begun)
            assert [status for status in compaction.statuses if status in TERMINAL] == compaction.statuses[-1:]
            assert compaction.statuses[-1] == ("cancelled" if editor is ZED_BETA else "failed")
            await assert_nothing_happened(agent, server, session, asked)


async def test_a_session_closed_while_it_compacts_can_be_loaded_and_used(tmp_path: Path) -> None:
    held = Reply(["# Goal", "\nA cart."], hold=anyio.Event(), hold_after=1)
    async with (
        model_server([Reply(LONG), held], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "Count.")
        turn = await agent.start_prompt(session, "/compact")
        queued = await agent.start_prompt(session, "And then?")
        await server.wait_held()
        await agent.request("session/close", {"sessionId": session})
        assert await turn.result() == {"stopReason": "cancelled"}
        assert await queued.result() == {"stopReason": "cancelled"}
        [compaction] = shown_compactions(agent)
        assert compaction.statuses == ["in_progress", "cancelled"]
        begun = len(agent.lines)
        await agent.load(session, tmp_path)
        assert shown_compactions(agent, since=begun) == []
        assert LONG in agent.text(since=begun)
        await assert_nothing_happened(agent, server, session, 1)
        assert not server.calls[-1].mentions("And then?")


@both_editors
async def test_a_replay_says_why_a_compaction_failed_and_shows_it_no_more(tmp_path: Path, editor: Editor) -> None:
    async with (
        model_server([Reply(LONG), Reply("")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=editor) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "Count.")
        await agent.prompt(session, "/compact")
        told = agent.text()
        begun = len(agent.lines)
        await agent.load(session, tmp_path)
        assert shown_compactions(agent, since=begun) == []
        assert agent.text(since=begun) == told
        assert list(agent.texts("user_message_chunk", since=begun).values()) == ["Count.", "/compact"]
