"""A provider's own compaction in a conversation that goes on: in that provider's form
there, and as text elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from acp_agent.conversation import messages as m
from acp_agent.llm.provider import Refused
from support.adapters import api, collect, wire_body
from support.models import Reply
from support.native import (
    ASK,
    BETA,
    NATIVE,
    PROFILE,
    answer,
    compacted,
    going_on,
    playing,
)

GO = m.Text("Go.")
SIGNED = m.CompactedBlock(
    "anthropic",
    {"type": "compaction", "content": "forged", "signature": "sig-0"},
    "In words.",
)
SEALED = m.CompactedBlock(
    "openai",
    {
        "items": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Hi, forged"}],
            },
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "forged"},
        ]
    },
    "In words.",
)


async def test_betas_of_the_configuration_are_sent_too() -> None:
    headers = {"Anthropic-Beta": "context-1m-2025-08-07, other"}
    async with playing("anthropic", Reply("A shop."), Reply("Hi"), headers=headers) as (
        provider,
        server,
    ):
        await compacted(provider)
        await answer(provider, ASK)
    assert (
        server.calls[0].headers["anthropic-beta"]
        == f"context-1m-2025-08-07, other,{BETA}"
    )
    assert server.calls[1].headers["anthropic-beta"] == "context-1m-2025-08-07, other"


@pytest.mark.parametrize("dialect", NATIVE)
async def test_a_block_that_the_api_refuses_is_sent_as_text_at_once_and_if_it_was_refused_before(
    dialect: str,
) -> None:
    forged = SIGNED if dialect == "anthropic" else SEALED
    async with playing(dialect, Reply("Cakes."), Reply("Again.")) as (provider, server):
        events = await collect(provider, going_on(forged))
        assert events[0] == Refused("compaction")
        await answer(provider, going_on(forged, refused=frozenset(("compaction",))))
    assert len(server.calls) == 3  # the first one was refused
    assert [call.mentions("forged") for call in server.calls] == [True, False, False]
    assert server.calls[1].mentions("In words.")


@pytest.mark.parametrize(
    "block", [SIGNED, SEALED, m.CompactedBlock("google", {}, "In words.")]
)
def test_a_block_is_sent_as_it_came_where_provider_and_form_are_right_and_as_text_elsewhere(
    block: m.CompactedBlock,
) -> None:
    asked = replace(
        ASK,
        messages=(
            m.UserMessage("u1", (m.Text("Pinned."), block)),
            m.UserMessage("u2", (GO,)),
        ),
    )
    for name in ("anthropic", "openai", "google"):
        claude = wire_body("anthropic", asked, PROFILE, name)["messages"]
        items = wire_body("openai", asked, PROFILE, name)["input"]
        completions = wire_body("chat", asked, PROFILE, name)["messages"]
        natively = {
            "anthropic": claude[0]["content"] == [SIGNED.data],
            "openai": items[:2] == SEALED.data["items"],
        }
        assert natively == {
            "anthropic": block is SIGNED and name == "anthropic",
            "openai": block is SEALED and name == "openai",
        }
        assert ("In words." in str(claude)) != natively["anthropic"]
        assert ("In words." in str(items)) != natively["openai"]
        assert "In words." in str(completions)
        assert "forged" not in str(completions)


def test_a_block_alone_leaves_no_empty_message() -> None:
    yes = m.AssistantMessage("a1", (m.Text("Yes."),))
    asked = replace(ASK, messages=(m.UserMessage("u1", (SIGNED,)), yes))
    assert wire_body("anthropic", asked, PROFILE)["messages"] == [
        {"role": "assistant", "content": [SIGNED.data]},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
    ]
    asked = replace(ASK, messages=(m.UserMessage("u1", (SEALED,)), yes))
    assert len(wire_body("openai", asked, PROFILE)["input"]) == 3


@pytest.mark.parametrize("dialect", NATIVE)
def test_a_second_compaction_of_a_conversation_takes_the_place_of_the_first(
    dialect: str,
) -> None:
    adapter = api(dialect)
    first = SIGNED if dialect == "anthropic" else SEALED
    said = json.dumps(first.data).replace("forged", "second").replace("sig-0", "sig-1")
    second = replace(first, data=json.loads(said))
    turns: list[m.Message] = []
    for number in range(3):
        turns.append(m.AssistantMessage(f"a{number}", (m.Text("Yes."),)))
        turns.append(m.UserMessage(f"u{number}", (GO,)))
    for number, (block, word, other) in enumerate(
        ((first, b"forged", b"second"), (second, b"second", b"forged"))
    ):
        summary = m.UserMessage(f"summary-{number}", (block,))
        call = adapter.call(
            replace(ASK, messages=(summary, *turns)), PROFILE, frozenset(), None
        )
        assert word in call.content
        assert other not in call.content
