"""A summary that is being prepared, or waits, while something else happens to its session."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.compaction.strategies.excerpts import SUMMARY as EXCERPTS
from support.background import (
    LONG,
    OTHER,
    OUT_OF_ROOM,
    PREPARE,
    STATES,
    SUMMARY,
    WINDOW,
    Desk,
    desk,
    held,
    live,
    prepared,
)
from support.client import AgentError, AgentProcess, connected_agent
from support.compactions import asked_last, is_summary_request, messages, said, shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, Usage
from support.stored import wait_logged

SMALL = {
    "models": {"openai/gpt-test": {"context_window": 20_000}, "openai/small-test": {"context_window": 13_000}},
}


def whole(it: Desk) -> list[str]:
    return [said(message).splitlines()[-1] for message in messages(live(it))]


async def test_an_undo_of_nothing_leaves_the_summary_that_waits_in_its_place(tmp_path: Path) -> None:
    summary, hold = held(usage=Usage(500, 50))
    async with desk(tmp_path, summary) as it:
        await prepared(it, hold)
        await it.prompt("/compact undo")
        assert "There is no compaction to undo. Nothing was changed." in it.agent.text()
        assert "summary_dropped" not in it.logged()
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(6_000, 5)))
        assert [compaction.text for compaction in shown_compactions(it.agent)] == [SUMMARY]
        assert it.asked == 1


@pytest.mark.parametrize(("model", "env"), [("openai/small-test", {}), ("anthropic/claude-test", WINDOW)])
async def test_another_model_goes_on_with_the_summary_that_waits(
    tmp_path: Path, model: str, env: dict[str, str]
) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary, env=env, config=SMALL) as it:
        await prepared(it, hold)
        await it.agent.set_config_option(it.session, "model", model)
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(6_000, 5)))
        body = live(it)
        assert body["model"] == model.partition("/")[2]
        assert SUMMARY in said(messages(body)[0])
        assert whole(it) == ["Two?", "Second answer.", "Three?"]
        assert [shown.statuses for shown in shown_compactions(it.agent)] == [["in_progress", "completed"]]
        assert it.asked == 1
        assert it.agent.updates(kind="usage_update")[-1]["size"] == (20_000 if env else 13_000)


async def test_for_a_smaller_model_the_summary_that_waits_is_used_with_what_came_since_made_shorter(
    tmp_path: Path,
) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary, env={}, config=SMALL) as it:
        await it.filled()
        # More than the smaller window holds has come since.
        await it.prompt("Two?", Reply(LONG + LONG, usage=Usage(PREPARE + 50, 100)))
        await it.server.wait_held()
        hold.set()
        await it.ready()
        await it.agent.set_config_option(it.session, "model", "openai/small-test")
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(6_000, 5)))
        assert live(it)["model"] == "small-test"
        assert whole(it)[-1] == "Three?"
        assert not it.server.calls[-1].mentions(LONG + LONG)
        assert it.server.calls[-1].mentions(SUMMARY)
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        [done] = [update for update in it.agent.updates(kind="compaction_update") if update["status"] == "completed"]
        assert done["_meta"]["tokensAfter"] < done["_meta"]["tokensBefore"]


async def test_a_larger_model_that_has_room_enough_keeps_the_conversation_as_it_is(tmp_path: Path) -> None:
    summary, hold = held()
    models = SMALL["models"] | {"openai/large-test": {"context_window": 200_000}}
    async with desk(tmp_path, summary, env={}, config={"models": models}) as it:
        await prepared(it, hold)
        await it.agent.set_config_option(it.session, "model", "openai/large-test")
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(11_100, 5)))
        await it.prompt("Four?", Reply("Fourth answer.", usage=Usage(11_200, 5)))
        assert shown_compactions(it.agent) == []
        assert whole(it) == ["One?", LONG, "Two?", "Second answer.", "Three?", "Third answer.", "Four?"]


HOOK = """\
from pathlib import Path
from acp_agent.hooks import *

def note(*words):
    with (Path(__file__).parent / "heard").open("a") as file:
        file.write(" ".join(words) + "\\n")

@hook("before_compaction")
async def before(event, services):
    note("before", event.reason)
    return Outcome.block("Not on a Friday.") if (Path(__file__).parent / "veto").exists() else None

@hook("after_compaction")
async def after(event, services):
    note("after", event.reason)

@hook("turn_end")
async def behind(event, services):
    note("turn_end", event.response)
"""


@pytest.mark.parametrize("vetoed", [False, True], ids=["excerpts", "vetoed"])
@pytest.mark.parametrize("reason", ["model_switch", "resume"])
async def test_what_does_not_fit_any_more_is_made_short_without_a_model_unless_a_hook_wants_the_turn_to_end(
    tmp_path: Path, reason: str, vetoed: bool
) -> None:
    hooks = tmp_path / "state" / "hooks"
    hooks.mkdir(parents=True, mode=0o700)
    hooks.parent.chmod(0o700)
    (hooks / "own.py").write_text(HOOK)
    async with desk(tmp_path, env={}, config=SMALL) as it:
        await it.filled()
        if vetoed:
            (hooks / "veto").touch()
        if reason == "resume":
            it.server.write_config(tmp_path, {"models": {"openai/gpt-test": {"context_window": 10_000}}})
        async with connected_agent(home=tmp_path, env=it.env, capabilities=ZED_BETA) as other:
            agent = it.agent if reason == "model_switch" else other
            if reason == "resume":
                await agent.resume(it.session, tmp_path)
            else:
                await agent.set_config_option(it.session, "model", "openai/small-test")
            it.answers = [Reply("And now this.", usage=Usage(5_000, 5))]
            if vetoed:
                with pytest.raises(AgentError, match=r"A hook did not allow the compaction\. Not on a Friday\."):
                    await agent.prompt(it.session, "And now?")
            else:
                assert await agent.prompt(it.session, "And now?") == {"stopReason": "end_turn"}
                assert whole(it) == ["And now?"]
            assert [shown.text for shown in shown_compactions(agent)] == ([] if vetoed else [EXCERPTS])
        told = (hooks / "heard").read_text().splitlines()[1:]
        assert told == [f"before {reason}", *([] if vetoed else [f"after {reason}", "turn_end And now this."])]


async def test_hooks_hear_of_results_that_are_masked_but_not_of_words_that_nobody_wrote(tmp_path: Path) -> None:
    hooks = tmp_path / "state" / "hooks"
    hooks.mkdir(parents=True)
    hooks.parent.chmod(0o700)
    (hooks / "own.py").write_text(HOOK)
    (tmp_path / "long.txt").write_text("".join(f"line {number} of it is here\n" for number in range(600)))
    reads = [
        Reply(tool_calls=[ToolCall("read", {"path": str(tmp_path / "long.txt")})], usage=Usage(used, 20))
        for used in (2_400, 6_500)
    ]
    async with desk(tmp_path, config={"compaction": {"prepare": False}}) as it:
        await it.prompt("Read it twice.", *reads, Reply("Read.", usage=Usage(11_900, 200)))
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(4_000, 5)))
        [shown] = shown_compactions(it.agent)
        assert "old results of tools" in shown.text
        told = (hooks / "heard").read_text().splitlines()
        assert told == ["turn_end Read.", "before threshold", "after threshold", "turn_end Second answer."]


@pytest.mark.parametrize("state", STATES)
async def test_by_hand_what_the_old_model_has_written_is_used_and_what_it_still_writes_is_not_waited_for(
    tmp_path: Path, state: str
) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary, Reply(OTHER), env={}, config=SMALL) as it:
        await prepared(it, hold, state)
        await it.agent.set_config_option(it.session, "model", "anthropic/claude-test")
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]
        assert compaction.text == (SUMMARY if state == "ready" else OTHER)
        asked = [call.body["model"] for call in it.server.calls if is_summary_request(call.body)]
        assert asked == ["gpt-test", *(["claude-test"] if state == "running" else [])]


async def test_an_undo_after_further_prompts_brings_back_all_that_a_spliced_summary_replaced(tmp_path: Path) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await prepared(it, hold)
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(5_000, 5)))
        await it.prompt("Four?", Reply("Fourth answer.", usage=Usage(5_100, 5)))
        assert [shown.statuses for shown in shown_compactions(it.agent)] == [["in_progress", "completed"]]
        before = it.events()
        begun = len(it.agent.lines)
        await it.prompt("/compact undo")
        assert "was undone" in it.agent.text(since=begun)
        assert it.events()[: len(before)] == before
        await it.prompt("Five?", Reply("Fifth answer."))
        first = ["One?", LONG, "Two?", "Second answer.", "Three?", "Third answer.", "Four?", "Fourth answer.", "Five?"]
        assert [said(message) for message in messages(live(it))] == first
        async with connected_agent(home=tmp_path, env=it.env, capabilities=ZED_BETA) as later:
            await later.load(it.session, tmp_path)
            it.answers = [Reply("Sixth answer.")]
            assert await later.prompt(it.session, "Six?") == {"stopReason": "end_turn"}
            assert [said(message) for message in messages(live(it))] == [*first, "Fifth answer.", "Six?"]


async def test_a_compact_that_is_taken_back_while_it_waits_leaves_the_summary_that_is_being_written(
    tmp_path: Path,
) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        pause = anyio.Event()
        it.answers = [Reply(["Second ", "answer."], hold=pause, hold_after=1)]
        turn = await it.agent.start_prompt(it.session, "Two?")
        await it.server.wait_held(2)
        before = it.logged()
        queued = await it.agent.start_prompt(it.session, "/compact")
        await queued.cancel()
        with pytest.raises(AgentError) as error:
            await queued.result()
        assert error.value.code == -32800
        assert it.logged() == before
        pause.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        assert shown_compactions(it.agent) == []
        assert not any("/compact" in data for kind, data in it.events() if kind == "user_prompted")
        hold.set()
        await it.ready()
        await it.prompt("/compact")
        assert [shown.statuses for shown in shown_compactions(it.agent)] == [["in_progress", "completed"]]
        assert it.asked == 1


async def test_a_compact_behind_a_turn_that_is_cancelled_runs_on_what_the_turn_has_left(tmp_path: Path) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        it.answers = [Reply(["Second ", "answer."], hold=anyio.Event(), hold_after=1)]
        turn = await it.agent.start_prompt(it.session, "Two?")
        await it.agent.wait_update("agent_message_chunk", content={"type": "text", "text": "Second "})
        queued = await it.agent.start_prompt(it.session, "/compact")
        await it.agent.cancel(it.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        hold.set()
        assert await queued.result() == {"stopReason": "end_turn"}
        assert [shown.statuses for shown in shown_compactions(it.agent)] == [["in_progress", "completed"]]
        assert it.asked == 1
        await it.prompt("Three?", Reply("Third answer."))
        assert SUMMARY in said(messages(live(it))[0])
        assert whole(it)[1:] == ["Second ", "Three?"]


async def close(agent: AgentProcess, session: str) -> None:
    await agent.request("session/close", {"sessionId": session})


async def end_of_input(agent: AgentProcess, _: str) -> None:
    await agent.close_stdin()
    assert await agent.wait_exit(5) == 0


ENDINGS = pytest.mark.parametrize("end", [close, end_of_input])


@ENDINGS
async def test_an_end_while_a_summary_streams_leaves_a_whole_log_and_no_word_of_trouble(
    tmp_path: Path, end: Callable[[AgentProcess, str], Any]
) -> None:
    summary, _ = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer."))
        await it.server.wait_held()
        before = it.events()
        await end(it.agent, it.session)
        await it.server.wait_aborted()
        assert it.events() == before
        await answered_elsewhere(it, ["One?", LONG, "Two?", "Second answer.", "Three?"])
        assert it.agent.stderr == ""
        assert troubles(tmp_path) == []


@ENDINGS
async def test_an_end_while_a_turn_waits_for_a_summary_ends_the_compaction_once(
    tmp_path: Path, end: Callable[[AgentProcess, str], Any]
) -> None:
    summary, _ = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(OUT_OF_ROOM, 5)))
        await it.server.wait_held()
        before = it.events()
        turn = await it.agent.start_prompt(it.session, "/compact")
        await it.agent.wait_update("compaction_update", status="in_progress")
        await end(it.agent, it.session)
        await it.server.wait_aborted()
        [compaction] = shown_compactions(it.agent)
        if end is close:
            assert await turn.result() == {"stopReason": "cancelled"}
            assert compaction.statuses == ["in_progress", "cancelled"]
        await wait_logged(tmp_path, "turn_ended", 3)
        added = it.events()[len(before) :]
        assert [kind for kind, _ in added] == ["user_prompted", "compaction_failed", "turn_ended"]
        assert '"status":"cancelled"' in json.dumps(json.loads(added[1][1]), separators=(",", ":"))
        assert it.agent.stderr == ""
        assert troubles(tmp_path) == []


async def answered_elsewhere(it: Desk, expected: list[str]) -> None:
    """Another agent goes on with the session, with all of it."""
    it.summaries = [held()[0]]
    it.answers = [Reply("Third answer.")]
    async with connected_agent(home=it.home, env=it.env, capabilities=ZED_BETA) as later:
        await later.load(it.session, it.home)
        assert await later.prompt(it.session, "Three?") == {"stopReason": "end_turn"}
        assert [said(message) for message in messages(live(it))] == expected
        assert asked_last(live(it)) == "Three?"


def troubles(home: Path) -> list[str]:
    """Lines of the agent's log that speak of a failure."""
    names = [logging.getLevelName(level) for level in (logging.ERROR, logging.CRITICAL)]
    files = (home / "state").rglob("acp-agent.log*")
    return [
        line
        for file in files
        for line in file.read_text().splitlines()
        if "Traceback" in line or any(name in line.split() for name in names)
    ]
