"""A provider that takes less than is known of its model: its refusal teaches the window, with its number or without."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentProcess
from support.compactions import shown_compactions
from support.dialects import CALLS
from support.dialogues import asks_for_summary, check_legal, texts
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import DialectName, ModelServer, Reply, model_server

TAKES = 9_000
"""Tokens that the provider takes."""
LONG = "The cart adds prices. " * 400
"""About 2,200 tokens."""
SUMMARY = "# Goal and requirements\nA cart that adds prices."


@dataclass(frozen=True, slots=True)
class Kind:
    """A provider.

    :ivar known: tokens of the window before the first refusal: stated, or from the table.
    :ivar states: whether the refusal has the number.
    """

    dialect: DialectName
    model: str
    known: int
    states: bool = True


KINDS = {
    "anthropic": Kind("anthropic", "anthropic/claude-sonnet-4-5", 200_000),
    "openai": Kind("openai", "openai/gpt-5", 400_000, states=False),
}


def size(body: Mapping[str, Any]) -> int:
    """Tokens of a request, about, as the server counts them."""
    return len(json.dumps(body)) // 4


@dataclass(slots=True)
class Talk:
    """An open session, and a provider that can be made to take less."""

    agent: AgentProcess
    server: ModelServer
    session: str
    strict: bool = False

    def windows(self, since: int = 0) -> list[int]:
        """The meter's window, update by update."""
        return [int(update["size"]) for update in self.agent.updates(kind="usage_update", since=since)]

    def used(self) -> int:
        """What the meter showed last."""
        return int(self.agent.updates(kind="usage_update")[-1]["used"])

    async def ask(self, question: str = "Go on.") -> None:
        """A turn that goes well."""
        assert await self.agent.prompt(self.session, question, 60) == {"stopReason": "end_turn"}


@asynccontextmanager
async def talking(tmp_path: Path, kind: Kind) -> AsyncGenerator[Talk, None]:
    """A session with an agent that knows a larger window than there is."""
    talk: Talk | None = None

    def answer(body: Mapping[str, Any]) -> Reply:
        if talk is not None and talk.strict and size(body) > TAKES:
            return refusal(kind, size(body))
        return Reply(SUMMARY if asks_for_summary(body) else f"Answer to {texts(body)[-1][-40:]} {LONG}")

    async with model_server(answer, kind.dialect, context_window=200_000) as server:
        server.write_config(tmp_path, {"compaction": {"prepare": False}})
        env = server.env() | {"ACP_AGENT_MODEL": kind.model}
        async with agent_in_memory(home=tmp_path, env=env, capabilities=ZED_BETA) as agent:
            talk = Talk(agent, server, await agent.new_session(tmp_path))
            yield talk


def refusal(kind: Kind, asked: int) -> Reply:
    """What the provider says to a request that is too long."""
    path = {"anthropic": "/v1/messages", "openai": "/v1/responses"}[kind.dialect]
    status, body = CALLS[path].overflow(asked, TAKES)
    return Reply(http_status=status, body=body)


async def fill(it: Talk) -> None:
    """Turns that together are more than the provider will take."""
    while not it.server.calls or size(it.server.calls[-1].body) < TAKES:
        await it.ask()
    assert shown_compactions(it.agent) == []


@pytest.mark.parametrize("name", KINDS)
async def test_the_meter_and_the_next_compactions_follow_what_a_refusal_says(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    async with talking(tmp_path, kind) as it:
        await fill(it)
        assert set(it.windows()) == {kind.known}
        used, begun = it.used(), len(it.agent.lines)
        it.strict, asked = True, len(it.server.calls)
        await it.ask("And now?")
        first, *_, again = [call.body for call in it.server.calls[asked:]]
        assert texts(first)[-1] == "And now?"
        assert texts(again)[-1].endswith("And now?")
        check_legal(again)

        [learned] = set(it.windows(begun))
        if kind.states:
            assert learned == TAKES
        else:
            # A little less than what was refused, or what it had taken before.
            assert 0.9 * used < learned <= used

        # The threshold follows: it is compacted in time, and no turn's request is refused again.
        settled, compacted = len(it.server.calls), len(shown_compactions(it.agent))
        for _ in range(6):
            await it.ask()
        later = [call.body for call in it.server.calls[settled:]]
        # Where the number is not known, a summary request may still be too long; the model is then asked in parts.
        assert not [body for body in later if size(body) > TAKES and (kind.states or not asks_for_summary(body))]
        assert len(shown_compactions(it.agent)) > compacted
        assert set(it.windows(begun)) == {learned}


async def test_a_limit_that_is_learned_of_one_model_holds_for_no_other(tmp_path: Path) -> None:
    async with talking(tmp_path, KINDS["anthropic"]) as it:
        await fill(it)
        it.strict = True
        await it.ask("And now?")
        it.strict = False
        begun = len(it.agent.lines)
        await it.agent.set_config_option(it.session, "model", "anthropic/claude-haiku-4-5")
        await it.ask()
        assert it.windows(begun)[-1] == 200_000
        begun = len(it.agent.lines)
        await it.agent.set_config_option(it.session, "model", "anthropic/claude-sonnet-4-5")
        await it.ask()
        assert it.windows(begun)[-1] == TAKES
