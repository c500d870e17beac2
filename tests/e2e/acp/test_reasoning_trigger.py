"""OpenAI compacts by an item at the end of an ordinary request, or in another way if it
does not take the item.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.client import connected_agent
from support.compactions import shown_compactions
from support.models import BEFORE_HEADERS, Reply
from support.reasoning import (
    PROSE,
    SUMMARY,
    Thinking,
    asks_to_compact,
    compaction,
    compaction_blocks,
    thinking,
)

NATIVE = compaction(strategy="native")
SECRET = "An answer in place of a compaction."
REFUSED = {
    "error": {
        "message": "Invalid value: 'compaction_trigger'.",
        "type": "invalid_request_error",
    }
}


def ways(it: Thinking) -> list[str]:
    """How the provider was asked to compact, each time."""
    asked = [call for call in it.server.calls if asks_to_compact(call)]
    return ["path" if call.path.endswith("/compact") else "trigger" for call in asked]


async def compacted(it: Thinking) -> None:
    await it.say("/compact")
    assert shown_compactions(it.stage.agent)[-1].statuses[-1] == "completed"


def refused_features(it: Thinking) -> list[tuple[str, str]]:
    return [
        (event["model"], event["feature"]) for event in it.events("feature_refused")
    ]


async def test_a_compaction_reads_the_session_from_the_cache_and_its_trigger_is_sent_once_only(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "openai", config=NATIVE) as it:
        await it.grow()
        await compacted(it)
        before = it.turns[-1].body
        [number] = [
            number
            for number, call in enumerate(it.server.calls, 1)
            if asks_to_compact(call)
        ]
        asked = it.server.calls[number - 1].body
        sent = asked["input"][:-1]
        assert asked["input"][-1] == {"type": "compaction_trigger"}
        assert sent == before["input"][: len(sent)]
        assert asked["tools"] == before["tools"]
        assert asked["prompt_cache_key"] == before["prompt_cache_key"]
        [cached] = [each for each in it.server.cached if each.call == number]
        assert cached.fresh < cached.read / 50
        [swap] = it.events("context_swapped")
        assert swap["usage"]["cache_read_tokens"] == cached.read
        await it.loop("And now?", 2)
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert len(compaction_blocks(later.last.body)) == 1
            await compacted(later)
            await later.loop(calls=1)
            assert len(compaction_blocks(later.last.body)) == 1
        assert ways(it) == ["trigger", "trigger"]
        triggered = [
            call for call in it.server.calls if call.mentions("compaction_trigger")
        ]
        assert len(triggered) == 2
        assert refused_features(it) == []


FAILING: dict[str, Reply] = {
    "refused": Reply(http_status=400, body=REFUSED),
    "ignored": Reply(SECRET, compactions=0),
    "doubled": Reply(SUMMARY, compactions=2),
}


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
async def test_a_trigger_that_brings_no_compaction_is_not_sent_again_in_this_session_and_its_answer_not_shown(
    tmp_path: Path, failing: Reply
) -> None:
    async with thinking(tmp_path, "openai", config=NATIVE) as it:
        it.model.triggered = [failing]
        await it.grow()
        await compacted(it)
        assert ways(it) == ["trigger", "path"]
        assert refused_features(it) == [(it.server.model, "trigger")]
        assert SECRET not in it.warnings()
        assert SECRET not in str(it.stage.agent.updates())
        await it.loop("And now?", 2)
        kept = it.kept()
        assert kept > 3
        assert not it.last.mentions(SECRET)
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert later.kept() == kept + 2
            await compacted(later)
            await later.loop(calls=1)
        assert ways(it) == ["trigger", "path", "path"]
        # Another session asks anew.
        other = await it.stage.agent.new_session(it.stage.folder)
        for prompt in ("Look", "Look again", "/compact"):
            await it.stage.agent.prompt(other, prompt)
        assert ways(it)[-1] == "trigger"


async def test_what_an_ordinary_answer_in_place_of_a_compaction_cost_is_in_the_receipt_s_sum(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "openai", config=NATIVE) as it:
        await it.grow()
        it.model.triggered = [Reply(SUMMARY, compactions=2)]
        await compacted(it)
        [swap] = it.events("context_swapped")
        wasted, path = [
            each
            for each in it.server.cached
            if asks_to_compact(it.server.calls[each.call - 1])
        ]
        usage = swap["usage"]
        assert usage["cache_read_tokens"] == wasted.read + path.read
        assert usage["input_tokens"] == wasted.fresh + path.fresh


async def test_a_compaction_whose_stream_is_cut_is_asked_for_once_more(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "openai", config=NATIVE) as it:
        await it.grow()
        it.model.triggered = [Reply(SUMMARY, drop_after=1)]
        await compacted(it)
        it.model.says = PROSE
        await it.loop("And now?", 2)
        await it.grow()
        async with it.restarted() as later:
            await compacted(later)
            await later.loop(calls=1)
        assert ways(it) == ["trigger", "trigger", "trigger"]
        assert refused_features(it) == []


async def test_a_cancelled_compaction_leaves_the_conversation_as_it_was(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "openai", config=NATIVE) as it:
        await it.grow()
        it.model.triggered = [Reply(SUMMARY, hold=anyio.Event(), hold_after=0)]
        turn = await it.stage.agent.start_prompt(it.stage.session, "/compact")
        await it.stage.held()
        await it.stage.agent.cancel(it.stage.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        await it.server.wait_aborted()
        assert it.events("context_swapped") == []
        kept = it.kept()
        await it.loop(calls=1)
        assert it.kept() == kept + 2
        await compacted(it)
        await it.loop(calls=1)
        assert ways(it) == ["trigger", "trigger"]


@pytest.mark.process
async def test_a_session_that_is_killed_between_the_two_ways_compacts_after_its_restart(
    tmp_path: Path,
) -> None:
    async with thinking(
        tmp_path, "openai", connect=connected_agent, config=NATIVE
    ) as it:
        await it.grow()
        it.model.triggered = [FAILING["ignored"]]
        it.model.native = Reply(SUMMARY, hold=anyio.Event(), hold_after=BEFORE_HEADERS)
        await it.stage.agent.start_prompt(it.stage.session, "/compact")
        await it.stage.held()
        it.stage.agent.kill()
        await it.stage.agent.wait_exit()
        it.stage.agent.problems.clear()
        it.model.native = None
        async with it.restarted() as later:
            await compacted(later)
            await later.loop(calls=1)
            assert later.kept() > 2


async def test_an_automatic_compaction_asks_by_the_trigger_too(tmp_path: Path) -> None:
    async with thinking(
        tmp_path,
        "openai",
        env={"ACP_AGENT_CONTEXT_WINDOW": "20000"},
        config=compaction(),
    ) as it:
        it.model.says = "The cart adds prices. " * 400
        while not it.events("context_swapped"):
            await it.loop("Question?", 1)
        assert set(ways(it)) == {"trigger"}
        it.model.says = "Short."
        await it.loop("And now?", 1)
        assert it.kept() > 1
