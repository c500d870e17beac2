"""Providers that compact themselves, against a loopback server, and conversations with what they have made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio

from acp_agent.conversation import messages as m
from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider
from acp_agent.llm.openai import OpenAIAccess
from acp_agent.llm.openai_chat import OpenAIChatProvider
from acp_agent.llm.openai_responses import OpenAIResponsesProvider
from acp_agent.llm.profiles import ModelProfile, Prices
from acp_agent.llm.provider import Answered, Compacted, ModelEvent, ModelRequest, ToolDefinition
from acp_agent.llm.retry import RetryPolicy
from support.models import ModelServer, Reply, model_server

BETA = "compact-2026-09-04"
QUICK = RetryPolicy(attempts=3, base=0.005, connect_attempts=2)
PROFILE = ModelProfile(thinking="none", prices=Prices(10, 1, 20, 100))
TOOLS = (ToolDefinition("read", "Reads.", {"type": "object", "properties": {}}),)
OLD: tuple[m.Message, ...] = (
    m.UserMessage("u1", (m.Text("Build a shop."),)),
    m.AssistantMessage("a1", (m.Text("Which one?"),)),
    m.UserMessage("u2", (m.Text("For bread."),)),
    m.AssistantMessage("a2", (m.Text("Done."),)),
)
ASK = ModelRequest("the-model", "Be brief.", OLD, TOOLS, conversation_id="sess_1")
Native = AnthropicProvider | OpenAIResponsesProvider
NATIVE = ["anthropic", "openai"]


def native(dialect: str, base_url: str, headers: dict[str, str] | None = None) -> Native:
    """A provider that compacts itself."""
    if dialect == "anthropic":
        access = AnthropicAccess(api_key="test-key", base_url=base_url, headers=headers or {})
        return AnthropicProvider(access, lambda _: PROFILE, QUICK)
    return OpenAIResponsesProvider(
        OpenAIAccess(api_key="test-key", base_url=f"{base_url}/v1", headers=headers or {}), lambda _: PROFILE, QUICK
    )


def chat(base_url: str) -> OpenAIChatProvider:
    """One that does not."""
    return OpenAIChatProvider(OpenAIAccess("local", "test-key", f"{base_url}/v1"), lambda _: PROFILE, QUICK)


@asynccontextmanager
async def playing(
    dialect: str, *replies: Reply, headers: dict[str, str] | None = None, max_prompt_tokens: int | None = None
) -> AsyncIterator[tuple[Native, ModelServer]]:
    """A provider that compacts itself, and the server that plays these replies to it."""
    async with model_server(replies, max_prompt_tokens=max_prompt_tokens) as server:
        provider = native(dialect, server.base_url, headers)
        try:
            with anyio.fail_after(20):
                yield provider, server
        finally:
            await provider.aclose()


async def answer(provider: Native | OpenAIChatProvider, request: ModelRequest) -> Answered:
    """The end of its answer."""
    events: list[ModelEvent] = []
    async with aclosing(provider.stream(request)) as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401 - a comprehension cannot be narrowed
    last = events[-1]
    assert isinstance(last, Answered)
    return last


def going_on(block: m.CompactedBlock, **changed: Any) -> ModelRequest:
    """The request after a compaction: pins and ledger around the block, a verbatim tail, a new prompt."""
    first = m.UserMessage("u3", (m.Text("Pinned: bread."), block, m.Text("Ledger.")))
    tail: tuple[m.Message, ...] = (
        m.AssistantMessage("a3", (m.Text("On it."),)),
        m.UserMessage("u4", (m.Text("Now cakes."),)),
    )
    return replace(ASK, messages=(first, *tail), **changed)


async def compacted(provider: Native, instructions: str = "Keep all names.") -> Compacted:
    """What it makes of `OLD`."""
    return await provider.compact(ASK, instructions)
