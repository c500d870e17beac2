"""One compaction on every kind of API: what the model server was asked, and what the user saw."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from support.client import AgentProcess, connected_agent
from support.compactions import RECIPE_TEXT, TERMINAL, shown_compactions
from support.dialogues import asks_for_summary, check_continues, check_legal, pieces, system_of, texts
from support.editors import ZED_BETA
from support.models import ModelServer, Reply, Request, ToolCall, model_server

How = Literal["manual", "automatic", "overflow"]
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5", "google": "gemini-3-flash"}
WINDOW = 40_000
LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
SUMMARY = ["# Goal and requirements\nA cart ", "that adds prices.\n", "# Open work\nThe tax."]
FILE = "prices.txt"

TAKES = 15_000
"""Tokens that the provider takes all of a sudden."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A session that is long enough to be compacted."""

    agent: AgentProcess
    server: ModelServer
    session: str


@asynccontextmanager
async def talk(tmp_path: Path, dialect: Any, turns: int) -> AsyncGenerator[Talk, None]:
    """Some turns: in the first a file is read, in each the model thinks and answers at length."""
    (tmp_path / FILE).write_text("1.00\n2.00\n")
    read = ToolCall("read", {"path": str(tmp_path / FILE)})

    def answer(body: Mapping[str, Any]) -> Reply:
        if asks_for_summary(body):
            return Reply(SUMMARY)
        if texts(body)[-1] == "Question 1?" and not texts(body, "result"):
            return Reply("Let me look.", thinking="A file.", tool_calls=[read])
        if texts(body)[-1].endswith("And now?"):
            return Reply("Now it is well.")
        return Reply(f"Answer to {texts(body)[-1]} {LONG}", thinking="Prices.")

    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}
    async with model_server(answer, dialect) as server:
        server.write_config(tmp_path, {"thought_level": "low", "compaction": {"prepare": False, "wait": True}})
        env |= server.env() | {"ACP_AGENT_MODEL": f"{dialect}/{MODELS[dialect]}"}
        async with connected_agent(home=tmp_path, env=env, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            for turn in range(1, turns + 1):
                assert await agent.prompt(session, f"Question {turn}?") == {"stopReason": "end_turn"}
            assert shown_compactions(agent) == []
            yield Talk(agent, server, session)


async def compact(talk: Talk, how: How) -> None:
    """Compact in one way, and ask "And now?" on the new context."""
    if how == "manual":
        assert await talk.agent.prompt(talk.session, "/compact") == {"stopReason": "end_turn"}
    elif how == "overflow":
        talk.server.max_prompt_tokens = TAKES
    assert await talk.agent.prompt(talk.session, "And now?") == {"stopReason": "end_turn"}


def turns_for(how: How) -> int:
    """After so many turns a compaction is due."""
    return 5 if how == "automatic" else 3


@pytest.mark.parametrize("dialect", list(MODELS))
@pytest.mark.parametrize("how", ["manual", "automatic", "overflow"])
async def test_a_compaction_is_shown_once_and_the_next_request_is_the_compacted_one(
    tmp_path: Path, dialect: str, how: How
) -> None:
    async with talk(tmp_path, dialect, turns_for(how)) as it:
        begun, asked = len(it.agent.lines), len(it.server.calls)
        used = [update["used"] for update in it.agent.updates(kind="usage_update")]
        await compact(it, how)

        [shown] = shown_compactions(it.agent)
        assert shown.text == shown.chunks == "".join(SUMMARY)
        assert shown.statuses[0] == "in_progress"
        assert [status for status in shown.statuses if status in TERMINAL] == ["completed"]
        [first, *_] = it.agent.updates(kind="usage_update", since=shown.lines[-1].index)
        assert 0 < first["used"] < used[-1]
        assert it.agent.text(since=begun).endswith("Now it is well.")
        check_new_context(it, how)
        if how == "overflow":
            check_shortened(it.server.calls[asked:])
        else:
            check_prefix(it, dialect, how, it.server.calls[asked - 1].body)


def check_new_context(it: Talk, how: How) -> None:
    """What the model was asked after the compaction."""
    before, after = it.server.calls[0].body, it.server.calls[-1].body
    check_legal(after)
    assert system_of(after) == system_of(before)
    assert after["tools"] == before["tools"]
    layers = "\n".join(texts(after))
    places = [layers.index(layer) for layer in ("<carried_over>", "<conversation_summary>", "<recorded_excerpts>")]
    assert pieces(after)[0].role == "user"
    assert places == sorted(places)
    assert "".join(SUMMARY) in layers
    assert FILE in layers[places[2] :]
    assert texts(after)[-1].endswith("And now?")
    # What is small enough of the newest messages stays word for word; nothing as long as an answer does.
    assert texts(after, "assistant") == []
    assert LONG not in layers
    assert not it.server.calls[-1].mentions(RECIPE_TEXT)


def check_prefix(it: Talk, dialect: str, how: How, live: Mapping[str, Any]) -> None:
    """The summary is asked for with the live request and one message more.

    :param live: the last request before the compaction, which the provider has in its cache.
    """
    [asked] = [call.body for call in it.server.calls if asks_for_summary(call.body)]
    check_continues(asked, live)
    check_legal(asked)
    said = [piece.role for piece in pieces(asked)[len(pieces(live)) :] if piece.role != "thinking"]
    # The prompt that waits for its answer is part of the history; Chat Completions takes both as one message.
    assert said == ["assistant", *(["user"] if dialect == "google" or how == "manual" else ["user", "user"])]
    assert asked.get("tool_choice") == live.get("tool_choice")
    thinking = {"anthropic": "thinking", "openai": "reasoning", "google": "reasoning_effort"}[dialect]
    assert asked[thinking] == live[thinking]
    assert live[thinking]


def check_shortened(calls: Sequence[Request]) -> None:
    """The refused request, then the summary of what does not fit in one call that does, then the prompt again."""
    refused, asked, after = calls
    assert texts(refused.body)[-1] == texts(after.body)[-1].split("\n\n")[-1] == "And now?"
    assert "<recorded_excerpts>" in "".join(texts(asked.body))
    assert system_of(asked.body) == system_of(refused.body)
    assert asked.body["tools"] == refused.body["tools"]
    check_legal(asked.body)
    assert max(sum(map(len, call.strings())) // 4 for call in (asked, after)) <= TAKES
