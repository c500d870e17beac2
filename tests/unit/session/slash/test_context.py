"""`/context` and `/model`: what they show and change."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import LoggedEvent
from acp_agent.session.slash.context import KINDS, _sizes_of
from support.logs import legal_logs
from support.memory import stage
from support.models import Reply, ToolCall, Usage
from support.stage import Stage


async def said(it: Stage, prompt: str) -> str:
    """Send a command, and return what it said."""
    since = len(it.agent.lines)
    asked = len(it.server.calls)
    assert await it.prompt(prompt) == {"stopReason": "end_turn"}
    assert len(it.server.calls) == asked
    return it.agent.text(since=since)


def rows(table: str) -> dict[str, int]:
    """Return the numbers of tokens by the text in the first column."""
    found = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| [\d.]+% \|$", table, re.MULTILINE)
    return {name: int(tokens.replace(",", "")) for name, tokens in found}


async def test_white_space_before_a_command_does_not_make_it_an_ordinary_prompt(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as it:
        for prompt in (" /compact", "\n\t/compact  "):
            assert await said(it, prompt) == "There is nothing to compact yet."


async def test_context_shows_what_fills_the_window_and_is_not_logged(
    tmp_path: Path,
) -> None:
    replies = [
        Reply(
            "Let me look.",
            tool_calls=[ToolCall("read", {"path": "a.txt"})],
            usage=Usage(9_000, 50),
        ),
        Reply("A cart. " * 900, usage=Usage(12_000, 345)),
        Reply("# Goal\nA cart. " * 30),
    ]
    async with stage(
        tmp_path,
        *replies,
        env={"ACP_AGENT_CONTEXT_WINDOW": "40000"},
        dialect="anthropic",
    ) as it:
        assert set(rows(await said(it, "/context"))) == {
            *("System prompt", "Tools", "**In use**", "Reserved for the answer", "Free")
        }
        await it.prompt("Never touch `prices.py`. What is it?")
        await said(it, "/pin prices are cents")
        text = await said(it, "/context")
        table = rows(text)
        assert text.startswith("`anthropic/claude-test` has a window of 40,000 tokens.")
        kinds = [name for name in table if name in KINDS]
        assert kinds == [
            *("System prompt", "Tools", "Your prompts"),
            *("Answers", "Tool calls", "Tool results", "Notes to the model"),
        ]
        assert 12_345 < table["**In use**"] < 12_600
        assert abs(sum(table[kind] for kind in kinds) - table["**In use**"]) <= len(
            kinds
        )
        assert (
            table["**In use**"] + table["Reserved for the answer"] + table["Free"]
            == 40_000
        )
        await it.prompt("/compact")
        table = rows(await said(it, "/context"))
        assert "Summary" in table
        assert "Answers" not in table
        start = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        assert "/context" not in "".join(
            it.agent.texts("user_message_chunk", since=start).values()
        )


@given(legal_logs(max_turns=3), st.integers(0, 5_000))
def test_no_part_of_a_context_has_a_negative_count(
    log: tuple[LoggedEvent, ...], prefix: int
) -> None:
    context = Context.from_log(log)
    sizes = _sizes_of(context, prefix)
    assert min(sizes.values()) >= 0
    assert bool(context.entries or prefix or context.instructions) >= bool(
        sum(sizes.values())
    )


async def test_the_model_command_changes_the_same_setting_as_the_menu(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("Yes."), dialect="anthropic") as it:
        shown = await said(it, "/model")
        assert shown.startswith("The model of this session is `anthropic/claude-test`.")
        start = len(it.agent.lines)
        assert "is now `anthropic/claude-haiku-4-5`." in await said(
            it, "/model anthropic/claude-haiku-4-5"
        )
        [update] = it.agent.updates(kind="config_option_update", since=start)
        current = {
            option["id"]: option["currentValue"] for option in update["configOptions"]
        }
        assert current["model"] == "anthropic/claude-haiku-4-5"
        unknown = await said(it, "/model openia/gpt")
        assert unknown.startswith(
            "'openia/gpt' cannot be chosen: there is no provider 'openia' (you can add one under"
        )
        assert "did you mean `openai`? The menu contains: anthropic/claude-" in unknown
        await it.prompt("Are you there?")
        assert it.server.calls[0].body["model"] == "claude-haiku-4-5"
