"""One compaction sends at most twelve requests to the model server, whatever the server makes of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.compaction.calls import MAX_REQUESTS, ModelCalls
from acp_agent.conversation.messages import AssistantMessage, Text, Thinking, UserMessage
from acp_agent.errors import CompactionError
from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider
from acp_agent.llm.openai import OpenAIAccess
from acp_agent.llm.openai_responses import OpenAIResponsesProvider
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.retry import RetryPolicy
from support.background import LONG, PREPARE, desk, held
from support.client import AgentError
from support.compactions import shown_compactions
from support.dialogues import texts
from support.editors import ZED_BETA
from support.models import ModelServer, model_server
from support.replies import Reply, Usage
from support.stage import Stage, stage

RECIPE = """\
---
name: compact
hooks:
  turn_end: {handler: swap_context, once: true}
compaction:
  verify: mend
---
Write the summary, says the recipe of this project.
"""
ASKED = "Write the summary, says the recipe of this project."
GOOD = "# Goal\nA cart that adds prices."
INVENTED = f"{GOOD}\nSee `shop/never_there.py` and `lib/nor_there.py`."
PASTE = "Prices of a line of the cart, of which there are many more.\n" * 1_300
"""About 20,000 tokens, which come in six parts."""
TOO_LONG = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}
BUSY = Reply(http_status=529, headers={"retry-after-ms": "1"})
REFUSED = Reply(http_status=400, body=TOO_LONG)
CUT_OFF = Reply("# Goal\nA ca", stop="max_tokens")
SERVERS: dict[str, Callable[[int], Reply]] = {
    "each part twice": lambda number: Reply(INVENTED) if number % 2 else BUSY,
    "each part four times": lambda number: Reply(INVENTED) if number % 4 == 3 else BUSY,
    "the sixth part is too large": lambda number: {0: BUSY, 6: REFUSED}.get(number, Reply(INVENTED)),
    "the second part is cut off": lambda number: CUT_OFF if number else Reply(INVENTED),
    "what is invented stays": lambda _: Reply(INVENTED),
}
"""What it makes of the requests for a summary, by their number."""
ENDS: dict[str, tuple[int, str]] = {
    "each part twice": (12, "summarised in 6 parts"),
    "each part four times": (12, ""),
    "the sixth part is too large": (11, "summarised in 3 parts"),
    "the second part is cut off": (2, ""),
    "what is invented stays": (7, "summarised in 6 parts"),
}
"""How many requests there are then, and what the receipt says; nothing where the history stays as it is."""


@asynccontextmanager
async def outgrown(tmp_path: Path, server: str) -> AsyncGenerator[tuple[Stage, list[Mapping[str, Any]]]]:
    """A session whose conversation is larger than the small model's window, and the requests for its summary."""
    asked: list[Mapping[str, Any]] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        if ASKED not in texts(body)[-1]:
            return Reply("Well.")
        asked.append(body)
        return SERVERS[server](len(asked) - 1)

    options: dict[str, Any] = {
        "editor": ZED_BETA,
        "config": {"compaction": {"prepare": False}},
        "files": {".acp-agent/recipes/compact.md": RECIPE},
        "trusted": True,
    }
    async with stage(tmp_path, script=answer, **options, dialect="anthropic") as opened:
        opened.server.windows |= {"claude-test": 60_000, "claude-small": 12_000}
        it = replace(opened, session=await opened.agent.new_session(opened.folder))
        assert await it.prompt(PASTE) == {"stopReason": "end_turn"}
        yield it, asked


@pytest.mark.parametrize("server", SERVERS)
async def test_a_summary_in_parts_takes_no_more_whether_they_are_sent_again_refused_cut_off_or_to_be_mended(
    tmp_path: Path, server: str
) -> None:
    async with outgrown(tmp_path, server) as (it, asked):
        await it.agent.set_config_option(it.session, "model", "anthropic/claude-small")
        with suppress(AgentError):
            await it.prompt("/compact")
        [shown] = shown_compactions(it.agent)
        requests, receipt = ENDS[server]
        assert len(asked) == requests <= MAX_REQUESTS
        assert shown.statuses == ["in_progress", "completed" if receipt else "failed"]
        assert receipt in shown.receipt
        assert ("never_there" in shown.receipt) == bool(receipt)
        assert ("12 requests" in shown.text) == (server == "each part four times")


# Each request is seen, however a provider comes to send it ------------------------------------------------------------

PROFILE = ModelProfile(thinking="effort")
QUICK = RetryPolicy(attempts=7, base=0.002, connect_attempts=2)
THOUGHT = Thinking("Hm.", "anthropic", {"type": "thinking", "signature": "s"})
ASK = ModelRequest(
    "the-model",
    "Be brief.",
    (
        UserMessage("u1", (Text("Hello"),)),
        AssistantMessage("a1", (THOUGHT, Text("Hi"))),
        UserMessage("u2", (Text("Sum up."),)),
    ),
    thought_level="low",
    conversation_id="sess_1",
)
LEFT_OUT = {
    "anthropic": "messages.1.content.0: Invalid `signature` in `thinking` block.",
    "openai": "Your organization must be verified to generate reasoning summaries.",
}
DIALECTS = [*LEFT_OUT]


@asynccontextmanager
async def counted(
    dialect: str, *replies: Reply
) -> AsyncGenerator[tuple[ModelCalls, AnthropicProvider | OpenAIResponsesProvider, ModelServer]]:
    """Calls of a real provider's."""
    async with model_server(replies) as server:
        provider: AnthropicProvider | OpenAIResponsesProvider
        if dialect == "anthropic":
            access = AnthropicAccess(api_key="test-key", base_url=server.base_url)
            provider = AnthropicProvider(access, lambda _: PROFILE, QUICK)
        else:
            key = OpenAIAccess(api_key="test-key", base_url=f"{server.base_url}/v1")
            provider = OpenAIResponsesProvider(key, lambda _: PROFILE, QUICK)
        try:
            with anyio.fail_after(20):
                yield ModelCalls(provider.stream), provider, server
        finally:
            await provider.aclose()


def refusing(dialect: str) -> Reply:
    """Refuses the request for something that can be left out of it."""
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": LEFT_OUT[dialect], "code": None}}
    return Reply(http_status=400, body=body)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_requests_that_are_sent_again_in_another_form_or_after_a_failure_count(dialect: str) -> None:
    async with counted(dialect, BUSY, refusing(dialect), BUSY, Reply(GOOD)) as (calls, _, server):
        assert (await calls.ask(ASK)).parts[-1] == Text(GOOD)
        assert calls.requests == len(server.calls) == 4
        assert calls.left == MAX_REQUESTS - 4


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_last_request_is_not_sent_again_in_another_form(dialect: str) -> None:
    async with counted(dialect, refusing(dialect), Reply(GOOD)) as (calls, _, server):
        calls.requests = MAX_REQUESTS - 1
        with pytest.raises(CompactionError, match="12 requests"):
            await calls.ask(ASK)
        assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_providers_own_compaction_counts_as_often_as_it_is_asked_and_stops_with_the_rest(dialect: str) -> None:
    async with counted(dialect, BUSY, BUSY, Reply(GOOD), *[BUSY] * 12) as (calls, provider, server):
        await calls.ask_native(provider, ASK, "")
        assert calls.requests == len(server.calls) == 3
        calls.requests = MAX_REQUESTS - 2
        with pytest.raises(CompactionError, match="12 requests"):
            await calls.ask_native(provider, ASK, "")
        assert len(server.calls) == 5


async def test_a_prepared_summary_that_is_passed_over_counts_in_the_compaction_that_waited_for_it(
    tmp_path: Path,
) -> None:
    summary, hold = held()
    busy = [Reply(http_status=500, headers={"retry-after-ms": "1"})] * 5
    async with desk(tmp_path, *busy, summary, *[busy[0]] * 20) as it:
        await it.filled()
        # What it was prepared for is small beside what came since, so that it will not do.
        await it.prompt("Two?", Reply(LONG + LONG, usage=Usage(PREPARE + 50, 100)))
        await it.server.wait_held(timeout=10)
        hold.set()
        await it.ready()
        assert it.asked == 6
        await it.prompt("/compact")
        [shown] = shown_compactions(it.agent)
        assert "12 requests" in shown.text
        assert it.asked == MAX_REQUESTS
