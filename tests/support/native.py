"""Providers that compact themselves, against a loopback server, and conversations with
what they have made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio

from acp_agent.conversation import messages as m
from acp_agent.llm.client import ModelClient, _NativeClient
from acp_agent.llm.profiles import ModelProfile, Prices
from acp_agent.llm.provider import Answered, ModelRequest, ToolDefinition
from support.adapters import adapter, collect
from support.models import ModelServer, Reply, model_server

BETA = "compact-2026-09-04"
PROFILE = ModelProfile(thinking="none", prices=Prices(10, 1, 20, 100))
TOOLS = (ToolDefinition("read", "Reads.", {"type": "object", "properties": {}}),)
OLD: tuple[m.Message, ...] = (
    m.UserMessage("u1", (m.Text("Build a shop."),)),
    m.AssistantMessage("a1", (m.Text("Which one?"),)),
    m.UserMessage("u2", (m.Text("For bread."),)),
    m.AssistantMessage("a2", (m.Text("Done."),)),
)
ASK = ModelRequest("the-model", "Be brief.", OLD, TOOLS, conversation_id="sess_1")
NATIVE = ["anthropic", "openai"]


def native(
    dialect: str, base_url: str, headers: dict[str, str] | None = None
) -> _NativeClient:
    made = adapter(dialect, base_url, headers=headers, profile=PROFILE)
    assert isinstance(made, _NativeClient)
    return made


def chat(base_url: str) -> ModelClient:
    return adapter("chat", base_url, profile=PROFILE)


@asynccontextmanager
async def playing(
    dialect: str,
    *replies: Reply,
    headers: dict[str, str] | None = None,
    max_prompt_tokens: int | None = None,
) -> AsyncIterator[tuple[_NativeClient, ModelServer]]:
    async with model_server(replies, max_prompt_tokens=max_prompt_tokens) as server:
        provider = native(dialect, server.base_url, headers)
        try:
            with anyio.fail_after(20):
                yield provider, server
        finally:
            await provider.aclose()


async def answer(provider: ModelClient, request: ModelRequest) -> Answered:
    last = (await collect(provider, request))[-1]
    assert isinstance(last, Answered)
    return last


def going_on(block: m.CompactedBlock, **changed: Any) -> ModelRequest:
    """The request after a compaction: pins and ledger around the block, a verbatim
    tail, a new prompt.
    """
    first = m.UserMessage("u3", (m.Text("Pinned: bread."), block, m.Text("Ledger.")))
    tail: tuple[m.Message, ...] = (
        m.AssistantMessage("a3", (m.Text("On it."),)),
        m.UserMessage("u4", (m.Text("Now cakes."),)),
    )
    return replace(ASK, messages=(first, *tail), **changed)


async def compacted(
    provider: _NativeClient, instructions: str = "Keep all names."
) -> tuple[m.CompactedBlock, m.Usage]:
    return await provider.compact(ASK, instructions)
