"""The model server checks thinking as Anthropic does, with the SDK as its client."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from support.binding.claude import (
    BINDING_BETA,
    CLEAR_AT_BETA,
    COMPACTION_BETA,
    INLINE_TOOLS_BETA,
    OUTPUT_CONFIG_BETA,
    TOOL_CHANGES_BETA,
)
from support.binding.claude_server import (
    PREFIX,
    add_tool,
    answer,
    code_of,
    edit_system,
    refused,
    serving,
    three_turns,
)
from support.binding.messages_form import canonical_block
from support.binding.talks import LOOK, ZAP, ClaudeTalk, blocks, entries
from support.models import Binding, model_server


async def test_a_client_that_only_appends_keeps_all_of_its_thinking() -> None:
    async with serving() as server:
        talk = await three_turns(server, betas=[BINDING_BETA])
        await talk.say("use two tools")
        await talk.give()
        await talk.say("think twice")
        last = await talk.say("four")
        assert entries(last) == []
        kinds = [
            block["type"]
            for message in talk.messages[9:15:2]
            for block in message["content"]
        ]
        calls = "thinking text tool_use thinking tool_use"
        assert " ".join(kinds) == f"{calls} thinking text thinking thinking text"
        assert (server.violations, server.refusals) == ([], [])
        assert server.cached[-1].share > 0.7


async def test_thinking_is_streamed_without_its_words_unless_a_summary_is_asked_for() -> (
    None
):
    async with serving() as server:
        talk = ClaudeTalk(server)
        omitted = await talk.say("one")
        talk.thinking = {"type": "adaptive", "display": "summarized"}
        shown = await talk.say("two")
        assert [
            block["thinking"] for block in (blocks(omitted)[0], blocks(shown)[0])
        ] == ["", "Let me think."]
        assert (await talk.say("three")).stop_reason == "end_turn"


async def test_nothing_is_reported_without_the_beta_header() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        assert (await talk.say("four")).input_transformations is None


async def test_documented_non_edits_keep_the_thinking() -> None:
    async with serving() as server:
        talk = await three_turns(server, behavior="error", tools=(LOOK, ZAP))
        marked = {"cache_control": {"type": "ephemeral"}}
        talk.tools = [
            {**ZAP, **marked, "type": "custom"},
            {**LOOK, "input_schema": {"properties": {}, "type": "object"}},
        ]
        talk.system = [{"type": "text", "text": "  Be brief.\n", **marked}]
        for message in talk.messages:
            if isinstance(message["content"], str):
                message["content"] = [
                    {"text": f" {message['content']}\n", "type": "text", **marked}
                ]
        talk.messages[4]["content"][0] |= {
            "content": [{"type": "text", "text": "Seen."}],
            "is_error": False,
        }
        last = await talk.say(
            "four",
            max_tokens=77,
            metadata={"user_id": "u"},
            tool_choice={"type": "none"},
        )
        assert entries(last) == []
        assert entries(await talk.say("five", output_config={"effort": "low"})) == []


def test_blank_texts_and_numbers_written_in_another_way_are_equal() -> None:
    assert canonical_block({"type": "text", "text": " \n"}) is None
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": ""}],
    }
    assert canonical_block(result) == canonical_block(
        {"tool_use_id": "t", "type": "tool_result", "is_error": False}
    )


def edit_tool(talk: ClaudeTalk) -> None:
    talk.tools[0]["description"] = "Looks!"


def edit_prompt(talk: ClaudeTalk) -> None:
    talk.messages[0]["content"] = "One"


def shorten_result(talk: ClaudeTalk) -> None:
    talk.messages[4]["content"][0]["content"] = "S."


def edit_arguments(talk: ClaudeTalk) -> None:
    talk.messages[3]["content"][-1]["input"] = {"path": "a"}


def rename_call(talk: ClaudeTalk) -> None:
    talk.messages[3]["content"][-1]["id"] = "own"
    talk.messages[4]["content"][0]["tool_use_id"] = "own"


def leave_out_turn(talk: ClaudeTalk) -> None:
    del talk.messages[:2]


def add_reminder(talk: ClaudeTalk) -> None:
    text = {"type": "text", "text": "Remember."}
    talk.messages[2]["content"] = [
        {"type": "text", "text": talk.messages[2]["content"]},
        text,
    ]


@pytest.mark.parametrize(
    ("edit", "first"),
    [
        (edit_system, "system: changed at system.0"),
        (edit_tool, "tools: look changed"),
        (add_tool, "tools: zap was added"),
        (edit_prompt, "messages: changed at messages.0.content.0"),
        (shorten_result, "messages: changed at messages.4.content.0"),
        (edit_arguments, "messages: changed at messages.3.content.2"),
        (rename_call, "messages: changed at messages.3.content.2"),
        (leave_out_turn, "messages: removed before messages.0.content.0"),
        (add_reminder, "messages: inserted at messages.2.content.1"),
    ],
)
async def test_an_edit_is_refused_with_the_path_and_described(
    edit: Callable[[ClaudeTalk], None], first: str
) -> None:
    async with serving() as server:
        talk = await three_turns(server)
        edit(talk)
        error = await refused(talk.say("four"))
        [violation] = server.violations
        assert violation.first.startswith(first)
        assert (violation.call, violation.reason, violation.outcome) == (
            5,
            PREFIX,
            "refused",
        )
        assert (
            f"{violation.path}: Invalid `signature` in `thinking` block."
            in error.message
        )
        assert BINDING_BETA in error.message
        assert [refusal.call for refusal in server.refusals] == [5]


async def test_drop_block_drops_only_the_blocks_after_the_edit() -> None:
    async with serving() as server:
        talk = await three_turns(server, behavior="drop_block")
        shorten_result(talk)
        dropped = [
            ("thinking_dropped", f"messages.{index}.content.0", PREFIX)
            for index in (5, 7)
        ]
        assert entries(await talk.say("four")) == dropped
        # What was made since is valid.
        assert entries(await talk.say("five")) == dropped
        assert entries(await talk.without_thinking(5, 7).say("six")) == []


async def test_thinking_may_be_removed_from_both_ends_but_not_from_the_middle_or_put_back() -> (
    None
):
    async with serving() as server:
        talk = await three_turns(server, behavior="error")
        for indices in ((1,), (7,), (1, 3), (1, 3, 5, 7)):
            await talk.without_thinking(*indices).say("four")
        await refused(talk.without_thinking(3).say("four"))
        assert "not the one that was there" in server.violations[-1].first
        shorter = talk.without_thinking(7)
        await shorter.say("four")
        shorter.messages[7] = copy.deepcopy(talk.messages[7])
        await refused(shorter.say("five"))


async def test_an_open_round_may_lose_its_thinking_unless_thinking_has_a_budget() -> (
    None
):
    async with serving() as server:
        talk = ClaudeTalk(server)
        await talk.say("use the tool")
        await talk.without_thinking(1).give()
        budget = {"type": "enabled", "budget_tokens": 1_024}
        old = ClaudeTalk(server, model="claude-opus-4-5", thinking=budget)
        await old.say("use the tool")
        await old.branch().give()
        await refused(
            old.without_thinking(1).give(), "must start with a thinking block"
        )


async def test_an_old_account_lets_mismatches_through_and_reports_them() -> None:
    async with serving(account="old") as server:
        talk = await three_turns(server, betas=[BINDING_BETA])
        edit_system(talk)
        allowed = [
            ("thinking_mismatch_allowed", f"messages.{index}.content.0", PREFIX)
            for index in (1, 3, 5, 7)
        ]
        assert entries(await talk.say("four")) == allowed
        assert {violation.outcome for violation in server.violations} == {"allowed"}
        talk.behavior = "error"
        await refused(talk.say("five"))
        always = await three_turns(server, model="claude-fable-5-2")
        edit_system(always)
        await refused(always.say("four"))


async def test_models_without_preserved_thinking_check_nothing() -> None:
    async with serving() as server:
        talk = await three_turns(server, model="claude-sonnet-5", behavior="error")
        edit_system(talk)
        assert entries(await talk.say("four")) == []


async def test_a_changed_signature_or_text_is_refused_whatever_the_settings_say() -> (
    None
):
    async with serving(account="old") as server:
        talk = await three_turns(server, behavior="drop_block")
        tampered = talk.branch()
        tampered.messages[1]["content"][0]["signature"] = "AAAA"
        error = await refused(
            tampered.say("four"), "Invalid `signature` in `thinking` block"
        )
        assert "different conversation" not in error.message
        talk.messages[1]["content"][0]["thinking"] = "Other words."
        await refused(talk.say("four"), "cannot be modified")
        assert {violation.reason for violation in server.violations} == {"invalid"}


async def test_the_controls_need_their_header_and_a_type_that_has_them() -> None:
    async with serving() as server:
        talk = ClaudeTalk(server)
        controls = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        extra = "block_binding: Extra inputs are not permitted"
        await refused(talk.say("one", thinking={"type": "adaptive", **controls}), extra)
        talk.betas = [BINDING_BETA]
        await refused(talk.send(thinking={"type": "between_tools", **controls}), extra)
        await talk.send(thinking={"type": "adaptive", "block_binding": {}})


async def test_an_unreadable_block_is_dropped_until_its_model_is_back() -> None:
    async with serving() as server:
        talk = await three_turns(server, model="claude-opus-5-5", behavior="error")
        talk.model = "claude-sonnet-5-5"
        assert {reason for _, _, reason in entries(await talk.say("four"))} == {
            "model_binding_mismatch"
        }
        talk.model = "claude-opus-5-5"
        assert entries(await talk.say("five")) == []
        older = await three_turns(server, model="claude-opus-5", behavior="error")
        edit_system(older)  # an older model's block has no record of its conversation
        older.model = "claude-opus-5-5"
        assert entries(await older.say("four")) == []


async def test_the_blocks_of_some_models_stay_in_their_organization() -> None:
    binding = Binding()
    async with model_server(answer, binding=binding) as server:
        talk = await three_turns(server, behavior="error")
        free = await three_turns(server, model="claude-opus-5-5", behavior="error")
        binding.organization = "org-2"
        assert {reason for _, _, reason in entries(await talk.say("four"))} == {
            "organization_binding_mismatch"
        }
        assert entries(await free.say("four")) == []


@pytest.mark.parametrize(
    ("model", "kind", "accepted"),
    [
        ("claude-opus-5-5", "disabled", False),
        ("claude-fable-5-2", "disabled", False),
        ("claude-sonnet-5-5", "disabled", False),
        ("claude-sonnet-5-5", "between_tools", True),
        ("claude-opus-5-5", "between_tools", False),
        ("claude-haiku-5-5", "disabled", True),
        ("claude-sonnet-5", "disabled", True),
        ("claude-sonnet-5", "enabled", False),
        ("claude-opus-4-5", "enabled", True),
    ],
)
async def test_each_model_takes_its_own_types_of_thinking(
    model: str, kind: str, accepted: bool
) -> None:
    async with serving() as server:
        talk = ClaudeTalk(
            server, model=model, thinking={"type": kind, "budget_tokens": 1_024}
        )
        if accepted:
            said = await talk.say("one")
            assert said.content[0].type == ("thinking" if kind == "enabled" else "text")
        else:
            await refused(talk.say("one"), "not supported|between_tools")


async def test_a_deferred_tool_counts_once_named_and_tools_can_be_added_by_value() -> (
    None
):
    async with serving() as server:
        talk = await three_turns(server, behavior="error", betas=[TOOL_CHANGES_BETA])
        talk.tools.append({**ZAP, "defer_loading": True})
        await talk.say("four")
        reference = {
            "type": "tool_addition",
            "tool": {"type": "tool_reference", "name": "zap"},
        }
        talk.messages.append({"role": "user", "content": "five"})
        talk.messages.append(
            {
                "role": "system",
                "content": [reference, {"type": "text", "text": "Read only."}],
            }
        )
        await talk.go_on()
        assert entries(await talk.say("six")) == []
        talk.tools[1]["description"] = "Zaps!"
        await refused(talk.branch().say("seven"))
        assert server.violations[-1].path == "messages.12.content.0"

        value = {
            "type": "tool_addition",
            "tool": {"type": "tool_definition", "definition": ZAP},
        }
        other = await three_turns(server, behavior="error", betas=[INLINE_TOOLS_BETA])
        other.messages.append({"role": "user", "content": "four"})
        other.messages.append({"role": "system", "content": [value]})
        await other.go_on()
        assert entries(await other.say("five")) == []
        other.betas = [TOOL_CHANGES_BETA]
        await refused(other.say("six"), "tool_definition")


async def test_system_messages_have_their_place_their_models_and_their_betas() -> None:
    async with serving() as server:
        talk = await three_turns(server, behavior="error")
        note = {"role": "system", "content": "Be quick."}
        after_answer = talk.branch()
        after_answer.messages += [note]
        await refused(after_answer.send(), "has to follow a user message")
        before_prompt = talk.branch()
        before_prompt.messages += [{"role": "user", "content": "four"}, note]
        await refused(before_prompt.branch().say("five"), "has to be last or precede")
        await before_prompt.go_on()
        before_prompt.messages += [{"role": "user", "content": "five"}, note, note]
        await refused(before_prompt.send(), "has to")
        old = ClaudeTalk(server, model="claude-sonnet-5")
        old.messages = [{"role": "user", "content": "one"}, note]
        await refused(old.send(), "not supported on this model")

        talk.messages += [
            {"role": "user", "content": "four"},
            {**note, "clear_at": "next_user_message"},
        ]
        await refused(talk.send(), "clear_at: Extra inputs")
        talk.betas = [CLEAR_AT_BETA]
        await talk.go_on()
        talk.messages.append(
            {"role": "system", "content": [], "output_config": {"effort": "low"}}
        )
        await refused(talk.branch().say("five"), "output_config: Extra inputs")
        talk.betas = [CLEAR_AT_BETA, OUTPUT_CONFIG_BETA]
        assert entries(await talk.say("five")) == []
        del talk.messages[9]
        await refused(talk.say("six"))


async def test_unpaired_calls_and_blank_texts_are_refused() -> None:
    async with serving() as server:
        talk = ClaudeTalk(server)
        await talk.say("use the tool")
        await refused(talk.branch().say("two"), "without `tool_result`")
        orphan = ClaudeTalk(server)
        orphan.messages = [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "x"}
                ],
            }
        ]
        await refused(orphan.send(), "unexpected `tool_use_id`")
        await refused(ClaudeTalk(server).say(" "), "non-empty")
        talk.messages = [talk.messages[0], {"role": "assistant", "content": "I"}]
        await refused(talk.send(), "prefill")


async def test_counting_tokens_runs_the_same_check() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        assert await talk.count() > 0
        edit_system(talk)
        await refused(talk.count())
        assert server.violations[-1].call == 0


async def test_one_rule_at_a_time_can_be_broken() -> None:
    binding = Binding()
    async with model_server(answer, binding=binding) as server:
        talk = await three_turns(server, behavior="drop_block", betas=[COMPACTION_BETA])
        binding.drop_more = True
        assert entries(await talk.say("four")) == [
            ("thinking_dropped", "messages.7.content.0", PREFIX)
        ]
        assert entries(await talk.without_thinking(7).say("five")) == []
        binding.drop_more = False

        talk = await three_turns(server, behavior="drop_block", betas=[COMPACTION_BETA])
        edited = talk.branch()
        shorten_result(edited)
        binding.other_reason = "end_user_binding_mismatch"
        assert {
            reason for _, _, reason in entries(await edited.branch().say("four"))
        } == {"end_user_binding_mismatch"}
        binding.other_reason = ""
        binding.reports = False
        assert (await edited.branch().say("four")).input_transformations is None
        binding.reports = True
        binding.always_error = True
        await refused(edited.branch().say("four"))
        binding.always_error = False

        binding.refuse_header = "header"
        await refused(talk.branch().say("four"), "Unexpected value.*anthropic-beta")
        binding.refuse_header = "field"
        await refused(talk.branch().say("four"), "block_binding: Extra inputs")
        binding.refuse_header = None
        await talk.compact(2)
        binding.refuse_compaction = True
        assert (
            code_of(await refused(talk.say("four"), "compaction"))
            == "compaction_signature_invalid"
        )


async def test_the_default_behavior_applies_if_a_request_names_none() -> None:
    async with serving(behavior="drop_block") as server:
        talk = await three_turns(server, betas=[BINDING_BETA])
        edit_system(talk)
        assert len(entries(await talk.say("four"))) == 4


async def test_an_edit_restarts_the_cache_and_appending_does_not() -> None:
    async with serving() as server:
        talk = ClaudeTalk(server, behavior="drop_block")
        talk.system = "word " * 2_000
        first = await talk.say("one")
        second = await talk.say("two")
        assert (
            first.usage.cache_read_input_tokens,
            second.usage.cache_read_input_tokens,
        ) == (0, server.cached[1].read)
        assert server.cached[1].share > 0.8
        await talk.say("three", output_config={"effort": "low"})
        assert server.cached[2].read == 0
        talk.system = "other " * 2_000
        await talk.say("four")
        assert server.cached[3].share < 0.1
