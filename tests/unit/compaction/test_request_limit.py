"""One compaction sends at most twelve requests, whatever the server answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from acp_agent.compaction.calls import MAX_REQUESTS, ModelCalls
from acp_agent.conversation.messages import (
    AssistantMessage,
    Text,
    Thinking,
    UserMessage,
)
from acp_agent.errors import CompactionError
from acp_agent.llm.client import _NativeClient
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from support.adapters import adapter
from support.models import ModelServer, model_server
from support.replies import Reply

GOOD = "# Goal\nA cart that adds prices."
BUSY = Reply(http_status=529, headers={"retry-after-ms": "1"})
PROFILE = ModelProfile(thinking="effort")
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
) -> AsyncGenerator[tuple[ModelCalls, _NativeClient, ModelServer]]:
    """Calls of a real provider's."""
    async with model_server(replies) as server:
        provider = adapter(dialect, server.base_url, profile=PROFILE)
        assert isinstance(provider, _NativeClient)
        try:
            with anyio.fail_after(20):
                yield ModelCalls(provider.stream), provider, server
        finally:
            await provider.aclose()


def refusing(dialect: str) -> Reply:
    """Refuse the request because of a part that can be left out."""
    body = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": LEFT_OUT[dialect],
            "code": None,
        },
    }
    return Reply(http_status=400, body=body)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_resent_requests_count_towards_the_limit(
    dialect: str,
) -> None:
    async with counted(dialect, BUSY, refusing(dialect), BUSY, Reply(GOOD)) as (
        calls,
        _,
        server,
    ):
        assert (await calls.ask(ASK)).parts[-1] == Text(GOOD)
        assert calls.requests == len(server.calls) == 4
        assert calls.requests == 4


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_last_allowed_request_is_not_resent(dialect: str) -> None:
    async with counted(dialect, refusing(dialect), Reply(GOOD)) as (calls, _, server):
        calls.requests = MAX_REQUESTS - 1
        with pytest.raises(CompactionError, match="12 requests"):
            await calls.ask(ASK)
        assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_requests_for_native_compaction_count_towards_the_limit(
    dialect: str,
) -> None:
    async with counted(dialect, BUSY, BUSY, Reply(GOOD), *[BUSY] * 12) as (
        calls,
        provider,
        server,
    ):
        await calls.ask_native(provider, ASK, "")
        assert calls.requests == len(server.calls) == 3
        calls.requests = MAX_REQUESTS - 2
        with pytest.raises(CompactionError, match="12 requests"):
            await calls.ask_native(provider, ASK, "")
        assert len(server.calls) == 5
