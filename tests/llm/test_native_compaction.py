"""Compactions that the providers make themselves, through the real SDKs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from acp_agent.conversation import messages as m
from acp_agent.conversation.codec import decode, encode
from acp_agent.conversation.events import UserPrompted
from acp_agent.errors import ContextOverflowError, ModelAuthError, ModelRequestError, ModelUnavailableError
from acp_agent.llm import anthropic_wire, openai_chat_wire, openai_responses_wire
from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider
from acp_agent.llm.openai import OpenAIAccess
from acp_agent.llm.openai_chat import OpenAIChatProvider
from acp_agent.llm.openai_responses import OpenAIResponsesProvider
from acp_agent.llm.profiles import ModelProfile, Prices
from acp_agent.llm.provider import (
    Answered,
    Compacted,
    CompactedNothing,
    ModelEvent,
    ModelRequest,
    NativeCompaction,
    ToolDefinition,
)
from acp_agent.llm.retry import RetryPolicy
from support.http_server import Exchange, http_server
from support.models import BEFORE_HEADERS, ModelServer, Reply, Usage, model_server

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
SIGNED = m.CompactedBlock("anthropic", {"type": "compaction", "content": "forged", "signature": "sig-0"}, "In words.")
SEALED = m.CompactedBlock(
    "openai",
    {
        "items": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi, forged"}]},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "forged"},
        ]
    },
    "In words.",
)
Native = AnthropicProvider | OpenAIResponsesProvider
NATIVE = ["anthropic", "openai"]


def native(dialect: str, base_url: str, headers: dict[str, str] | None = None) -> Native:
    if dialect == "anthropic":
        access = AnthropicAccess(api_key="test-key", base_url=base_url, headers=headers or {})
        return AnthropicProvider(access, lambda _: PROFILE, QUICK)
    return OpenAIResponsesProvider(
        OpenAIAccess(api_key="test-key", base_url=f"{base_url}/v1", headers=headers or {}), lambda _: PROFILE, QUICK
    )


def chat(base_url: str) -> OpenAIChatProvider:
    return OpenAIChatProvider(OpenAIAccess("local", "test-key", f"{base_url}/v1"), lambda _: PROFILE, QUICK)


@asynccontextmanager
async def playing(
    dialect: str, *replies: Reply, headers: dict[str, str] | None = None, max_prompt_tokens: int | None = None
) -> AsyncIterator[tuple[Native, ModelServer]]:
    async with model_server(replies, max_prompt_tokens=max_prompt_tokens) as server:
        provider = native(dialect, server.base_url, headers)
        try:
            with anyio.fail_after(20):
                yield provider, server
        finally:
            await provider.aclose()


async def answer(provider: Native | OpenAIChatProvider, request: ModelRequest) -> Answered:
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
    return await provider.compact(ASK, instructions)


def test_only_these_two_compact_themselves() -> None:
    assert isinstance(native("anthropic", "http://127.0.0.1"), NativeCompaction)
    assert isinstance(native("openai", "http://127.0.0.1"), NativeCompaction)
    assert not isinstance(chat("http://127.0.0.1"), NativeCompaction)


async def test_anthropic_returns_a_readable_block_and_the_usage_of_the_compaction() -> None:
    reply = Reply("A shop for bread.", usage=Usage(input=900, output=50, cache_read=800))
    async with playing("anthropic", reply) as (provider, server):
        made = await compacted(provider)
    assert made.block.provider == "anthropic"
    assert made.block.text == "A shop for bread."
    assert made.block.data == snapshot(
        {"type": "compaction", "content": "A shop for bread.", "signature": "sig-3309f0b9f4fd8d2e"}
    )
    assert made.usage == m.Usage(900, 50, 800, 0, cost=pytest.approx(0.0148))  # pyright: ignore[reportArgumentType]
    (call,) = server.calls
    assert call.headers["anthropic-beta"] == BETA
    assert call.body["compaction"] == {"type": "summarize", "instructions": "Keep all names."}
    assert {"context_management", "stop_sequences", "tool_choice", "output_config"} & set(call.body) == set()
    assert [tool["name"] for tool in call.body["tools"]] == ["read"]
    assert call.body["system"][0]["text"] == "Be brief."


async def test_without_instructions_anthropic_uses_its_own() -> None:
    async with playing("anthropic", Reply("A shop.")) as (provider, server):
        await compacted(provider, " \n")
    assert server.calls[0].body["compaction"] == {"type": "summarize"}


async def test_openai_returns_the_users_messages_and_an_encrypted_item_without_text() -> None:
    reply = Reply("A shop for bread.", usage=Usage(input=900, output=50, cache_read=800))
    async with playing("openai", reply) as (provider, server):
        made = await compacted(provider)
    assert (made.block.provider, made.block.text) == ("openai", "")
    assert made.block.data == snapshot(
        {
            "items": [
                {
                    "type": "message",
                    "id": "msg_1_0",
                    "status": "completed",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "Build a shop."}],
                },
                {
                    "type": "message",
                    "id": "msg_1_2",
                    "status": "completed",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "For bread."}],
                },
                {"id": "cmp_1", "type": "compaction", "encrypted_content": "sealed-QSBzaG9wIGZvciBicmVhZC4="},
            ]
        }
    )
    assert made.usage == m.Usage(900, 50, 800, 0, cost=pytest.approx(0.0148))  # pyright: ignore[reportArgumentType]
    (call,) = server.calls
    assert call.path == "/v1/responses/compact"
    assert set(call.body) == {"model", "input", "instructions", "prompt_cache_key"}
    assert call.body["instructions"] == "Be brief."


async def test_anthropics_block_goes_back_first_as_it_came_and_with_the_header() -> None:
    async with playing("anthropic", Reply("A shop."), Reply("Cakes too.")) as (provider, server):
        block = (await compacted(provider)).block
        said = await answer(provider, going_on(block))
    assert said.parts == (m.Text("Cakes too."),)
    assert server.calls[1].headers["anthropic-beta"] == BETA
    assert server.calls[1].body["messages"] == snapshot(
        [
            {
                "role": "assistant",
                "content": [{"type": "compaction", "content": "A shop.", "signature": "sig-717cf4d632e20878"}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Pinned: bread."},
                    {"type": "text", "text": "Ledger.", "cache_control": {"type": "ephemeral"}},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "On it."}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "Now cakes.", "cache_control": {"type": "ephemeral"}}],
            },
        ]
    )


async def test_openais_items_go_back_first_as_they_came() -> None:
    async with playing("openai", Reply("A shop."), Reply("Cakes too.")) as (provider, server):
        block = (await compacted(provider)).block
        said = await answer(provider, going_on(replace(block, text="A shop.")))
    assert said.parts == (m.Text("Cakes too."),)
    items = block.data["items"]
    assert isinstance(items, list)
    assert server.calls[1].body["input"][: len(items)] == items
    assert server.calls[1].body["input"][len(items) :] == snapshot(
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Pinned: bread."},
                    {"type": "input_text", "text": "Ledger."},
                ],
            },
            {"role": "assistant", "content": "On it."},
            {"role": "user", "content": [{"type": "input_text", "text": "Now cakes."}]},
        ]
    )


@pytest.mark.parametrize("dialect", NATIVE)
async def test_a_compacted_conversation_is_compacted_again(dialect: str) -> None:
    async with playing(dialect, Reply("One."), Reply("Two."), Reply("Three.")) as (provider, server):
        first = (await compacted(provider)).block
        second = (await provider.compact(going_on(replace(first, text="One.")), "")).block
        await answer(provider, going_on(replace(second, text="Two.")))
    assert second.data != first.data
    assert len(server.calls) == 3


async def test_betas_of_the_configuration_are_sent_too() -> None:
    headers = {"Anthropic-Beta": "context-1m-2025-08-07, other"}
    async with playing("anthropic", Reply("A shop."), Reply("Hi"), headers=headers) as (provider, server):
        await compacted(provider)
        await answer(provider, ASK)
    assert server.calls[0].headers["anthropic-beta"] == f"context-1m-2025-08-07,other,{BETA}"
    assert server.calls[1].headers["anthropic-beta"] == "context-1m-2025-08-07, other"


async def test_requests_without_a_block_need_no_beta() -> None:
    async with playing("anthropic", Reply("Hi")) as (provider, server):
        await answer(provider, ASK)
    assert "anthropic-beta" not in server.calls[0].headers


@pytest.mark.parametrize(("made_by", "read_by"), [("anthropic", "openai"), ("openai", "anthropic")])
async def test_the_other_provider_reads_the_text(made_by: str, read_by: str) -> None:
    block = replace(SEALED if made_by == "openai" else SIGNED, text="In words.")
    async with playing(read_by, Reply("Cakes.")) as (provider, server):
        await answer(provider, going_on(block))
    assert server.calls[0].mentions("In words.")
    assert not server.calls[0].mentions("forged")


async def test_a_chat_server_reads_the_text_whatever_its_name() -> None:
    async with model_server([Reply("Cakes.")]) as server:
        provider = chat(server.base_url)
        await answer(provider, going_on(m.CompactedBlock("local", SIGNED.data, "In words.")))
        await provider.aclose()
    assert server.calls[0].mentions("In words.")
    assert not server.calls[0].mentions("sig-0")


@pytest.mark.parametrize("dialect", NATIVE)
async def test_a_block_that_the_api_refuses_is_sent_as_text_from_then_on(dialect: str) -> None:
    forged = SIGNED if dialect == "anthropic" else SEALED
    async with playing(dialect, Reply("Cakes."), Reply("Again.")) as (provider, server):
        await answer(provider, going_on(forged))
        await answer(provider, going_on(forged))
    assert len(server.calls) == 3  # the first one was refused
    assert [call.mentions("forged") for call in server.calls] == [True, False, False]
    assert server.calls[1].mentions("In words.")


@pytest.mark.parametrize("dialect", NATIVE)
async def test_a_failure_that_passes_is_tried_again(dialect: str) -> None:
    replies = Reply(http_status=529), Reply(drop_after=BEFORE_HEADERS), Reply("A shop.")
    async with playing(dialect, *replies) as (provider, server):
        await compacted(provider)
    assert len(server.calls) == 3


@pytest.mark.parametrize("dialect", NATIVE)
async def test_errors_are_the_same_as_in_a_stream(dialect: str) -> None:
    async with playing(dialect, *[Reply(http_status=503)] * 3, Reply(http_status=404)) as (provider, server):
        with pytest.raises(ModelUnavailableError):
            await compacted(provider)
        with pytest.raises(ModelRequestError, match="as scripted"):
            await compacted(provider)
        server.key = "another"
        with pytest.raises(ModelAuthError):
            await compacted(provider)


@pytest.mark.parametrize("dialect", NATIVE)
async def test_a_conversation_that_is_too_long_to_be_compacted_is_an_overflow(dialect: str) -> None:
    async with playing(dialect, max_prompt_tokens=5) as (provider, _):
        with pytest.raises(ContextOverflowError):
            await compacted(provider)


def charged(error: ModelRequestError, input_tokens: int, output_tokens: int) -> None:
    """What the answer cost is told with the error."""
    cause = error.__cause__
    assert isinstance(cause, CompactedNothing)
    assert (cause.usage.input_tokens, cause.usage.output_tokens) == (input_tokens, output_tokens)
    assert cause.usage.cost is not None


@pytest.mark.parametrize(
    ("stop", "error"),
    [
        ("max_tokens", ModelRequestError),
        ("refusal", ModelRequestError),
        ("model_context_window_exceeded", ContextOverflowError),
    ],
)
async def test_a_compaction_of_anthropic_that_made_no_summary_is_an_error(
    stop: str, error: type[ModelRequestError]
) -> None:
    async with playing("anthropic", Reply("A sh", stop=stop, usage=Usage(100, 7))) as (provider, server):
        with pytest.raises(error) as caught:
            await compacted(provider)
    assert type(caught.value) is error
    charged(caught.value, 100, 7)
    assert len(server.calls) == 1


async def test_an_answer_of_openai_without_a_compaction_is_an_error() -> None:
    async with playing("openai", Reply("", usage=Usage(100, 7))) as (provider, _):
        with pytest.raises(ModelRequestError, match="no compaction in its answer") as caught:
            await compacted(provider)
    charged(caught.value, 100, 7)


@pytest.mark.parametrize("dialect", NATIVE)
async def test_tokens_are_counted_by_the_provider(dialect: str) -> None:
    async with playing(dialect, Reply("A shop.")) as (provider, server):
        block = (await compacted(provider)).block
        assert await provider.count_tokens(ASK) == counted(server)
        assert await provider.count_tokens(going_on(replace(block, text="x"))) == counted(server)
        if dialect == "anthropic":
            assert BETA in server.requests[-1].headers["anthropic-beta"].split(",")
            assert "max_tokens" not in server.requests[-1].body
    assert len(server.calls) == 1


def counted(server: ModelServer) -> int:
    """What the server counts for the last request."""
    return len(json.dumps(server.requests[-1].body)) // 4


@pytest.mark.parametrize("dialect", NATIVE)
async def test_where_the_provider_does_not_count_there_is_no_count(dialect: str) -> None:
    async with playing(dialect) as (provider, server):
        server.key = "another"
        assert await provider.count_tokens(ASK) is None
    assert await native(dialect, "http://127.0.0.1:9").count_tokens(ASK) is None
    assert await chat("http://127.0.0.1:9").count_tokens(ASK) is None


@pytest.mark.parametrize("dialect", NATIVE)
@pytest.mark.parametrize("body", ["<html>Log in</html>", {"ok": True}])
async def test_an_answer_of_another_kind_is_no_count(dialect: str, body: object) -> None:
    async def login(exchange: Exchange) -> None:
        await exchange.respond(200, body)

    async with http_server(login) as base_url:
        provider = native(dialect, base_url)
        assert await provider.count_tokens(ASK) is None
        if dialect == "openai":
            with pytest.raises(ModelRequestError):
                await compacted(provider)
        await provider.aclose()


async def test_where_there_is_no_key_there_is_no_count() -> None:
    nobody = OpenAIResponsesProvider(OpenAIAccess(), lambda _: PROFILE)
    assert await nobody.count_tokens(ASK) is None


def test_a_block_survives_the_log() -> None:
    event = UserPrompted("u1", (m.Text("x"), SIGNED, SEALED), ())
    assert decode(event.kind, encode(event)) == event


@pytest.mark.parametrize("block", [SIGNED, SEALED, m.CompactedBlock("google", {}, "In words.")])
def test_the_wire_forms_of_a_block(block: m.CompactedBlock) -> None:
    """Sent natively where provider and form are right, and as text everywhere else."""
    messages = (m.UserMessage("u1", (m.Text("Pinned."), block)), m.UserMessage("u2", (m.Text("Go."),)))
    asked = replace(ASK, messages=messages)
    for name in ("anthropic", "openai", "google"):
        claude = anthropic_wire.wire_messages(messages, name, compacted=anthropic_wire.compacted_of(messages, name))
        items = openai_responses_wire.wire_items(
            messages, name, compacted=openai_responses_wire.compacted_of(messages, name)
        )
        completions = openai_chat_wire.request_body(asked, PROFILE, name)["messages"]
        natively = {"anthropic": claude[0]["content"] == [SIGNED.data], "openai": items[:2] == SEALED.data["items"]}
        assert natively == {
            "anthropic": block is SIGNED and name == "anthropic",
            "openai": block is SEALED and name == "openai",
        }
        assert ("In words." in str(claude)) != natively["anthropic"]
        assert ("In words." in str(items)) != natively["openai"]
        assert "In words." in str(completions)
        assert "forged" not in str(completions)


def test_a_block_alone_leaves_no_empty_message() -> None:
    messages = (m.UserMessage("u1", (SIGNED,)), m.AssistantMessage("a1", (m.Text("Yes."),)))
    assert anthropic_wire.wire_messages(messages, None, compacted=SIGNED) == [
        {"role": "assistant", "content": [SIGNED.data, {"type": "text", "text": "Yes."}]}
    ]
    messages = (m.UserMessage("u1", (SEALED,)), m.AssistantMessage("a1", (m.Text("Yes."),)))
    assert len(openai_responses_wire.wire_items(messages, None, compacted=SEALED)) == 3
