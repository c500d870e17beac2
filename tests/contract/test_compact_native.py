"""The provider's own compaction, from `/compact` to the requests that follow, with a text for every other provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentProcess, connected_agent
from support.compactions import messages, said, shown_compactions
from support.editors import ZED_BETA
from support.models import MODELS, DialectName, ModelServer, Reply, Request, model_server

BETA = "compact-2026-09-04"
LONG = "The cart adds prices. " * 200
NATIVE: dict[str, Any] = {"compaction": {"strategy": "native", "prepare": False}}

ANTHROPIC, OPENAI = f"anthropic/{MODELS['anthropic']}", f"openai/{MODELS['openai']}"


@asynccontextmanager
async def session_with(
    home: Path, server: ModelServer, config: Mapping[str, Any] = NATIVE, env: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[AgentProcess, str]]:
    """A session that may use all providers, with the server's dialect as its model's."""
    every = {**server.env("openai"), **server.env("anthropic"), **server.env()}
    server.write_config(home, config)
    async with connected_agent(home=home, env={**every, **(env or {})}, capabilities=ZED_BETA) as agent:
        yield agent, await agent.new_session(home)


def blocks(call: Request) -> list[dict[str, Any]]:
    """Anthropic's compactions in a request."""
    return [
        block
        for message in call.body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "compaction"
    ]


def items(call: Request) -> list[dict[str, Any]]:
    """OpenAI's compactions in a request."""
    return [item for item in call.body["input"] if item.get("type") == "compaction"]


async def test_anthropics_block_is_sent_back_first_and_another_provider_reads_its_text(tmp_path: Path) -> None:
    script = [Reply(LONG), Reply("A shop for bread."), Reply("Cakes."), Reply("Here."), Reply("Back.")]
    async with model_server(script) as server, session_with(tmp_path, server) as (agent, session):
        await agent.prompt(session, "One?")
        await agent.prompt(session, "/compact keep the bread")
        [compaction] = shown_compactions(agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], "A shop for bread.")
        await agent.prompt(session, "Two?")
        await agent.set_config_option(session, "model", OPENAI)
        await agent.prompt(session, "Three?")
        await agent.set_config_option(session, "model", ANTHROPIC)
        await agent.prompt(session, "Four?")

    asked, after, elsewhere, again = server.calls[1:]
    assert asked.headers["anthropic-beta"] == BETA
    assert asked.body["compaction"]["type"] == "summarize"
    assert "keep the bread" in asked.body["compaction"]["instructions"]
    for call in (after, again):
        assert call.headers["anthropic-beta"] == BETA
        assert call.body["messages"][0]["content"] == blocks(call)
        assert [block["content"] for block in blocks(call)] == ["A shop for bread."]
    assert elsewhere.path == "/v1/responses"
    assert elsewhere.mentions("A shop for bread.")
    assert "signature" not in json.dumps(elsewhere.body)
    assert [said(message) for message in messages(elsewhere.body)][-1] == "Three?"


async def test_the_block_survives_a_restart_and_is_compacted_again_with_what_came_since(tmp_path: Path) -> None:
    script = [Reply(text) for text in (LONG, "One shop.", "Cakes.", f"Two. {LONG}", "Two shops.", "End.")]
    async with model_server(script) as server:
        async with session_with(tmp_path, server) as (agent, session):
            await agent.prompt(session, "One?")
            await agent.prompt(session, "/compact")
            await agent.prompt(session, "Two?")
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            await agent.resume(session, tmp_path)
            await agent.prompt(session, "Three?")
            await agent.prompt(session, "/compact")
            await agent.prompt(session, "Four?")
    before, after = blocks(server.calls[2]), blocks(server.calls[3])
    assert before == after != []
    assert blocks(server.calls[4]) == before
    assert "compaction" in server.calls[4].body
    assert [block["content"] for block in blocks(server.calls[5])] == ["Two shops."]


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_undo_brings_the_messages_back_in_place_of_the_block(tmp_path: Path, dialect: DialectName) -> None:
    script = [Reply(LONG), Reply("A shop."), Reply("Two."), Reply("Three.")]
    async with model_server(script, dialect) as server, session_with(tmp_path, server) as (agent, session):
        await agent.prompt(session, "One?")
        await agent.prompt(session, "/compact")
        await agent.prompt(session, "Two?")
        await agent.prompt(session, "/compact undo")
        await agent.prompt(session, "Three?")
    last = server.calls[-1]
    texts = [said(message).strip() for message in messages(last.body)]
    assert texts == ["One?", LONG.strip(), "Two?", "Two.", "Three?"]
    assert (blocks(last) if dialect == "anthropic" else items(last)) == []
    assert "anthropic-beta" not in last.headers
