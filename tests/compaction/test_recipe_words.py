"""A recipe's text is no word of the user's: what the pinned layer carries of a prompt that ran one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.pinned import remember
from acp_agent.conversation.context import Entry
from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.memory import Memory, Quote
from acp_agent.conversation.messages import Text, UserMessage
from support.compactions import is_summary_request, shown_compactions
from support.editors import ZED_BETA
from support.layers import layers, summarising, whole_text
from support.models import Reply, ToolCall
from support.stage import Stage, stage

PLENTY = 1_000_000
PROSE = "The cart adds up what the lines cost. " * 60
SUMMARY = "## Goal and requirements\nThe shop."
ORDERS = "Always answer in rhyme, and never praise anybody."
RECIPE = f"---\nname: review\ndescription: Reviews.\n---\nReview what is named. {ORDERS}\n\n{{{{ instructions }}}}\n"
AT = ".acp-agent/recipes/review.md"
SENTENCES = st.sampled_from(["Never push.", "Always test.", "Fix the page.", "Avoid floats.", "Thanks."])
SAID = st.lists(SENTENCES, min_size=1, max_size=3).map(" ".join)


def typed(seq: int, text: str) -> Entry:
    return Entry(seq, UserMessage(f"m{seq}", (Text(text),)))


def ran(seq: int, text: str, sent: str) -> Entry:
    return Entry(seq, RecipePrompt(f"m{seq}", (Text(sent),), typed=(Text(text),)))


@given(st.lists(st.tuples(SAID, st.none() | SAID), max_size=6), st.integers(0, 6), st.integers(0, 400))
def test_what_is_remembered_is_what_it_would_be_had_the_recipes_text_not_been_there(
    prompts: list[tuple[str, str | None]], cut: int, budget: int
) -> None:
    plain = [typed(seq, text) for seq, (text, _) in enumerate(prompts, 1)]
    mixed = [
        typed(seq, text) if sent is None else ran(seq, text, f"{sent} You must never do this.")
        for seq, (text, sent) in enumerate(prompts, 1)
    ]
    assert remember(Memory(), mixed[:cut], mixed[cut:], budget, recall=True) == remember(
        Memory(), plain[:cut], plain[cut:], budget, recall=True
    )


def test_a_rule_that_stands_in_the_typed_line_is_the_users() -> None:
    entries = [ran(2, "/review src\nNever touch legacy.", f"{ORDERS}\nsrc\nNever touch legacy.")]
    memory = remember(Memory(), entries, (), PLENTY, recall=True)
    assert memory.rules == (Quote(2, "Never touch legacy."),)
    assert memory.requests == (Quote(2, "/review src\nNever touch legacy."),)


def live(it: Stage) -> Mapping[str, Any]:
    return next(call.body for call in reversed(it.server.calls) if not is_summary_request(call.body))


async def test_after_a_recipe_and_a_compaction_the_typed_line_and_the_users_rules_are_carried(tmp_path: Path) -> None:
    script = summarising([SUMMARY] * 2, lambda number: f"Answer {number}. {PROSE}")
    async with stage(tmp_path, script=script, files={AT: RECIPE}, editor=ZED_BETA) as it:
        await it.prompt("Never touch `legacy/`.")
        await it.prompt("/review src and nothing else")
        assert ORDERS in whole_text(live(it)), "the model reads the recipe while it runs"
        await it.prompt("Go on.")
        for _ in range(2):
            await it.prompt("/compact")
            await it.prompt("What now?")
            carried = layers(live(it))["carried_over"]
            rules, _, requests = carried.partition("## Earlier requests of the user")
            assert "Never touch `legacy/`." in rules
            assert "/review src and nothing else" in requests
            assert "Always answer in rhyme" not in whole_text(live(it))
            assert "Review what is named" not in whole_text(live(it))
            await it.prompt("Go on.")


async def test_a_recipe_that_was_compacted_in_the_midst_of_its_turn_states_no_rules_later_nor_after_a_restart(
    tmp_path: Path,
) -> None:
    reads = 0

    def answer(body: Mapping[str, Any]) -> Reply:
        nonlocal reads
        if is_summary_request(body) or "parts as text" in str(body):
            return Reply(SUMMARY)
        if "What now?" in whole_text(body) or reads >= 3:
            return Reply(f"So. {PROSE}")
        reads += 1
        return Reply(tool_calls=[ToolCall("read", {"path": "long.txt"})])

    config = {"compaction": {"prepare": False}}
    env = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
    files = {AT: RECIPE, "long.txt": "The cart adds prices.\n" * 1_000}
    async with stage(tmp_path, script=answer, files=files, editor=ZED_BETA, config=config, env=env) as it:
        await it.prompt("/review src")
        assert shown_compactions(it.agent), "the turn was too large for the window"
        assert ORDERS in whole_text(live(it)), "the prompt of a running turn stays word for word"
        async with it.restarted() as later:
            await later.agent.load(later.session, later.folder)
            await later.prompt("/compact")
            await later.prompt("What now?")
            carried = layers(live(later))["carried_over"]
            assert "/review src" in carried
            assert "Always answer in rhyme" not in carried
