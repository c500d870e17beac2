"""The model server checks reasoning items as OpenAI does, with the SDK as its client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from support.binding.talks import GptTalk, removed
from support.models import Binding, ModelServer, Reply, ToolCall, model_server

LOST = "prefix_mismatch"


def answer(body: dict[str, Any]) -> Reply:
    """Call a tool if the last item wants it."""
    last = body["input"][-1]
    if last.get("content") == "use the tool":
        return Reply("I look.", tool_calls=[ToolCall("look")])
    return Reply("Fine.")


@asynccontextmanager
async def serving(**settings: Any) -> AsyncGenerator[ModelServer, None]:
    async with model_server(answer, "openai", binding=Binding(**settings)) as server:
        yield server


async def three_turns(server: ModelServer, **params: Any) -> GptTalk:
    """Return a conversation with four reasoning items, the second of which precedes a
    call.
    """
    talk = GptTalk(server, **params)
    await talk.say("one")
    await talk.say("use the tool")
    await talk.give()
    await talk.say("three")
    assert [item.get("type") for item in talk.items].count("reasoning") == 4
    return talk


async def refused(asked: Any, words: str) -> openai.BadRequestError:
    with pytest.raises(openai.BadRequestError, match=words) as error:
        await asked
    return error.value


async def test_a_client_that_only_appends_keeps_all_of_its_reasoning() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        # After the input from GPT-6.2 on.
        talk.params["instructions"] = "For this turn."
        assert removed(await talk.say("four", max_output_tokens=99)) == []
        tool = {**talk.params["tools"][0], "name": "zap"}
        talk.items.append(
            {"type": "configuration_update", "reasoning": {"effort": "high"}}
        )
        talk.items.append(
            {"type": "additional_tools", "role": "developer", "tools": [tool]}
        )
        talk.items.append({"role": "developer", "content": "Read only."})
        assert removed(await talk.say("five")) == []
        assert (
            removed(
                await talk.say(
                    "six",
                    tool_choice={"type": "allowed_tools", "mode": "auto", "tools": []},
                )
            )
            == []
        )
        assert (server.violations, server.refusals) == ([], [])
        assert server.cached[-1].share > 0.7


async def test_reasoning_shows_a_summary_if_the_request_asks_for_one() -> None:
    async with serving() as server:
        talk = GptTalk(server)
        plain = await talk.say("one")
        shown = await talk.say("two", reasoning={"summary": "auto"})
        assert [
            item.to_dict().get("summary") for item in (plain.output[0], shown.output[0])
        ] == [
            [],
            [{"type": "summary_text", "text": "Let me think."}],
        ]


def edit_tool(talk: GptTalk) -> None:
    talk.params["tools"] = [{**talk.params["tools"][0], "description": "Looks!"}]


def edit_format(talk: GptTalk) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    talk.params["text"] = {
        "format": {"type": "json_schema", "name": "x", "schema": schema}
    }


def edit_effort(talk: GptTalk) -> None:
    talk.params["reasoning"] = {"effort": "high"}


def edit_developer(talk: GptTalk) -> None:
    talk.items[0]["content"] = "Be long."


def shorten_output(talk: GptTalk) -> None:
    talk.find("function_call_output")["output"] = "S."


@pytest.mark.parametrize(
    ("edit", "count", "first"),
    [
        (edit_tool, 4, "tools: was"),
        (edit_format, 4, "text.format: was"),
        (edit_effort, 4, "reasoning.effort: was"),
        (edit_developer, 4, "input: changed at input[0]"),
        (shorten_output, 2, "input: changed at input[8]"),
    ],
)
async def test_reasoning_after_a_change_is_removed_and_reported(
    edit: Callable[[GptTalk], None], count: int, first: str
) -> None:
    async with serving() as server:
        talk = await three_turns(server)
        ids = [item["id"] for item in talk.items if item.get("type") == "reasoning"]
        edit(talk)
        assert removed(await talk.say("four")) == [LOST] * count
        assert [violation.path for violation in server.violations] == ids[4 - count :]
        assert {violation.outcome for violation in server.violations} == {"dropped"}
        assert server.violations[0].first.startswith(first)
        # What was made since stays.
        assert removed(await talk.say("five")) == [LOST] * count


async def test_the_effort_can_be_left_out_of_the_prefix() -> None:
    async with serving(effort_binds=False) as server:
        talk = await three_turns(server)
        edit_effort(talk)
        assert removed(await talk.say("four")) == []


async def test_a_downgrade_and_another_organization_lose_the_reasoning() -> None:
    binding = Binding()
    async with model_server(answer, "openai", binding=binding) as server:
        talk = await three_turns(server)
        assert removed(await talk.send(model="gpt-6-luna")) == ["model_mismatch"] * 4
        binding.organization = "org-2"
        assert removed(await talk.send()) == ["organization_mismatch"] * 4


async def test_models_before_6_2_check_nothing() -> None:
    async with serving() as server:
        talk = await three_turns(server, model="gpt-6-luna", instructions="Be brief.")
        assert (
            removed(
                await talk.say(
                    "four", instructions="Be long.", reasoning={"effort": "none"}
                )
            )
            == []
        )


async def test_reasoning_without_a_following_item_or_a_known_seal_is_refused() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        alone = GptTalk(server)
        # Ends in reasoning, as an answer that was cut off.
        alone.items = talk.items[:-1]
        await refused(alone.send(), "without its required following item")
        await refused(alone.say("four"), "without its required following item")
        talk.find("reasoning")["encrypted_content"] = "AAAA"
        error = await refused(talk.send(), "could not be verified")
        assert error.code == "invalid_encrypted_content"
        assert [violation.reason for violation in server.violations] == ["invalid"]
        orphan = GptTalk(server)
        orphan.items.append(
            {"type": "function_call_output", "call_id": "call_x", "output": "x"}
        )
        await refused(orphan.send(), "No tool call found")


async def test_efforts_below_low_are_refused_in_requests_and_items() -> None:
    async with serving() as server:
        talk = GptTalk(server)
        for effort in ("none", "minimal"):
            error = await refused(
                talk.say("one", reasoning={"effort": effort}), "Unsupported value"
            )
            assert error.code == "unsupported_value"
        talk.items.append(
            {"type": "configuration_update", "reasoning": {"effort": "none"}}
        )
        await refused(talk.say("two"), "Unsupported value")


async def test_items_kept_after_a_window_keep_their_reasoning() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        await talk.compact(4)
        assert [item.get("type") for item in talk.items[:2]] == [
            "message",
            "compaction",
        ]
        assert removed(await talk.say("four")) == []
        assert removed(await talk.say("five")) == []
        await talk.compact(len(talk.items))
        assert removed(await talk.say("six")) == []
        assert server.violations == []


async def test_a_trigger_makes_one_item_reads_the_conversation_from_the_cache_and_keeps_the_reasoning_after_it() -> (
    None
):
    async with serving() as server:
        talk = await three_turns(server)
        made = await talk.trigger(4)
        assert [item.type for item in made.output] == ["compaction"]
        cached = server.cached[-1]
        assert cached.read > 0
        assert cached.fresh == 1  # the trigger itself is no part of the conversation
        assert removed(await talk.say("four")) == []
        again = await talk.trigger(len(talk.items))
        assert [item.type for item in again.output] == ["compaction"]
        assert removed(await talk.say("five")) == []
        assert server.violations == []


async def test_a_trigger_that_is_not_last_or_has_more_members_is_refused() -> None:
    async with serving() as server:
        talk = GptTalk(server)
        await talk.say("one")
        talk.items.append({"type": "compaction_trigger"})
        await refused(talk.say("two"), "must be the final input item")
        talk.items[-2:] = [{"type": "compaction_trigger", "id": "ct_1"}]
        await refused(talk.send(), "Unknown parameter")


async def test_an_item_inserted_after_the_window_costs_the_kept_items_their_reasoning() -> (
    None
):
    async with serving() as server:
        talk = await three_turns(server)
        await talk.compact(4)
        talk.items.insert(2, {"role": "user", "content": "Carried over."})
        assert removed(await talk.say("four")) == [LOST] * 3
        assert server.violations[0].first.startswith("input: ")
    async with serving(insertion_binds=False) as server:
        talk = await three_turns(server)
        await talk.compact(4)
        talk.items.insert(2, {"role": "user", "content": "Carried over."})
        assert removed(await talk.say("four")) == []


async def test_a_client_side_summary_costs_the_reasoning_after_it() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        talk.items[:4] = [{"role": "user", "content": "A summary."}]
        assert removed(await talk.say("four")) == [LOST] * 3
        other = await three_turns(server)
        other.items.append({"role": "user", "content": "A summary."})
        assert removed(await other.say("four")) == []


async def test_a_window_that_the_server_did_not_make_is_refused() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        await talk.compact(4)
        talk.find("compaction")["encrypted_content"] = "AAAA"
        await refused(talk.say("four"), "could not be verified")


async def test_one_rule_at_a_time_can_be_broken() -> None:
    binding = Binding()
    async with model_server(answer, "openai", binding=binding) as server:
        talk = await three_turns(server)
        binding.drop_more = True
        assert removed(await talk.send()) == [LOST]
        assert server.violations[-1].first == "nothing differs"
        assert removed(await talk.send()) == [LOST]
        binding.drop_more = False
        edit_developer(talk)
        binding.other_reason = "end_user_mismatch"
        assert set(removed(await talk.send())) == {"end_user_mismatch"}
        binding.reports = False
        assert (await talk.send()).input_transformations is None
        await talk.compact(4)
        binding.refuse_compaction = True
        await refused(talk.say("four"), "could not be verified")


async def test_instructions_are_not_cached_from_6_2_on() -> None:
    async with serving() as server:
        talk = GptTalk(server, instructions="word " * 2_000)
        await talk.say("one")
        second = await talk.say("two")
        assert server.cached[1].fresh > 2_000
        assert second.usage is not None
        assert second.usage.input_tokens_details.cached_tokens == server.cached[1].read
        old = GptTalk(server, model="gpt-6-luna", instructions="word " * 2_000)
        await old.say("one")
        await old.say("two")
        assert server.cached[-1].share > 0.9
