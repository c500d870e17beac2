"""The provider's own compaction, from `/compact` to the requests that follow, with a text for every other provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentProcess
from support.compactions import asked_last, is_summary_request, shown_compactions
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import MODELS, ModelServer, Reply, Request, Usage, model_server

LONG = "The cart adds prices. " * 200
NATIVE: dict[str, Any] = {"compaction": {"strategy": "native", "prepare": False, "wait": True}}
WINDOW = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
ANTHROPIC, OPENAI = f"anthropic/{MODELS['anthropic']}", f"openai/{MODELS['openai']}"


@asynccontextmanager
async def session_with(
    home: Path, server: ModelServer, config: Mapping[str, Any] = NATIVE, env: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[AgentProcess, str]]:
    """A session that may use all providers, with the server's dialect as its model's."""
    every = {**server.env("openai"), **server.env("anthropic"), **server.env()}
    server.write_config(home, config)
    async with agent_in_memory(home=home, env={**every, **(env or {})}, capabilities=ZED_BETA) as agent:
        yield agent, await agent.new_session(home)


def items(call: Request) -> list[dict[str, Any]]:
    """OpenAI's compactions in a request."""
    return [item for item in call.body["input"] if item.get("type") == "compaction"]


async def test_openais_items_are_sent_back_and_another_provider_reads_the_summary_of_a_second_request(
    tmp_path: Path,
) -> None:
    script = [
        Reply(LONG),
        Reply("hidden", usage=Usage(900, 50)),
        Reply("# Goal\nBread.", usage=Usage(100, 20, cache_read=900)),
        Reply("Cakes."),
        Reply("Here."),
        Reply("Back."),
    ]
    async with model_server(script, "openai") as server, session_with(tmp_path, server) as (agent, session):
        await agent.prompt(session, "One?")
        await agent.prompt(session, "/compact")
        [compaction] = shown_compactions(agent)
        assert (compaction.statuses[-1], compaction.text) == ("completed", "# Goal\nBread.")
        await agent.prompt(session, "Two?")
        await agent.set_config_option(session, "model", ANTHROPIC)
        await agent.prompt(session, "Three?")
        await agent.set_config_option(session, "model", OPENAI)
        await agent.prompt(session, "Four?")

    asked, summarised, after, elsewhere, again = server.calls[1:]
    assert asked.path == "/v1/responses/compact"
    assert is_summary_request(summarised.body)
    made = items(after)
    assert len(made) == 1
    for call in (after, again):
        assert items(call) == made
        assert call.body["input"].index(made[0]) == 1  # behind the user's own message, as the API gave it
        assert not call.mentions("# Goal\nBread.")
    assert elsewhere.path == "/v1/messages"
    assert elsewhere.mentions("# Goal\nBread.")
    assert not elsewhere.mentions("sealed-")
    assert asked_last(elsewhere.body) == "Three?"


def occurrences(call: Request, text: str) -> int:
    return json.dumps(call.body, ensure_ascii=False).count(text)


async def test_what_openai_compacts_holds_no_layer_of_ours_and_the_users_words_reach_every_provider(
    tmp_path: Path,
) -> None:
    script = [Reply(LONG)]
    for _ in range(3):
        script += [Reply("hidden"), Reply("# Goal\nBread."), Reply(LONG)]
    async with model_server(script, "openai") as server, session_with(tmp_path, server) as (agent, session):
        await agent.prompt(session, "/pin Rye alone.")
        await agent.prompt(session, "Which flour is the oldest?")
        await agent.prompt(session, "/compact")
        await agent.prompt(session, "Two? Never sell cakes.")
        await agent.prompt(session, "/unpin 1")
        await agent.prompt(session, "/compact")
        await agent.prompt(session, "Three?")
        await agent.prompt(session, "/compact")
        await agent.set_config_option(session, "model", ANTHROPIC)
        await agent.prompt(session, "Four?")
    assert [compaction.statuses[-1] for compaction in shown_compactions(agent)] == ["completed"] * 3
    first, _, after_one, second, _, after_two, third, _, elsewhere = server.calls[1:]
    for call in (first, second, third):
        assert call.path == "/v1/responses/compact"
        assert not call.mentions("<carried_over>")
        assert not call.mentions("<recorded_excerpts>")
    assert occurrences(after_one, "Rye alone.") == 1
    for call in (after_one, after_two):
        assert occurrences(call, "<carried_over>") == 1
        assert call.mentions("Which flour is the oldest?")
    # It was taken back, which is all that is said of it.
    assert occurrences(after_two, "Rye alone.") == after_two.mentions("it does not hold any more:\n\nRye alone.") == 1
    for call in (third, elsewhere):
        assert not call.mentions("Rye alone.")
    assert elsewhere.path == "/v1/messages"
    for request in ("Which flour is the oldest?", "Three?"):
        assert elsewhere.mentions(request)
    assert elsewhere.mentions("Never sell cakes.")


@pytest.mark.parametrize("prepare", [False, 0.3], ids=["waited for", "in the background"])
async def test_a_provider_without_a_compaction_of_its_own_gets_a_summary_when_one_is_due(
    tmp_path: Path, prepare: float | bool
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        asked = str(body["messages"][-1]["content"])
        if "Write the summary" in asked:
            return Reply("# Goal\nBread.", usage=Usage(13_100, 20))
        compacted = "Bread." in str(body["messages"])
        return Reply("Done." if "Two?" in asked else LONG * 10, usage=Usage(900 if compacted else 13_000, 5))

    config = {"compaction": {"strategy": "native", "prepare": prepare, "wait": not prepare}}
    async with (
        model_server(answer, "google") as server,
        session_with(tmp_path, server, config, WINDOW) as (agent, session),
    ):
        await agent.prompt(session, "One?")
        with anyio.fail_after(20):
            while not shown_compactions(agent):
                await agent.prompt(session, "Two?")
        [compaction] = shown_compactions(agent)
    assert (compaction.statuses[-1], compaction.text) == ("completed", "# Goal\nBread.")
    assert "no compaction of its own" in compaction.receipt
