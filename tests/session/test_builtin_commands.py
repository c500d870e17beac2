"""The commands that are no recipes, beside `/pin` and `/undo`: what they say, and what they change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import TokenBudget
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import LoggedEvent
from acp_agent.session.commands import BUILT_IN
from acp_agent.session.filling import KINDS, filling_text, scaled, sizes_of
from support.logs import legal_logs
from support.models import Reply, ToolCall, Usage
from support.stage import Stage, stage

USAGE = "---\ndescription: Use it\narguments:\n  depth: {description: how deep, default: '2'}\n---\nUse it.\n"


async def said(it: Stage, prompt: str) -> str:
    """Send a command, and what it said."""
    since, asked = len(it.agent.lines), len(it.server.calls)
    assert await it.prompt(prompt) == {"stopReason": "end_turn"}
    assert len(it.server.calls) == asked
    return it.agent.text(since=since)


def rows(table: str) -> dict[str, int]:
    """Tokens by what is in the first column."""
    found = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| [\d.]+% \|$", table, re.MULTILINE)
    return {name: int(tokens.replace(",", "")) for name, tokens in found}


async def test_they_are_offered_with_hints_and_no_recipe_can_take_their_names(tmp_path: Path) -> None:
    recipes = {f".acp-agent/recipes/{command.name}.md": "Mine.\n" for command in BUILT_IN}
    async with stage(tmp_path, files=recipes) as it:
        [update] = it.agent.updates(kind="available_commands_update")
        offered: dict[str, Mapping[str, Any]] = {offer["name"]: offer for offer in update["availableCommands"]}
        assert list(offered)[-7:] == ["context", "export", "help", "model", "pin", "undo", "unpin"]
        hints = {name: (offered[name].get("input") or {}).get("hint") for name in ("export", "model", "undo")}
        assert hints == {"export": "path", "model": "provider/model", "undo": None}
        assert "There is nothing to undo" in await said(it, "/undo")


# --- /context ---


async def test_context_says_what_fills_the_window_and_leaves_no_trace(tmp_path: Path) -> None:
    replies = [
        Reply("Let me look.", tool_calls=[ToolCall("read", {"path": "a.txt"})], usage=Usage(9_000, 50)),
        Reply("A cart.", usage=Usage(12_000, 345)),
    ]
    async with stage(tmp_path, *replies, env={"ACP_AGENT_CONTEXT_WINDOW": "40000"}, dialect="anthropic") as it:
        before = rows(await said(it, "/context"))
        assert set(before) == {"System prompt", "Tools", "**In use**", "Kept for the answer", "Free"}
        await it.prompt("What is it?")
        await said(it, "/pin prices are cents")
        text = await said(it, "/context")
        table = rows(text)
        assert text.startswith("`anthropic/claude-test` has a window of 40,000 tokens.")
        assert "the provider's last count" in text
        kinds = [name for name in table if name in KINDS]
        assert kinds == [
            *("System prompt", "Tools", "Pinned texts", "Your prompts"),
            *("Answers", "Calls of tools", "Results of tools", "Notes to the model"),
        ]
        assert 12_345 < table["**In use**"] < 12_600
        assert sum(table[kind] for kind in kinds) == table["**In use**"]
        assert table["**In use**"] + table["Kept for the answer"] + table["Free"] == 40_000
        begun = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        assert "/context" not in "".join(it.agent.texts("user_message_chunk", since=begun).values())


async def test_context_tells_a_summary_from_what_is_carried_beside_it(tmp_path: Path) -> None:
    replies = [Reply("The cart adds prices. " * 900), Reply("# Goal\nA cart. " * 30)]
    async with stage(tmp_path, *replies) as it:
        await it.prompt("Never touch `prices.py`. What is it?")
        await said(it, "/pin prices are cents")
        await it.prompt("/compact")
        text = await said(it, "/context")
        assert {"Pinned texts", "Carried over word for word", "Summary"} <= rows(text).keys()
        assert "Answers" not in rows(text)
        assert "What is in use is an estimate" in text


@given(st.dictionaries(st.sampled_from(KINDS), st.integers(0, 10**6), min_size=1), st.integers(0, 10**6))
def test_shares_of_another_total_add_up_to_it(sizes: dict[str, int], total: int) -> None:
    shares = scaled(sizes, total)
    assert sum(shares.values()) == (total if any(sizes.values()) else 0)
    whole = sum(sizes.values())
    assert all(abs(shares[kind] * whole - size * total) <= whole for kind, size in sizes.items())


@given(legal_logs(max_turns=3), st.integers(0, 5_000))
def test_every_context_can_be_told_of_and_nothing_counts_less_than_nothing(
    log: tuple[LoggedEvent, ...], prefix: int
) -> None:
    context = Context.from_log(log)
    sizes = sizes_of(context, prefix)
    assert min(sizes.values()) >= 0
    assert bool(context.entries or prefix or context.instructions) >= bool(sum(sizes.values()))
    assert "**In use**" in filling_text("a/b", context, prefix, 0, TokenBudget(10_000, 1_000))


# --- /model ---


async def test_model_changes_what_the_menu_changes_and_refuses_what_is_none(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes."), dialect="anthropic") as it:
        shown = await said(it, "/model")
        assert shown.startswith("The model of this session is `anthropic/claude-test`.")
        begun = len(it.agent.lines)
        assert await said(it, "/model anthropic/claude-haiku-4-5") == (
            "The model of this session is `anthropic/claude-haiku-4-5` now."
        )
        [update] = it.agent.updates(kind="config_option_update", since=begun)
        current = {option["id"]: option["currentValue"] for option in update["configOptions"]}
        assert current["model"] == "anthropic/claude-haiku-4-5"
        named = await said(it, "/model claude-test")
        assert "a model is named `provider/model`. Did you mean `anthropic/claude-test`?" in named
        unknown = await said(it, "/model openia/gpt")
        assert unknown.startswith("'openia/gpt' cannot be chosen: there is no provider 'openia' (others go under")
        assert "did you mean `openai`? On the menu are: anthropic/claude-" in unknown
        assert "known are: anthropic, " in await said(it, "/model foo/bar")
        assert "`anthropic/claude-haiku-4-5`" in await said(it, "/model")
        await it.prompt("Are you there?")
        assert it.server.calls[0].body["model"] == "claude-haiku-4-5"


# --- /help ---


async def test_help_lists_recipes_and_commands_with_what_may_follow_them(tmp_path: Path) -> None:
    async with stage(tmp_path, files={".acp-agent/recipes/use/it.md": USAGE}) as it:
        lines = (await said(it, "/help")).splitlines()
    assert "- `/use:it depth=… instructions`: Use it (the project's)" in lines
    assert "  - `depth=`: how deep; by default 2" in lines
    assert any(line.startswith("- `/commit instructions`: ") for line in lines)
    for command in BUILT_IN:
        assert f"- `/{command.name} {command.hint or ''}".rstrip() in "\n".join(lines)


# --- /export ---


async def test_export_asks_writes_the_whole_conversation_and_says_where(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("A cart.")) as it:
        await it.prompt("What is it?")
        it.agent.permission_answer = "reject_once"
        assert await said(it, "/export notes/talk.md") == "Nothing was written."
        assert not (it.folder / "notes").exists()
        it.agent.permission_answer = "allow_once"
        text = await said(it, "/export notes/talk.md")
        asked = [line for line in it.agent.lines if line.method == "session/request_permission"]
        assert asked[-1].params["toolCall"]["title"] == "Write notes/talk.md"
        written = (it.folder / "notes/talk.md").read_text()
        assert text == f"The conversation was written to `notes/talk.md` ({len(written):,} characters)."
        lines = written.splitlines()
        assert lines[1:10] == ["# What is it?", "", "## User", "", "What is it?", "", "## Agent", "", "A cart."]
        assert lines[-1] == "Nothing was written."
        assert [call["status"] for call in it.calls()] == ["failed", "completed"]


async def test_export_has_a_usual_place_and_replaces_nothing_but_its_own_files(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("A cart."), Reply("Yes."), mode="full-access") as it:
        await it.prompt("What is it?")
        assert "a.txt is there already" in await said(it, "/export a.txt")
        assert (it.folder / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert "`.acp-agent/exports/" in await said(it, "/export")
        await it.prompt("Is it?")
        await said(it, "/export")
        [export] = (it.folder / ".acp-agent" / "exports").iterdir()
        assert export.name.startswith(f"{it.session}-")
        assert "Is it?" in export.read_text()


@pytest.mark.parametrize(("mode", "path", "asked"), [("accept-edits", "talk.md", 0), ("accept-edits", "", 1)])
async def test_export_is_asked_for_where_a_write_would_be(tmp_path: Path, mode: str, path: str, asked: int) -> None:
    async with stage(tmp_path, Reply("A cart."), mode=mode) as it:
        await it.prompt("What is it?")
        assert "was written to" in await said(it, f"/export {path}")
        assert len([line for line in it.agent.lines if line.method == "session/request_permission"]) == asked
        await it.agent.set_mode(it.session, "plan")
        assert "Nothing was written: in plan mode" in await said(it, "/export other.md")
