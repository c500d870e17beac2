"""A provider refuses a request that fits by our count. Its error is believed, and one
more request is enough.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.compactions import shown_compactions
from support.dialogues import check_legal
from support.editors import ZED_BETA
from support.memory import stage
from support.models import Reply, Usage

COUNT = count(1)
NUMBERS = {
    "Anthropic": "prompt is too long: {prompt} tokens > {window} maximum",
    "OpenAI": "Input tokens exceed the configured limit of {window} tokens. Your messages resulted in {prompt} tokens.",
    "Gemini": "The input token count ({prompt}) exceeds the maximum number of tokens allowed ({window}).",
    "xAI": "This model's maximum prompt length is {window} but the request contains {prompt} tokens.",
    "llama.cpp": "request ({prompt} tokens) exceeds the available context size ({window} tokens), try increasing it",
    "Mistral": "Prompt contains {prompt} tokens, too large for model with {window} maximum context length",
    "Copilot": "prompt token count of {prompt} exceeds the limit of {window}",
}


def items(number: int) -> str:
    """Return distinct lines of eight tokens each."""
    return "\n".join(
        f"The item {next(COUNT)} costs {next(COUNT) * 7} cents." for _ in range(number)
    )


def size(body: Mapping[str, Any]) -> int:
    """Return the approximate number of tokens in a request."""
    return len(json.dumps({**body, "max_tokens": 0})) // 4


def refusal(message: str) -> Reply:
    return Reply(
        http_status=400,
        body={"error": {"type": "invalid_request_error", "message": message}},
    )


@pytest.mark.parametrize("says", NUMBERS)
async def test_a_prompt_over_the_providers_window_is_shortened_in_the_next_request(
    tmp_path: Path, says: str
) -> None:
    window = 20_000
    refused: list[int] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = size(body)
        if prompt > window:
            refused.append(prompt)
            return refusal(NUMBERS[says].format(prompt=prompt, window=window))
        # The reported usage omits two fifths of the tokens that the server counts when
        # it refuses.
        return Reply(items(60), usage=Usage(prompt * 58 // 100, 60))

    config = {"compaction": {"prepare": False}, "context_window": 200_000}
    async with stage(
        tmp_path, script=answer, dialect="chat", editor=ZED_BETA, config=config
    ) as it:
        while not refused:
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        assert len(refused) == 1
        assert size(it.server.calls[-1].body) < window * 0.8
        check_legal(it.server.calls[-1].body)
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]


VAGUE = {
    "no number": "The prompt is too long.",
    "a window that it is far below": "This model's maximum context length is 200000 tokens.",
    "a count that it is far below": "prompt is too long: 20000 tokens > 200000 maximum",
}


@pytest.mark.parametrize("says", VAGUE)
async def test_a_refused_request_that_should_fit_is_compacted_as_if_full(
    tmp_path: Path, says: str
) -> None:
    refused: list[int] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        if size(body) > 12_000:
            refused.append(size(body))
            return refusal(VAGUE[says])
        return Reply(items(400) if len(it.server.calls) < 4 else "Prices.")

    async with stage(
        tmp_path,
        script=answer,
        dialect="chat",
        editor=ZED_BETA,
        config={"context_window": 200_000},
    ) as it:
        while not refused:
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        assert len(refused) == 1
        assert size(it.server.calls[-1].body) < refused[0] * 0.7
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]


async def test_a_request_refused_at_any_size_is_compacted_once_in_a_turn(
    tmp_path: Path,
) -> None:
    refusing = False

    def answer(body: Mapping[str, Any]) -> Reply:
        return refusal("The prompt is too long.") if refusing else Reply(items(400))

    async with stage(
        tmp_path,
        script=answer,
        dialect="chat",
        editor=ZED_BETA,
        config={"context_window": 200_000},
    ) as it:
        for _ in range(3):
            await it.prompt("What does the cart add?")
        refusing = True
        asked = len(it.server.calls)
        with pytest.raises(AgentError, match="It was already shortened in this turn"):
            await it.prompt("And now?")
        assert len(it.server.calls) == asked + 2
        assert len(shown_compactions(it.agent)) == 1
        refusing = False
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}
