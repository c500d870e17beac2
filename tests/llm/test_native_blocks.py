"""A provider's own compaction in a conversation that goes on: in that provider's form there, and as text elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from acp_agent.conversation import messages as m
from acp_agent.conversation.codec import decode, encode
from acp_agent.conversation.events import UserPrompted
from acp_agent.llm import anthropic_wire, openai_chat_wire, openai_responses_wire
from support.models import Reply, model_server
from support.native import ASK, BETA, NATIVE, PROFILE, answer, chat, compacted, going_on, playing

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
