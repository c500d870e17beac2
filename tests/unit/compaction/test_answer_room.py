"""Refusals because there is no room for the answer: the output limit is lowered, and
the learned window is not too small.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, AgentProcess
from support.compactions import shown_compactions
from support.dialogues import texts
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import MODELS, ModelServer, Reply, Usage, model_server

LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
CHAT = (
    "This model's maximum context length is {most} tokens. However, you requested {all} tokens ({prompt} in the "
    "messages, {answer} in the completion). Please reduce the length of the messages or completion."
)
SAYS: dict[str, tuple[Any, str]] = {
    "anthropic": (
        "anthropic",
        "input length and `max_tokens` exceed context limit: {prompt} + {answer} > {most}",
    ),
    "vllm": ("chat", CHAT),
    "no number of the prompt": (
        "chat",
        "This model's maximum context length is {most} tokens.",
    ),
}


def size(body: Mapping[str, Any]) -> int:
    """Return the approximate tokens of a prompt, as the server counts them."""
    return (
        len(str(body.get("messages") or body["input"])) // 4
        + len(str(body.get("tools"))) // 4
    )


def room(body: Mapping[str, Any]) -> int:
    """Return the requested output limit in tokens."""
    return int(body.get("max_tokens") or body["max_completion_tokens"])


def refusal(says: str, prompt: int, answer: int, most: int) -> Reply:
    """Return a refusal with this message."""
    text = says.format(prompt=prompt, answer=answer, all=prompt + answer, most=most)
    return Reply(
        http_status=400,
        body={"error": {"message": text, "type": "invalid_request_error", "code": 400}},
    )


@asynccontextmanager
async def session(
    home: Path,
    dialect: Any,
    answer: Callable[[Mapping[str, Any]], Reply],
    **config: Any,
) -> AsyncGenerator[tuple[ModelServer, AgentProcess, str]]:
    """Return a session without background summaries."""
    async with model_server(answer, dialect) as server:
        server.write_config(home, {"compaction": {"prepare": False}, **config})
        async with agent_in_memory(
            home=home, env=server.env(), capabilities=ZED_BETA
        ) as agent:
            yield server, agent, await agent.new_session(home)


def windows(agent: AgentProcess) -> list[int]:
    """Return the window in each update of the usage meter."""
    return [int(update["size"]) for update in agent.updates(kind="usage_update")]


@pytest.mark.parametrize("says", SAYS)
async def test_a_prompt_that_fits_is_resent_unchanged_with_a_lower_output_limit(
    tmp_path: Path, says: str
) -> None:
    most, (dialect, words) = 8_192, SAYS[says]

    def answer(body: Mapping[str, Any]) -> Reply:
        if size(body) + room(body) > most:
            return refusal(words, size(body), room(body), most)
        return Reply("Hello.", usage=Usage(size(body), 5))

    async with session(tmp_path, dialect, answer) as (server, agent, its):
        assert await agent.prompt(its, "Hello?") == {"stopReason": "end_turn"}
        refused, again = [call.body for call in server.calls]
        assert texts(refused) == texts(again)
        assert 1_000 < room(again) < room(refused)
        for _ in range(3):
            assert await agent.prompt(its, "And now?") == {"stopReason": "end_turn"}
        assert len(server.calls) == 5, "what was learned is known in the next turns"
        assert set(windows(agent)) == {most}
        assert shown_compactions(agent) == []


@pytest.mark.parametrize(
    "said", [LONG, "Fine."], ids=["compacted", "nothing to compact"]
)
async def test_a_cut_off_answer_never_implies_a_window_smaller_than_its_usage(
    tmp_path: Path, said: str
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if "story" in texts(body)[-1]:
            return Reply(
                ["Once upon a time. "] * 20,
                sse_error="context_length_exceeded",
                fail_after=19,
            )
        return Reply(said, usage=Usage(size(body), len(said) // 4))

    async with session(tmp_path, "chat", answer) as (_, agent, its):
        await agent.prompt(its, "Hello?")
        if said == LONG:
            assert await agent.prompt(its, "Tell me a story.") == {
                "stopReason": "end_turn"
            }
            assert [shown.statuses for shown in shown_compactions(agent)] == [
                ["in_progress", "completed"]
            ]
        else:
            with pytest.raises(AgentError, match="window was full before the end"):
                await agent.prompt(its, "Tell me a story.")
        for question in ("And now?", "And then?"):
            assert await agent.prompt(its, question) == {"stopReason": "end_turn"}
        assert windows(agent)[-1] > 100_000


async def test_a_limit_learned_for_one_model_applies_to_no_other(
    tmp_path: Path,
) -> None:
    most, (dialect, words) = 8_192, SAYS["anthropic"]

    def answer(body: Mapping[str, Any]) -> Reply:
        if body["model"] == MODELS["anthropic"] and size(body) + room(body) > most:
            return refusal(words, size(body), room(body), most)
        return Reply("Hello.", usage=Usage(size(body), 5))

    async with session(tmp_path, dialect, answer) as (_, agent, its):
        shown: list[int] = []
        for model in (MODELS["anthropic"], "claude-haiku-4-5", MODELS["anthropic"]):
            await agent.set_config_option(its, "model", f"anthropic/{model}")
            await agent.prompt(its, "Hello?")
            shown.append(windows(agent)[-1])
        assert shown[0] == shown[2] == most < shown[1]
