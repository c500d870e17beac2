"""The three adapters on a model server of the loopback interface, and a call of one to its end. Knows no test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import anyio

from acp_agent.conversation import messages as m
from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider
from acp_agent.llm.openai import OpenAIAccess
from acp_agent.llm.openai_chat import OpenAIChatProvider
from acp_agent.llm.openai_responses import OpenAIResponsesProvider
from acp_agent.llm.profiles import ModelProfile, Prices
from acp_agent.llm.provider import (
    ModelEvent,
    ModelRequest,
    TextDelta,
)
from acp_agent.llm.retry import RetryPolicy
from support.models import ModelServer, Reply, model_server

KEY = "test-key"
QUICK = RetryPolicy(attempts=4, base=0.005, connect_attempts=2)
PROFILE = ModelProfile(200_000, 8_192, thinking="none", prices=Prices(10, 1, 20, 100))
DIALECTS = ["anthropic", "openai", "chat"]
Adapter = AnthropicProvider | OpenAIResponsesProvider | OpenAIChatProvider


def adapter(
    dialect: str,
    base_url: str,
    *,
    key: str = KEY,
    headers: dict[str, str] | None = None,
    policy: RetryPolicy = QUICK,
    profile: ModelProfile = PROFILE,
) -> Adapter:
    if dialect == "anthropic":
        access = AnthropicAccess(api_key=key, base_url=base_url, headers=headers or {})
        return AnthropicProvider(access, lambda _: profile, policy)
    access = OpenAIAccess(
        name="openai" if dialect == "openai" else "local",
        api_key=key,
        base_url=f"{base_url}/v1beta/openai/" if dialect == "google" else f"{base_url}/v1",
        headers=headers or {},
        key_hint="OPENAI_API_KEY" if dialect == "openai" else "LOCAL_API_KEY",
    )
    kind = OpenAIResponsesProvider if dialect == "openai" else OpenAIChatProvider
    return kind(access, lambda _: profile, policy)


def request(*messages: m.Message, model: str = "claude-test", **more: object) -> ModelRequest:
    said = messages or (m.UserMessage("u1", (m.Text("Hello"),)),)
    return ModelRequest(model, "Be brief.", said, conversation_id="sess_1", **more)  # pyright: ignore[reportArgumentType]


async def collect(provider: Adapter, asked: ModelRequest) -> list[ModelEvent]:
    with anyio.fail_after(20):
        async with aclosing(provider.stream(asked)) as events:
            return [event async for event in events]


@asynccontextmanager
async def playing(
    dialect: str, *replies: Reply, profile: ModelProfile = PROFILE, policy: RetryPolicy = QUICK
) -> AsyncIterator[tuple[Adapter, ModelServer]]:
    async with model_server(replies) as server:
        provider = adapter(dialect, server.base_url, profile=profile, policy=policy)
        try:
            yield provider, server
        finally:
            await provider.aclose()


def texts(events: list[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]
