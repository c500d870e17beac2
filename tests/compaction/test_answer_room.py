"""Refusals for want of room for the answer: less of it is asked for, and no smaller window is learned than there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.compactions import shown_compactions
from support.dialogues import texts
from support.editors import ZED_BETA
from support.models import ModelServer, Reply, Usage, model_server

LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
CHAT = (
    "This model's maximum context length is {most} tokens. However, you requested {all} tokens ({prompt} in the "
    "messages, {answer} in the completion). Please reduce the length of the messages or completion."
)
SAYS: dict[str, tuple[Any, str]] = {
    "anthropic": ("anthropic", "input length and `max_tokens` exceed context limit: {prompt} + {answer} > {most}"),
    "vllm": ("chat", CHAT),
    "no number of the prompt": ("chat", "This model's maximum context length is {most} tokens."),
}
SILENT = "Context size has been exceeded."


def size(body: Mapping[str, Any]) -> int:
    """Tokens of a prompt, about, as the server counts them."""
    return len(str(body.get("messages") or body["input"])) // 4 + len(str(body.get("tools"))) // 4


def room(body: Mapping[str, Any]) -> int:
    """Tokens that are asked for."""
    return int(body.get("max_tokens") or body["max_completion_tokens"])


def refusal(says: str, prompt: int, answer: int, most: int) -> Reply:
    """A refusal in these words."""
    text = says.format(prompt=prompt, answer=answer, all=prompt + answer, most=most)
    return Reply(http_status=400, body={"error": {"message": text, "type": "invalid_request_error", "code": 400}})


@asynccontextmanager
async def session(
    home: Path, dialect: Any, answer: Callable[[Mapping[str, Any]], Reply], **config: Any
) -> AsyncGenerator[tuple[ModelServer, AgentProcess, str]]:
    """A session in which nothing is prepared."""
    async with model_server(answer, dialect) as server:
        server.write_config(home, {"compaction": {"prepare": False}, **config})
        async with connected_agent(home=home, env=server.env(), capabilities=ZED_BETA) as agent:
            yield server, agent, await agent.new_session(home)


def windows(agent: AgentProcess) -> list[int]:
    """The meter's window, update by update."""
    return [int(update["size"]) for update in agent.updates(kind="usage_update")]


@pytest.mark.parametrize("says", SAYS)
async def test_a_prompt_that_fits_is_sent_again_as_it_is_with_a_shorter_answer(tmp_path: Path, says: str) -> None:
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


async def test_a_pasted_text_that_is_longer_than_it_was_counted_stays_whole_where_it_fits(tmp_path: Path) -> None:
    most = 40_000
    paste = "".join(f"line {number} of it.\n" for number in range(4_900)) + "What is this?"

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = int(1.25 * size(body))
        if prompt + room(body) > most:
            return refusal(CHAT, prompt, room(body), most)
        return Reply("Fine.", usage=Usage(prompt, 5))

    config = {"max_output_tokens": 16_000, "models": {"local/chat-test": {"context_window": most}}}
    async with session(tmp_path, "chat", answer, **config) as (server, agent, its):
        await agent.prompt(its, "Hello.")
        assert await agent.prompt(its, paste) == {"stopReason": "end_turn"}
        assert len(server.calls) == 3
        assert texts(server.calls[-1].body)[-1] == paste
        assert shown_compactions(agent) == []
        await agent.prompt(its, "And now?")
        assert set(windows(agent)) == {most}


async def test_a_prompt_too_long_by_the_providers_count_is_made_short_whatever_was_asked_for(tmp_path: Path) -> None:
    most, strict = 12_500, False

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = 2 * size(body)
        if strict and prompt > most:
            return refusal(
                "request ({prompt} tokens) exceeds the available context size ({most} tokens)", prompt, 0, most
            )
        return Reply(LONG)

    async with session(tmp_path, "chat", answer) as (server, agent, its):
        await agent.prompt(its, "One?")
        strict = True
        assert await agent.prompt(its, "Two?") == {"stopReason": "end_turn"}
        assert [shown.statuses for shown in shown_compactions(agent)] == [["in_progress", "completed"]]
        assert windows(agent)[-1] <= most
        assert LONG not in texts(server.calls[-1].body, "assistant")


async def test_a_refusal_without_a_number_keeps_no_later_prompt_from_being_sent(tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if size(body) + room(body) > 20_000:
            return refusal(SILENT, 0, 0, 0)
        return Reply("Fine.", usage=Usage(size(body), 5))

    config = {"models": {"local/chat-test": {"context_window": 40_000}}, "max_output_tokens": 20_000}
    async with session(tmp_path, "chat", answer, **config) as (server, agent, its):
        for question in ("Hello?", "And what else?", "Please tell me more."):
            assert await agent.prompt(its, question) == {"stopReason": "end_turn"}
        first, second, *later = [room(call.body) for call in server.calls]
        assert first > second
        assert len(later) == 2, "the longest answer that was refused is not asked for again"
        assert set(windows(agent)) == {40_000}


@pytest.mark.parametrize("said", [LONG, "Fine."], ids=["compacted", "nothing to compact"])
async def test_an_answer_that_breaks_off_for_want_of_room_makes_no_window_smaller_than_was_used(
    tmp_path: Path, said: str
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if "story" in texts(body)[-1]:
            return Reply(["Once upon a time. "] * 20, sse_error="context_length_exceeded", fail_after=19)
        return Reply(said, usage=Usage(size(body), len(said) // 4))

    async with session(tmp_path, "chat", answer) as (_, agent, its):
        await agent.prompt(its, "Hello?")
        if said == LONG:
            assert await agent.prompt(its, "Tell me a story.") == {"stopReason": "end_turn"}
            assert [shown.statuses for shown in shown_compactions(agent)] == [["in_progress", "completed"]]
        else:
            with pytest.raises(AgentError, match="larger than the model's context window"):
                await agent.prompt(its, "Tell me a story.")
        for question in ("And now?", "And then?"):
            assert await agent.prompt(its, question) == {"stopReason": "end_turn"}
        assert windows(agent)[-1] > 100_000


async def test_what_a_model_has_answered_once_fits_whatever_it_refuses_later(tmp_path: Path) -> None:
    large, refuses = 60_000, False

    def answer(body: Mapping[str, Any]) -> Reply:
        nonlocal refuses
        if refuses:
            refuses = False
            return refusal(SILENT, 0, 0, 0)
        return Reply(LONG, usage=Usage(large, 5)) if texts(body)[-1] == "One?" else Reply(LONG, usage=Usage(9_000, 5))

    async with session(tmp_path, "chat", answer) as (_, agent, its):
        for question in ("One?", "Two?"):
            await agent.prompt(its, question)
        refuses = True
        assert await agent.prompt(its, "Three?") == {"stopReason": "end_turn"}
        assert [shown.statuses for shown in shown_compactions(agent)] == [["in_progress", "completed"]]
        await agent.prompt(its, "Four?")
        assert windows(agent)[-1] == large + 5
