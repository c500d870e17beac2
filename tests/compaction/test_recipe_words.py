"""A recipe's text is no word of the user's: what the pinned layer carries of a prompt that ran one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.evaluation.needs import Script
from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.compaction.evaluation.texts import plain
from acp_agent.compaction.framing import entry_table
from acp_agent.compaction.pinned import remember
from acp_agent.compaction.provenance import Source, check
from acp_agent.compaction.shortening import fit
from acp_agent.compaction.strategies.chunked import rendered
from acp_agent.conversation.context import Entry
from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.memory import Memory, Quote
from acp_agent.conversation.messages import Text, ToolResult, UserMessage
from support.compactions import is_summary_request, shown_compactions
from support.dialogues import asks_for_part
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


def test_a_giant_recipe_is_cut_like_a_file_and_keeps_of_rules_those_that_were_typed() -> None:
    sent = f"{PROSE * 10}\n{ORDERS}\nNever touch legacy.\n{PROSE * 10}"
    recipe = ran(2, "/review src\nNever touch legacy.", sent)
    [rewrite] = fit([recipe], 600, None, recall_hint=True)
    text = str(rewrite.message.parts)
    assert "characters" in text
    assert "Never touch legacy." in text
    assert "Always answer in rhyme" not in text


def test_what_a_tool_printed_states_no_rules_of_the_user_when_it_is_cut() -> None:
    result = Entry(2, ToolResult("call_1", (Text(f"{PROSE * 10}\n{ORDERS}\n{PROSE * 10}"),)))
    [rewrite] = fit([result], 600, None, recall_hint=True)
    assert "Always answer in rhyme" not in str(rewrite.message.parts)


def test_a_recipes_text_is_a_source_of_names_but_no_wish_of_the_user() -> None:
    text = "Review shop/cart.py in 7 steps and drop every staging database."
    source = Source.of([ran(2, "/review src --fast", text)])
    assert [flag.text for flag in check("Reviewed `shop/cart.py` in 7 steps, as `src --fast` says.", source)] == []
    claim = "The user asked to drop every staging database."
    assert check(claim, source)
    assert not check(claim, Source.of([typed(2, text)]))


def test_the_table_of_entries_shows_what_was_typed() -> None:
    assert (
        entry_table([ran(2, "/review src", RECIPE), typed(3, "Go on.")]) == "[#2] user: /review src\n[#3] user: Go on."
    )


def test_in_parts_a_recipes_text_is_not_said_to_be_the_users_words() -> None:
    lines = rendered(ran(2, "/review src", "Review what is named."), 1_000).splitlines()
    assert lines[:2] == ["[#2] user:", "/review src"]
    assert "recipe" in lines[2]
    assert "not the user's words" in lines[2]
    assert lines[3:] == ["Review what is named."]
    assert rendered(typed(3, "Go on."), 1_000) == "[#3] user:\nGo on."


async def test_a_model_that_is_asked_in_parts_reads_who_wrote_what(tmp_path: Path) -> None:
    script = summarising([SUMMARY] * 4, lambda number: f"Answer {number}. {PROSE * 8}")
    async with stage(tmp_path, script=script, files={AT: RECIPE}, trusted=True, editor=ZED_BETA) as it:
        await it.prompt("/review src and nothing else")
        await it.prompt("Go on.")
        it.server.max_prompt_tokens = 8_000
        await it.prompt("/compact")
        parts = "".join(whole_text(call.body) for call in it.server.calls if asks_for_part(call.body))
        typed_line, _, others = parts.partition("] user:\n/review src and nothing else\n")[2].partition("\n")
        assert typed_line.endswith("text of a recipe that the user ran so, not the user's words:")
        assert others.startswith("Review what is named. Always answer in rhyme")
        assert "user:\nReview" not in parts


def test_a_measurement_asks_for_no_rule_of_a_recipe() -> None:
    entries = (ran(1, "/review src\nNever touch legacy.", f"{ORDERS} Never touch legacy."), typed(2, "Go on."))
    rules = [need.key for need in Script(Recording("it", "own", entries)).needs(1) if need.kind == "rules"]
    assert rules == [plain("Never touch legacy.")]


async def test_the_users_language_is_that_of_what_was_typed(tmp_path: Path) -> None:
    script = summarising([SUMMARY], lambda number: f"Antwort {number}. {PROSE}")
    recipe = RECIPE.replace(
        "Review what", "Please review all of the code that you find in the folder and say what " * 9
    )
    async with stage(tmp_path, script=script, files={AT: recipe}, trusted=True, editor=ZED_BETA) as it:
        await it.prompt("Bitte lies den Warenkorb und sag mir, was dir daran nicht gefällt.")
        await it.prompt("/review src und sonst nichts, aber das bitte sehr genau")
        await it.prompt("/compact")
        await it.prompt("Weiter.")
        assert "The user writes German." in layers(live(it))["carried_over"]


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
