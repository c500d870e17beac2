"""After three summaries that failed no model is asked for one, except by somebody who wants it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.strategies.deterministic import LEDGER_SUMMARY
from support.client import AgentError, AgentProcess, connected_agent
from support.compactions import shown_compactions
from support.dialogues import asks_for_summary, texts
from support.editors import ZED_BETA
from support.models import Reply, Usage, model_server

LONG = "The cart adds prices. " * 900
FINISH = "---\nhooks:\n  turn_end: {handler: compact}\n---\nFinish it.\n"
TAKES = 9_000


@dataclass(slots=True)
class Desk:
    """A session whose summaries fail.

    :ivar counted: tokens that the provider reports; None for a count that is right.
    :ivar strict: whether it refuses what is too long.
    :ivar locked: whether it refuses the key.
    :ivar asked: how often a summary was asked for.
    """

    agent: AgentProcess
    session: str = ""
    counted: int | None = None
    strict: bool = False
    locked: bool = False
    asked: int = 0

    async def prompt(self, text: str) -> None:
        """A turn that goes well."""
        assert await self.agent.prompt(self.session, text, 30) == {"stopReason": "end_turn"}

    def notices(self) -> list[str]:
        """What the user was told beside the answers."""
        return [str(update) for update in self.agent.updates(kind="notice")]


@asynccontextmanager
async def desk(home: Path) -> AsyncGenerator[Desk]:
    """A session with three long answers in it."""
    it: Desk | None = None

    def answer(body: Mapping[str, Any]) -> Reply:
        assert it is not None
        if asks_for_summary(body):
            it.asked += 1
            return Reply("")
        if it.locked:
            error = {"type": "authentication_error", "message": "invalid x-api-key"}
            return Reply(http_status=401, body={"type": "error", "error": error})
        tokens = len(str(body)) // 4
        if it.strict and tokens > TAKES:
            error = {
                "type": "invalid_request_error",
                "message": f"prompt is too long: {tokens} tokens > {TAKES} maximum",
            }
            return Reply(http_status=400, body={"type": "error", "error": error})
        return Reply(LONG if "Question" in texts(body)[-1] else "Well.", usage=Usage(it.counted or tokens, 300))

    recipes = home / "state" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "finish.md").write_text(FINISH)
    async with model_server(answer, "anthropic") as server:
        server.write_config(home, {"compaction": {"prepare": False}})
        env = server.env() | {"ACP_AGENT_CONTEXT_WINDOW": "40000"}
        async with connected_agent(home=home, env=env, capabilities=ZED_BETA) as agent:
            it = Desk(agent)
            it.session = await agent.new_session(home)
            for number in (1, 2, 3):
                await it.prompt(f"Question {number}?")
            yield it


async def fail(it: Desk, times: int) -> None:
    """Have so many summaries fail at the threshold, which is not reached any more afterwards."""
    it.counted = 26_000
    for number in range(times):
        await it.prompt(f"Well {number}.")
    it.counted = None
    await it.prompt("Well, well.")
    assert it.asked == times


async def test_a_refusal_asks_no_model_either_once_three_summaries_have_failed(tmp_path: Path) -> None:
    async with desk(tmp_path) as it:
        await fail(it, 3)
        it.strict = True
        await it.prompt("And now?")
        assert it.asked == 3
        assert (shown_compactions(it.agent)[-1].statuses, shown_compactions(it.agent)[-1].text) == (
            ["in_progress", "completed"],
            LEDGER_SUMMARY,
        )


async def test_a_summary_that_fails_after_a_refusal_counts_as_well(tmp_path: Path) -> None:
    async with desk(tmp_path) as it:
        await fail(it, 2)
        assert it.notices() == []
        it.strict = True
        await it.prompt("And now?")
        assert it.asked > 2
        [notice] = it.notices()
        assert "3 times in a row" in notice


async def test_a_recipe_that_asks_for_a_compaction_has_a_model_asked_all_the_same(tmp_path: Path) -> None:
    async with desk(tmp_path) as it:
        await fail(it, 3)
        shown = len(shown_compactions(it.agent))
        await it.prompt("/finish")
        assert it.asked == 4
        [failed] = shown_compactions(it.agent)[shown:]
        assert failed.statuses == ["in_progress", "failed"]
        assert "empty summary" in failed.text


async def test_a_model_is_asked_again_once_the_settings_were_read_anew_since_a_key_was_refused(tmp_path: Path) -> None:
    async with desk(tmp_path) as it:
        await fail(it, 3)
        it.locked = True
        with pytest.raises(AgentError):
            await it.prompt("Who is there?")
        it.locked = False
        it.counted = 26_000
        await it.prompt("And now?")
        await it.prompt("Go on.")
        assert it.asked == 4
