"""A summary that is being prepared, or waits, while something else happens to its session."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.strategies.excerpts import SUMMARY as EXCERPTS
from support.background import LONG, OUT_OF_ROOM, PREPARE, SUMMARY, Desk, held, live, prepared
from support.client import AgentError, AgentProcess
from support.compactions import messages, said, shown_compactions
from support.editors import ZED_BETA
from support.memory import agent_in_memory, desk
from support.models import Reply, Usage
from support.stored import wait_logged

SMALL = {
    "models": {"openai/gpt-test": {"context_window": 20_000}, "openai/small-test": {"context_window": 13_000}},
}


def whole(it: Desk) -> list[str]:
    return [said(message).splitlines()[-1] for message in messages(live(it))]


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
        async with agent_in_memory(home=tmp_path, env=it.env, capabilities=ZED_BETA) as other:
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
        assert told == ["before overflow", *([] if vetoed else ["after overflow", "turn_end And now this."])]


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
        async with agent_in_memory(home=tmp_path, env=it.env, capabilities=ZED_BETA) as later:
            await later.load(it.session, tmp_path)
            it.answers = [Reply("Sixth answer.")]
            assert await later.prompt(it.session, "Six?") == {"stopReason": "end_turn"}
            assert [said(message) for message in messages(live(it))] == [*first, "Fifth answer.", "Six?"]


async def close(agent: AgentProcess, session: str) -> None:
    await agent.request("session/close", {"sessionId": session})


async def end_of_input(agent: AgentProcess, _: str) -> None:
    await agent.close_stdin()
    assert await agent.wait_exit(5) == 0


ENDINGS = pytest.mark.parametrize("end", [close, end_of_input])


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
