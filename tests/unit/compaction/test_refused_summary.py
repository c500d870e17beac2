"""A summary request that the provider refuses as too long is retried once, smaller, and
reveals the window.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.strategies.modelless import SUMMARY as EXCERPTS
from support.background import LONG, OUT_OF_ROOM, SUMMARY
from support.compactions import is_summary_request, shown_compactions
from support.dialogues import asks_for_summary, check_legal
from support.editors import ZED_BETA
from support.memory import desk, stage
from support.models import Reply, Usage

TAKES = 12_000
"""The server's actual window in tokens."""
SAYS = {
    "Anthropic": "prompt is too long: {prompt} tokens > {window} maximum",
    "vLLM": (
        "This model's maximum context length is {window} tokens. However, you requested {limit} output tokens and your "
        "prompt contains at least {prompt} input tokens, for a total of at least {total} tokens."
    ),
    "vLLM's limit": (
        "'max_tokens' or 'max_completion_tokens' is too large: {limit}. This model's maximum context length is "
        "{window} tokens and your request has {prompt} input tokens ({limit} > {window} - {prompt})."
    ),
    "LM Studio": (
        "Trying to keep the first {prompt} tokens when context the overflows. However, the model is loaded with "
        "context length of only {window} tokens, which is not enough."
    ),
    "llama.cpp": "request ({prompt} tokens) exceeds the available context size ({window} tokens), try increasing it",
    "OpenAI": (
        "Input tokens exceed the configured limit of {window} tokens. Your messages resulted in {prompt} tokens. "
        "Please reduce the length of the messages."
    ),
    "the window alone": "This model's maximum context length is {window} tokens.",
    "nothing": "The prompt is too long for the context window.",
}


def size(body: Mapping[str, Any]) -> int:
    """Return about how many tokens the server counts in a request: slightly more than
    our estimate.
    """
    return len(json.dumps({**body, "max_tokens": 0}, ensure_ascii=False)) * 10 // 38


COUNT = count(1)


def items(number: int) -> str:
    """Return distinct lines."""
    return "\n".join(
        f"Item {next(COUNT)} costs {next(COUNT) * 7} cents." for _ in range(number)
    )


def refusal(body: Mapping[str, Any], says: str) -> Reply:
    limit = int(body.get("max_tokens") or body.get("max_output_tokens") or 0)
    prompt = size(body)
    said = SAYS[says].format(
        prompt=prompt, window=TAKES, limit=limit, total=prompt + limit
    )
    return Reply(
        http_status=400,
        body={"error": {"type": "invalid_request_error", "message": said}},
    )


def fits(body: Mapping[str, Any], says: str) -> bool:
    limit = (
        int(body.get("max_tokens") or body.get("max_output_tokens") or 0)
        if "vLLM" in says
        else 0
    )
    return size(body) + limit <= TAKES


@pytest.mark.parametrize("says", SAYS)
async def test_a_refused_summary_request_is_resent_to_fit_the_stated_window(
    tmp_path: Path, says: str
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if not asks_for_summary(body):
            return Reply(items(40))
        return Reply(SUMMARY) if fits(body, says) else refusal(body, says)

    config = {
        "compaction": {"prepare": False},
        "models": {"local/chat-test": {"context_window": 32_768}},
    }
    async with stage(
        tmp_path, script=answer, dialect="chat", editor=ZED_BETA, config=config
    ) as it:
        while not it.server.calls or size(it.server.calls[-1].body) < TAKES - 1_200:
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        assert await it.prompt("/compact") == {"stopReason": "end_turn"}
        first, second = [
            call.body for call in it.server.calls if asks_for_summary(call.body)
        ]
        assert size(second) < size(first)
        assert size(second) > TAKES * 0.5, "no more is left out than has to be"
        check_legal(second)
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (
            ["in_progress", "completed"],
            SUMMARY,
        )
        assert "refused" not in compaction.receipt
        sizes = [meter["size"] for meter in it.agent.updates(kind="usage_update")]
        assert sizes[-2] == 32_768
        if says != "nothing":
            assert sizes[-1] == TAKES
        else:
            assert TAKES * 0.9 < sizes[-1] < size(first)


@pytest.mark.parametrize("window", [8_000, 12_000])
@pytest.mark.parametrize("says", ["vLLM", "nothing"])
async def test_a_separate_model_for_summaries_that_counts_more_gets_smaller_excerpts(
    tmp_path: Path, window: int, says: str
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if not asks_for_summary(body):
            return Reply(items(280))
        limit = int(body["max_tokens"])
        prompt = size(body)
        if prompt + limit <= window * 0.97:
            return Reply(SUMMARY)
        said = SAYS[says].format(
            prompt=prompt, window=window, limit=limit, total=prompt + limit
        )
        return Reply(
            http_status=400,
            body={"error": {"type": "invalid_request_error", "message": said}},
        )

    models = {
        "local/chat-test": {"context_window": 60_000},
        "local/small-test": {"context_window": window},
    }
    config = {
        "models": models,
        "compaction": {"model": "local/small-test", "prepare": False},
    }
    async with stage(
        tmp_path, script=answer, dialect="chat", editor=ZED_BETA, config=config
    ) as it:
        for number in range(8):
            await it.prompt(f"Question {number}? {'What does the cart add? ' * 60}")
        await it.prompt("/compact")
        asked = [call.body for call in it.server.calls if asks_for_summary(call.body)]
        assert {body["model"] for body in asked} == {"small-test"}
        assert 1 <= len(asked) <= 2
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses[-1], compaction.text) == ("completed", SUMMARY)
        # The window of the conversation's own model is unchanged.
        assert {meter["size"] for meter in it.agent.updates(kind="usage_update")} == {
            60_000
        }


async def test_a_summary_refused_twice_reports_the_model_and_its_refusal(
    tmp_path: Path,
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        return refusal(body, "nothing") if asks_for_summary(body) else Reply(LONG)

    models = {
        "local/chat-test": {"context_window": 60_000},
        "local/small-test": {"context_window": 40_000},
    }
    config = {
        "models": models,
        "compaction": {"model": "local/small-test", "prepare": False},
    }
    async with stage(
        tmp_path, script=answer, dialect="chat", editor=ZED_BETA, config=config
    ) as it:
        for _ in range(3):
            await it.prompt("What does the cart add?")
        await it.prompt("/compact")
        assert sum(asks_for_summary(call.body) for call in it.server.calls) == 2
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "failed"]
        assert "small-test refused the request for a summary." in compaction.text
        assert SAYS["nothing"] in compaction.text
        # The guessed window is forgotten, so the next attempt is not smaller.
        first = next(
            call.body for call in it.server.calls if asks_for_summary(call.body)
        )
        await it.prompt("/compact")
        again = [call.body for call in it.server.calls if asks_for_summary(call.body)][
            2
        ]
        assert size(again) == size(first)


NO_SUMMARIES = {
    "DeepSeek's markup": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
    "Hermes's markup": '<tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>',
    "Kimi's markup": "<|tool_calls_section_begin|><|tool_call_begin|>read:0<|tool_call_end|><|tool_calls_section_end|>",
    "thinking": "<think>The user wants a summary of the cart.</think>",
    "a word": "OK",
}


@pytest.mark.parametrize("kind", NO_SUMMARIES)
async def test_an_unusable_answer_changes_nothing_or_is_replaced_by_excerpts(
    tmp_path: Path, kind: str
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        return (
            Reply(NO_SUMMARIES[kind]) if is_summary_request(body) else it.answers.pop(0)
        )

    async with desk(tmp_path, script=answer) as it:
        await it.filled()
        await it.prompt("/compact")
        [failed] = shown_compactions(it.agent)
        assert failed.statuses == ["in_progress", "failed"]
        assert "The history is unchanged" in failed.text
        await it.prompt("Two?", Reply("Second answer."))
        assert LONG in str(it.last)
        for _ in range(3):
            await it.prompt("And?", Reply("Yes.", usage=Usage(OUT_OF_ROOM, 5)))
        _, compaction, *_ = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (
            ["in_progress", "completed"],
            EXCERPTS,
        )
        assert "unchanged" not in compaction.receipt
        assert NO_SUMMARIES[kind] not in str(it.last)


async def test_thinking_in_front_of_a_summary_is_not_part_of_it(
    tmp_path: Path,
) -> None:
    async with desk(
        tmp_path, Reply(f"<think>\nWhat was said?\n</think>\n\n{SUMMARY}")
    ) as it:
        await it.filled(5_000)
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses[-1], compaction.text) == ("completed", SUMMARY)
        await it.prompt("Two?", Reply("Second answer."))
        assert "What was said?" not in str(it.last)


@pytest.mark.parametrize("status", [500, 400], ids=["down", "refused"])
async def test_the_receipt_of_excerpts_says_why_there_is_no_summary(
    tmp_path: Path, status: int
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if is_summary_request(body):
            return Reply(http_status=status, headers={"retry-after": "120"})
        return it.answers.pop(0)

    async with desk(
        tmp_path, script=answer, config={"compaction": {"wait": True}}
    ) as it:
        await it.filled()
        for _ in range(4):
            await it.prompt("And?", Reply("Yes.", usage=Usage(OUT_OF_ROOM, 5)))
        compaction = shown_compactions(it.agent)[0]
        assert compaction.text == EXCERPTS
        assert "openai (127.0.0.1:" in compaction.receipt
        assert f"status {status}" in compaction.receipt
        assert "unchanged" not in compaction.receipt
        assert "Nothing was changed" not in compaction.receipt
