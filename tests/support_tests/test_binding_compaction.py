"""The model server checks compaction on demand as Anthropic does, and the thinking in
the messages that are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.binding.claude import (
    COMPACTION_BETA,
    INLINE_TOOLS_BETA,
)
from support.binding.claude_server import (
    add_tool,
    code_of,
    edit_system,
    refused,
    serving,
    three_turns,
)
from support.binding.talks import LOOK, ZAP, ClaudeTalk, blocks, entries
from support.models import Binding, Reply, model_server


async def test_kept_turns_keep_their_thinking_through_several_compactions() -> None:
    async with serving() as server:
        talk = await three_turns(server, behavior="error", betas=[COMPACTION_BETA])
        await talk.compact(2)
        assert entries(await talk.say("four")) == []
        await talk.compact(5)
        assert entries(await talk.say("five")) == []
        await talk.compact()
        talk.system = "Other."
        talk.tools = []
        assert entries(await talk.say("six")) == []
        assert server.violations == []


async def test_compacting_the_messages_of_a_sent_request_is_safe_in_the_background() -> (
    None
):
    async with serving() as server:
        talk = await three_turns(server, behavior="error", betas=[COMPACTION_BETA])
        # Ends with the tool results; the first kept message answers them.
        made = await talk.summary(5)
        assert (made.stop_reason, made.usage.output_tokens) == ("compaction", 0)
        assert made.usage.iterations is not None
        await talk.say("four")
        talk.messages = [
            {"role": "assistant", "content": blocks(made)},
            *talk.messages[5:],
        ]
        assert entries(await talk.say("five")) == []


def insert_after_block(talk: ClaudeTalk) -> None:
    talk.messages.insert(1, {"role": "user", "content": "Carried over."})


def skip_kept_turn(talk: ClaudeTalk) -> None:
    del talk.messages[1:5]
    talk.messages.insert(1, {"role": "user", "content": "Go on."})


@pytest.mark.parametrize(
    ("edit", "first"),
    [
        (insert_after_block, "messages: "),
        (skip_kept_turn, "messages: "),
        (edit_system, "system: "),
        (add_tool, "tools: "),
    ],
)
async def test_a_change_after_the_compaction_costs_the_kept_turns_their_thinking(
    edit: Callable[[ClaudeTalk], None], first: str
) -> None:
    async with serving() as server:
        talk = await three_turns(server, behavior="error", betas=[COMPACTION_BETA])
        await talk.compact(2)
        edit(talk)
        await refused(talk.say("four"))
        assert server.violations[-1].first.startswith(first)


async def test_a_compaction_request_that_differs_costs_the_kept_turns_their_thinking() -> (
    None
):
    async with serving() as server:
        talk = await three_turns(server, behavior="error", betas=[COMPACTION_BETA])
        for extra, first in (
            ({"system": "Other."}, "compaction: it had another system prompt"),
            ({"tools": [LOOK, ZAP]}, "compaction: it had other tools"),
            ({"model": "claude-sonnet-5"}, "compaction: it ran on claude-sonnet-5"),
        ):
            other = talk.branch()
            await other.compact(1, **extra)
            await refused(other.say("four"))
            assert server.violations[-1].first.startswith(first)
        merged = await three_turns(server, behavior="error", betas=[COMPACTION_BETA])
        merged.messages.insert(0, {"role": "user", "content": "zero"})
        merged.messages = merged.messages[:2]
        await merged.go_on()
        await merged.compact(1)
        await refused(merged.say("two"))
        assert "is merged into the last summarized one" in server.violations[-1].first
        # The thinking in the request itself fails.
        await refused(talk.summary(2, system="Other."))


async def test_a_new_message_after_the_kept_turns_costs_nothing() -> None:
    async with serving() as server:
        talk = await three_turns(server, behavior="error", betas=[COMPACTION_BETA])
        await talk.compact(2)
        texts = [
            {"type": "text", "text": "Carried over."},
            {"type": "text", "text": "four"},
        ]
        talk.messages.append({"role": "user", "content": texts})
        assert entries(await talk.go_on()) == []
        assert entries(await talk.say("five")) == []


async def test_a_client_side_summary_needs_kept_turns_without_thinking() -> None:
    async with serving() as server:
        talk = await three_turns(server, behavior="error")
        talk.messages = [{"role": "user", "content": "A summary."}, talk.messages[-1]]
        await refused(talk.branch().say("four"))
        other = talk.without_thinking(1)
        await other.say("four")
        assert entries(await other.say("five")) == []


async def test_a_misplaced_or_changed_compaction_block_is_refused() -> None:
    async with serving() as server:
        talk = await three_turns(server, betas=[COMPACTION_BETA])
        await talk.compact(2)

        async def code(edit: Callable[[ClaudeTalk], Any]) -> str | None:
            other = talk.branch()
            edit(other)
            return code_of(await refused(other.say("four"), "compaction"))

        def block(other: ClaudeTalk) -> dict[str, Any]:
            return other.messages[0]["content"][0]

        misplaced = {"role": "user", "content": "one"}
        assert (
            await code(lambda it: it.messages.insert(0, misplaced))
            == "compaction_block_misplaced"
        )
        assert (
            await code(lambda it: block(it).update(content="Other."))
            == "compaction_content_mismatch"
        )
        assert (
            await code(lambda it: block(it).update(signature="AAAA"))
            == "compaction_signature_invalid"
        )
        assert await code(lambda it: block(it).update(citations=None)) is None
        assert await code(lambda it: it.messages.insert(1, it.messages[0])) is None
        assert await code(lambda it: it.betas.clear()) is None

        whole = talk.branch()
        whole.messages[:2] = [
            {
                "role": "user",
                "content": [block(whole), {"type": "text", "text": "use the tool"}],
            }
        ]
        assert (
            await whole.say("four")
        ).stop_reason == "end_turn"  # the block may also begin a user message


async def test_a_request_for_a_summary_has_its_own_limits() -> None:
    async with serving() as server:
        talk = await three_turns(server)
        wanted = {"type": "summarize", "instructions": "x" * 16_385}
        await refused(talk.summary(compaction=wanted), "16384")
        await refused(talk.summary(stop_sequences=["x"]), "stop_sequences")
        await refused(talk.summary(tool_choice={"type": "any"}), "tool_choice")
        await refused(
            talk.summary(model="claude-haiku-4-5"), "not supported on this model"
        )
        await refused(talk.summary(4), "has no result")
        await refused(talk.summary(betas=[]), COMPACTION_BETA)
        empty = await refused(talk.summary(0), "nothing to summarize")
        assert code_of(empty) == "compaction_nothing_to_summarize"
    async with model_server(
        [Reply("Half", stop="max_tokens")], binding=Binding()
    ) as server:
        talk = ClaudeTalk(server)
        talk.messages = [{"role": "user", "content": "one"}]
        none = await talk.summary()
        assert (none.content, none.stop_reason) == ([], "max_tokens")


async def test_tool_changes_go_along_with_the_compaction_block() -> None:
    async with serving() as server:
        talk = ClaudeTalk(
            server, behavior="error", betas=[INLINE_TOOLS_BETA, COMPACTION_BETA]
        )
        value = {
            "type": "tool_addition",
            "tool": {"type": "tool_definition", "definition": ZAP},
        }
        talk.messages = [
            {"role": "user", "content": "one"},
            {"role": "system", "content": [value]},
        ]
        await talk.go_on()
        await talk.compact()
        assert talk.messages[0]["content"][0]["tool_changes"] == [value]
        removal = {
            "type": "tool_removal",
            "tool": {"type": "tool_reference", "name": "zap"},
        }
        talk.messages += [
            {"role": "user", "content": "two"},
            {"role": "system", "content": [removal]},
        ]
        assert entries(await talk.go_on()) == []
