"""What counts as the one retry of a turn, and what the user is told where it did not help."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.client import AgentProcess
from support.compactions import shown_compactions
from support.dialogues import check_legal, pieces, system_of, texts
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import ModelServer, Reply, ToolCall, Usage, model_server

MOST = 14_000
STATES = (
    "This model's maximum context length is {most} tokens. However, you requested {all} tokens ({prompt} in the "
    "messages, {answer} in the completion). Please reduce the length of the messages or completion."
)


def size(body: Mapping[str, Any]) -> int:
    """Tokens of a prompt, about, as the server counts them and we do."""
    said = sum(len(piece.text) for piece in pieces(body)) + len(system_of(body))
    return (said + len(json.dumps(body.get("tools", [])))) // 4


def room(body: Mapping[str, Any]) -> int:
    """Tokens that are asked for."""
    return int(body.get("max_tokens") or body["max_completion_tokens"])


def refusal(says: str, body: Mapping[str, Any], most: int = MOST, prompt: int | None = None) -> Reply:
    """A refusal in these words.

    :param prompt: tokens of the prompt; `size` where not given.
    """
    prompt = prompt or size(body)
    text = says.format(prompt=prompt, answer=room(body), all=prompt + room(body), most=most)
    return Reply(http_status=400, body={"error": {"message": text, "type": "invalid_request_error", "code": 400}})


@asynccontextmanager
async def session(
    home: Path, answer: Callable[[Mapping[str, Any]], Reply], window: int = 40_000
) -> AsyncGenerator[tuple[ModelServer, AgentProcess, str]]:
    """A session with a window of this size, as far as the agent knows, in which nothing is prepared."""
    config = {"compaction": {"prepare": False}, "models": {"local/chat-test": {"context_window": window}}}
    (home / "project").mkdir()
    (home / "project" / "big.txt").write_text("A line of the big file.\n" * 3_000)
    async with model_server(answer, "chat") as server:
        server.write_config(home, {"max_output_tokens": 16_000, **config})
        async with agent_in_memory(home=home, env=server.env(), capabilities=ZED_BETA) as agent:
            yield server, agent, await agent.new_session(home / "project")


def windows(agent: AgentProcess) -> list[int]:
    """The meter's window, update by update."""
    return [int(update["size"]) for update in agent.updates(kind="usage_update")]


async def test_a_shorter_answer_is_no_compaction_so_that_a_real_overflow_later_in_the_turn_is_mended(
    tmp_path: Path,
) -> None:
    refused: list[str] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        # Of a result's tokens we count two thirds, so that nothing of ours prevents the refusal.
        prompt = int(size(body) * (1.6 if texts(body, "result") else 1))
        if prompt + room(body) > MOST:
            refused.append("prompt" if prompt > MOST else "answer")
            return refusal(STATES, body, prompt=prompt)
        usage = Usage(prompt, 5)
        if texts(body, "result"):
            return Reply("Done.", usage=usage)
        return Reply("Next.", tool_calls=[ToolCall("read", {"path": "big.txt"})], usage=usage)

    async with session(tmp_path, answer) as (server, agent, its):
        assert await agent.prompt(its, "Read the big file.", 60) == {"stopReason": "end_turn"}
        assert refused == ["answer", "prompt"]
        check_legal(server.calls[-1].body)
        assert windows(agent)[-1] == MOST
        assert {tuple(shown.statuses) for shown in shown_compactions(agent)} == {("in_progress", "completed")}


async def test_a_conversation_that_was_made_short_may_have_less_of_an_answer_asked_for_as_well(tmp_path: Path) -> None:
    asked: list[int] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        if not texts(body, "result"):
            return Reply("Next.", tool_calls=[ToolCall("read", {"path": "big.txt"})], usage=Usage(size(body), 5))
        asked.append(room(body))
        if size(body) > MOST:
            return refusal(STATES, body)
        # It holds less than it says.
        return refusal(STATES, body, size(body) + 2_500) if room(body) > 2_500 else Reply("Done.")

    async with session(tmp_path, answer) as (_, agent, its):
        assert await agent.prompt(its, "Read the big file.", 60) == {"stopReason": "end_turn"}
        assert len(asked) == 3
        assert asked[2] < 2_500 < asked[1]
        assert [shown.statuses for shown in shown_compactions(agent)] == [["in_progress", "completed"]]
