"""Compactions that the providers make themselves, through the real SDKs."""

from __future__ import annotations

import pytest

from acp_agent.conversation import messages as m
from acp_agent.errors import ContextOverflowError, ModelRequestError
from acp_agent.llm.provider import NativeCompaction
from support.models import Reply, Usage
from support.native import BETA, chat, compacted, native, playing


def test_only_these_two_compact_themselves() -> None:
    assert isinstance(native("anthropic", "http://127.0.0.1"), NativeCompaction)
    assert isinstance(native("openai", "http://127.0.0.1"), NativeCompaction)
    assert not isinstance(chat("http://127.0.0.1"), NativeCompaction)


async def test_anthropic_returns_a_readable_block_and_the_usage_of_the_compaction() -> (
    None
):
    reply = Reply(
        "A shop for bread.", usage=Usage(input=900, output=50, cache_read=800)
    )
    async with playing("anthropic", reply, Reply("A shop.")) as (provider, server):
        block, usage = await compacted(provider)
        await compacted(provider, " \n")
    assert block.provider == "anthropic"
    assert block.text == "A shop for bread."
    assert block.data == {
        "type": "compaction",
        "content": "A shop for bread.",
        "signature": "sig-3309f0b9f4fd8d2e",
    }
    assert usage == m.Usage(900, 50, 800, 0, cost=pytest.approx(0.0148))  # pyright: ignore[reportArgumentType]
    call, without = server.calls
    assert without.body["compaction"] == {"type": "summarize"}
    assert call.headers["anthropic-beta"] == BETA
    assert call.body["compaction"] == {
        "type": "summarize",
        "instructions": "Keep all names.",
    }
    assert {
        "context_management",
        "stop_sequences",
        "tool_choice",
        "output_config",
    } & set(call.body) == set()
    assert [tool["name"] for tool in call.body["tools"]] == ["read"]
    assert call.body["system"][0]["text"] == "Be brief."


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
    async with playing("anthropic", Reply("A sh", stop=stop, usage=Usage(100, 7))) as (
        provider,
        server,
    ):
        with pytest.raises(error) as caught:
            await compacted(provider)
    assert type(caught.value) is error
    assert len(server.calls) == 1


async def test_an_answer_of_openai_without_a_compaction_is_an_error() -> None:
    async with playing("openai", Reply("", usage=Usage(100, 7))) as (provider, _):
        with pytest.raises(ModelRequestError, match="returned no summary"):
            await compacted(provider)
