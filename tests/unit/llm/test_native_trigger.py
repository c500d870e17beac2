"""OpenAI's compaction by an item at the end of an ordinary request, and by
`/responses/compact` where that fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from acp_agent.conversation import messages as m
from acp_agent.conversation.surroundings import Feature
from acp_agent.errors import CompactionRefusedError, ContextOverflowError
from acp_agent.llm.client import _NativeClient
from acp_agent.llm.places import Endpoint
from acp_agent.llm.provider import AskedAgain, ModelRequest, Refused, Retrying
from acp_agent.llm.rules import rules_at
from support.adapters import collect
from support.models import BEFORE_HEADERS, ModelServer, Reply, Request, ToolCall, Usage
from support.native import ASK, playing

GPT = replace(ASK, model="gpt-6.2-sol")
TRIGGER = {"type": "compaction_trigger"}
COMPACTED = Reply("A shop.", usage=Usage(input=10, output=50, cache_read=900))
TAKEN = "'additional_tools', 'compaction', 'configuration_update', 'function_call', 'message', and 'reasoning'"
Note = Retrying | AskedAgain | Refused


def refusal(message: str, status: int = 400) -> Reply:
    return Reply(
        http_status=status,
        body={"error": {"message": message, "type": "invalid_request_error"}},
    )


async def compacted(
    provider: _NativeClient, request: ModelRequest = GPT
) -> tuple[m.CompactedBlock, m.Usage, list[Note]]:
    """What the provider makes of a conversation, its usage, and what was noted
    meanwhile.
    """
    noted: list[Any] = []
    block, usage = await provider.compact(request, "", noted.append)
    return block, usage, noted


def paths(server: ModelServer) -> list[str]:
    """How the provider was asked, call by call."""
    return [way(call) for call in server.calls]


def way(call: Request) -> str:
    if call.path == "/v1/responses/compact":
        return "path"
    return "trigger" if call.body["input"][-1] == TRIGGER else "ordinary"


def kinds(block: m.CompactedBlock) -> list[Any]:
    """The items of a compacted conversation, the user's by their words."""
    items: Any = block.data["items"]
    return [
        item["content"][0]["text"] if "role" in item else item["type"] for item in items
    ]


async def test_the_trigger_stands_behind_the_session_s_ordinary_request_and_its_item_behind_the_user_s_messages() -> (
    None
):
    async with playing("openai", Reply("Done."), COMPACTED) as (provider, server):
        await collect(provider, GPT)
        block, usage, noted = await compacted(provider)
    ordinary, asked = server.calls
    assert asked.body.pop("input") == [*ordinary.body.pop("input"), TRIGGER]
    # A compaction may be longer than an answer.
    assert ordinary.body.pop("max_output_tokens") > 0
    assert asked.body == ordinary.body
    assert asked.path == ordinary.path
    assert kinds(block) == ["Build a shop.", "For bread.", "compaction"]
    assert (block.provider, block.text) == ("openai", "")
    assert usage == m.Usage(10, 50, 900, 0, cost=pytest.approx(0.006))  # pyright: ignore[reportArgumentType]
    assert noted == []


async def test_an_item_with_members_that_the_api_does_not_take_back_is_sent_back_without_them() -> (
    None
):
    item = {
        "id": "cmp_9",
        "type": "compaction",
        "encrypted_content": "sealed-Zm9v",
        "created_by": "me",
        "metadata": {},
    }
    answer = {
        "object": "response",
        "status": "completed",
        "output": [item],
        "usage": None,
    }
    async with playing("openai", Reply(body=answer), Reply(body=answer)) as (
        provider,
        server,
    ):
        block, _, _ = await compacted(
            provider, replace(GPT, refused=frozenset(("stream",)))
        )
    assert paths(server) == ["trigger"]
    items: Any = block.data["items"]
    assert items[-1] == {
        "id": "cmp_9",
        "type": "compaction",
        "encrypted_content": "sealed-Zm9v",
    }


@pytest.mark.parametrize(
    "said",
    [
        f"Invalid value: 'compaction_trigger'. Supported values are: {TAKEN}.",
        "Invalid input type 'compaction_trigger' at index 464",
        "unsupported input item type: compaction_trigger",
        "The 'compaction_trigger' item must be the final input item.",
        "Bad request.",
    ],
)
@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_trigger_is_followed_by_the_other_way_and_never_sent_again(
    said: str, status: int
) -> None:
    async with playing("openai", refusal(said, status), COMPACTED, COMPACTED) as (
        provider,
        server,
    ):
        block, _, noted = await compacted(provider)
        again, _, _ = await compacted(
            provider, replace(GPT, refused=frozenset(("trigger",)))
        )
    assert paths(server) == ["trigger", "path", "path"]
    assert kinds(block) == kinds(again) == ["Build a shop.", "For bread.", "compaction"]
    assert noted == [AskedAgain(), Refused("trigger")]


async def test_a_refusal_that_both_ways_meet_is_the_error_and_says_nothing_of_the_trigger() -> (
    None
):
    noted: list[Any] = []
    async with playing("openai", *[refusal("Bad request.")] * 2) as (provider, server):
        with pytest.raises(CompactionRefusedError, match="Bad request"):
            await provider.compact(GPT, "", noted.append)
    assert paths(server) == ["trigger", "path"]
    assert Refused("trigger") not in noted


ADDED = m.Amendment("n1", (), added=(replace(GPT.tools[0], name="look"),))
WITH_TOOLS = replace(
    GPT, messages=(*GPT.messages, ADDED, m.UserMessage("u3", (m.Text("Go."),)))
)
LISTED: dict[str, tuple[str, list[str], Feature]] = {
    "of added tools, which lists the trigger among the items that are taken": (
        f"Invalid value: 'additional_tools'. Supported values are: 'compaction', 'compaction_trigger', {TAKEN}.",
        ["trigger", "trigger"],
        "tools",
    ),
    "of the trigger, which lists other items of the request": (
        f"Invalid value: 'compaction_trigger'. Supported values are: {TAKEN}.",
        ["trigger", "path"],
        "trigger",
    ),
}


@pytest.mark.parametrize("refused", LISTED)
async def test_a_refusal_takes_away_what_it_names_and_not_what_it_lists(
    refused: str,
) -> None:
    said, asked, feature = LISTED[refused]
    async with playing("openai", refusal(said), COMPACTED) as (provider, server):
        _, _, noted = await compacted(provider, WITH_TOOLS)
    assert paths(server) == asked
    assert noted == [AskedAgain(), Refused(feature)]


IGNORED: dict[str, Sequence[Reply]] = {
    "text": [Reply("Sure, here you go.", compactions=0)],
    "a call": [Reply(tool_calls=[ToolCall("read", {})], compactions=0)],
    "reasoning and text": [Reply("Sure.", thinking="What now?", compactions=0)],
    "nothing": [Reply("", usage=Usage(900, 1))],
    "two compactions": [Reply("A shop.", compactions=2)],
    "one in one piece": [
        Reply(
            body={
                "object": "response",
                "status": "completed",
                "output": [],
                "usage": None,
            }
        )
    ],
}


@pytest.mark.parametrize("answers", IGNORED.values(), ids=IGNORED)
async def test_what_is_no_single_compaction_is_not_taken_for_one_and_the_other_way_is_asked(
    answers: Sequence[Reply],
) -> None:
    request = replace(GPT, refused=frozenset(("stream",))) if answers[0].body else GPT
    async with playing("openai", *answers, COMPACTED) as (provider, server):
        block, usage, noted = await compacted(provider, request)
    assert paths(server) == ["trigger", "path"]
    assert kinds(block)[-1] == "compaction"
    assert usage.prompt_tokens == 910  # of the other way alone
    refused, asked = noted
    # Also where the other way fails, since this one was answered.
    assert refused == Refused("trigger")
    assert isinstance(asked, AskedAgain)
    assert asked.usage is not None
    assert asked.usage.cost


async def test_an_ignored_trigger_is_noted_and_paid_although_the_other_way_fails() -> (
    None
):
    noted: list[Any] = []
    whole = Reply("", usage=Usage(input=40, output=7, cache_read=900))
    async with playing("openai", whole, refusal("Not found", 404)) as (
        provider,
        server,
    ):
        with pytest.raises(CompactionRefusedError):
            await provider.compact(GPT, "", noted.append)
    assert paths(server) == ["trigger", "path"]
    refused, asked = noted
    assert refused == Refused("trigger")
    assert asked.usage == m.Usage(40, 7, 900, 0, cost=pytest.approx(0.002))  # pyright: ignore[reportArgumentType]


async def test_an_ordinary_answer_is_broken_off_as_it_begins() -> None:
    long = Reply(["Sure, "] * 50, compactions=0, hang=True)
    async with playing("openai", long, COMPACTED) as (provider, server):
        _, _, noted = await compacted(provider)
        await server.wait_aborted()
    assert paths(server) == ["trigger", "path"]
    asked = noted[-1]
    assert isinstance(asked, AskedAgain)
    assert asked.usage is not None
    assert asked.usage.cache_read_tokens > 0
    assert asked.usage.input_tokens == 0


@pytest.mark.parametrize(
    "failing",
    [
        Reply("A shop.", drop_after=1),
        Reply("A shop.", sse_error="server_error", fail_after=1),
        Reply(http_status=500),
        Reply(http_status=502),
        Reply("A shop.", drop_after=BEFORE_HEADERS),
    ],
    ids=["cut", "broken off", "500", "502", "no answer"],
)
async def test_a_trigger_that_the_server_fails_at_is_sent_once_more_and_then_given_up_for_this_compaction_alone(
    failing: Reply,
) -> None:
    async with playing("openai", failing, COMPACTED, failing, failing, COMPACTED) as (
        provider,
        server,
    ):
        block, _, noted = await compacted(provider)
        other, _, given_up = await compacted(provider)
    assert paths(server) == ["trigger", "trigger", "trigger", "trigger", "path"]
    assert kinds(block) == kinds(other)
    assert [type(event) for event in noted] == [Retrying]
    assert [type(event) for event in given_up] == [Retrying, AskedAgain]


async def test_an_incomplete_compaction_is_not_taken_and_says_nothing_of_the_trigger() -> (
    None
):
    async with playing("openai", Reply("A sh", stop="max_tokens"), COMPACTED) as (
        provider,
        server,
    ):
        _, _, noted = await compacted(provider)
    assert paths(server) == ["trigger", "path"]
    assert [type(event) for event in noted] == [AskedAgain]


async def test_a_busy_server_is_asked_by_the_trigger_again_and_again() -> None:
    busy = [
        Reply(http_status=429, headers={"retry-after": "0"}),
        Reply(http_status=503),
        Reply(http_status=503),
    ]
    async with playing("openai", *busy, COMPACTED) as (provider, server):
        _, _, noted = await compacted(provider)
    assert paths(server) == ["trigger"] * 4
    assert [type(event) for event in noted] == [Retrying] * 3


async def test_a_conversation_that_does_not_fit_is_an_overflow_and_not_asked_for_in_another_way() -> (
    None
):
    async with playing("openai", max_prompt_tokens=10) as (provider, server):
        with pytest.raises(ContextOverflowError):
            await compacted(provider)
    assert paths(server) == ["trigger"]


async def test_a_second_compaction_keeps_the_user_s_messages_of_the_first_and_one_item() -> (
    None
):
    async with playing("openai", COMPACTED, Reply("Two shops.")) as (provider, server):
        block, _, _ = await compacted(provider)
        turns = (
            m.AssistantMessage("a3", (m.Text("On it."),)),
            m.UserMessage("u4", (m.Text("Now cakes."),)),
        )
        answered = m.AssistantMessage("a4", (m.Text("Baked."),))
        later = replace(GPT, messages=(m.UserMessage("u3", (block,)), *turns, answered))
        second, _, _ = await compacted(provider, later)
    items: Any = block.data["items"]
    assert server.calls[1].body["input"][1 : 1 + len(items)] == items
    assert kinds(second) == ["Build a shop.", "For bread.", "Now cakes.", "compaction"]
    newest: Any = second.data["items"]
    assert newest[-1] != items[-1]


@pytest.mark.parametrize(
    ("host", "model", "asked_by"),
    [
        ("api.openai.com", "gpt-6.2-sol", "item"),
        ("api.openai.com", "gpt-5.6-luna", "item"),
        ("work.openai.azure.com", "gpt-6.2-sol", "item"),
        ("gateway.example", "gpt-6.2-sol", "path"),
        ("openrouter.ai", "gpt-6.2-sol", "path"),
        ("api.openai.com", "another-model", "none"),
    ],
)
def test_openai_and_azure_are_asked_by_the_trigger_and_other_servers_by_the_path(
    host: str, model: str, asked_by: str
) -> None:
    assert (
        rules_at(
            Endpoint("work", "openai-responses", f"https://{host}/v1"), model
        ).asked_by
        == asked_by
    )
