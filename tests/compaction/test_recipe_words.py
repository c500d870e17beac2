"""A recipe's text is no word of the user's: what a compaction quotes of a prompt that ran one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.evaluation.facts import plain
from acp_agent.compaction.evaluation.needs import Script
from acp_agent.compaction.evaluation.recordings import Recording
from acp_agent.compaction.excerpts.quotes import requests_of, rules_of
from acp_agent.compaction.excerpts.selection import ExcerptIndex, choose, render
from acp_agent.compaction.frame import entry_table
from acp_agent.compaction.shortening import fit
from acp_agent.compaction.state import ConversationState
from acp_agent.compaction.verify import known_of, unverified
from acp_agent.conversation.context import Entry
from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.memory import Quote
from acp_agent.conversation.messages import Text, ToolResult, UserMessage
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


@given(st.lists(st.tuples(SAID, st.none() | SAID), max_size=6), st.integers(0, 400))
def test_what_is_quoted_is_what_it_would_be_had_the_recipes_text_not_been_there(
    prompts: list[tuple[str, str | None]], room: int
) -> None:
    plain = [typed(seq, text) for seq, (text, _) in enumerate(prompts, 1)]
    mixed = [
        typed(seq, text) if sent is None else ran(seq, text, f"{sent} You must never do this.")
        for seq, (text, sent) in enumerate(prompts, 1)
    ]
    assert rules_of(mixed, (), room) == rules_of(plain, (), room)
    assert requests_of(mixed, room, recall=True) == requests_of(plain, room, recall=True)


def test_a_rule_that_stands_in_the_typed_line_is_the_users() -> None:
    entries = [ran(2, "/review src\nNever touch legacy.", f"{ORDERS}\nsrc\nNever touch legacy.")]
    assert rules_of(entries, (), PLENTY) == (Quote(2, "Never touch legacy."),)
    assert requests_of(entries, PLENTY, recall=True) == (Quote(2, "/review src\nNever touch legacy."),)


def test_what_a_tool_printed_states_no_rules_of_the_user_when_it_is_cut() -> None:
    result = Entry(2, ToolResult("call_1", (Text(f"{PROSE * 10}\n{ORDERS}\n{PROSE * 10}"),)))
    [rewrite] = fit([result], 600, None, recall_hint=True)
    assert "Always answer in rhyme" not in str(rewrite.message.parts)


def test_a_recipes_text_and_the_line_that_ran_it_are_sources_of_names() -> None:
    state = ConversationState.of([ran(2, "/review src --fast", "Review shop/cart.py.").message], window=100_000)
    assert unverified("Reviewed `shop/cart.py`, as `src --fast` says.", known_of(state)) == ()


def test_excerpts_tell_a_recipes_text_from_what_the_user_typed() -> None:
    index = ExcerptIndex.of([ran(2, "/review src", "Review what is_named."), typed(3, "Go on, dear_model.")])
    assert render(choose(index, 1_000)).splitlines() == [
        *("[#2] user:", " /review src", "recipe:", " Review what is_named.", "[#3] user:", " Go on, dear_model.")
    ]


def test_the_table_of_entries_shows_what_was_typed() -> None:
    assert (
        entry_table([ran(2, "/review src", RECIPE), typed(3, "Go on.")]) == "[#2] user: /review src\n[#3] user: Go on."
    )


def test_a_measurement_asks_for_no_rule_of_a_recipe() -> None:
    entries = (ran(1, "/review src\nNever touch legacy.", f"{ORDERS} Never touch legacy."), typed(2, "Go on."))
    rules = [need.key for need in Script(Recording("it", "own", entries)).needs(1) if need.kind == "rules"]
    assert rules == [plain("Never touch legacy.")]


def live(it: Stage) -> Mapping[str, Any]:
    return next(call.body for call in reversed(it.server.calls) if not is_summary_request(call.body))


async def test_after_a_recipe_and_a_compaction_the_typed_line_and_the_users_rules_are_carried(tmp_path: Path) -> None:
    script = summarising([SUMMARY] * 2, lambda number: f"Answer {number}. {PROSE}")
    async with stage(tmp_path, script=script, files={AT: RECIPE}, trusted=True, editor=ZED_BETA) as it:
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
        if is_summary_request(body):
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
