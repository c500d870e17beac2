"""Compactions that somebody asked for and a hook put off: they are done when it said, and as they were asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.background import LONG, SUMMARY, THRESHOLD, Desk, desk
from support.client import AgentError
from support.compactions import asked_last, is_summary_request, shown_compactions
from support.models import Reply, ToolCall, Usage

BY_HAND = {"compaction": {"auto": False}}
WANTS = {"action": "compact", "instructions": "Mind the prices."}


def with_hooks(defer: object, **others: list[dict[str, Any]]) -> dict[str, Any]:
    """The configuration of a session in which a hook puts every compaction off, and no other begins by itself."""
    before = {"command": f"echo >> asked; echo '{json.dumps({'defer': defer})}'", "name": "later"}
    return {
        **BY_HAND,
        "hooks": {"PreCompact": [before], "after_compaction": [{"command": "cat > told.json"}], **others},
    }


def reason(it: Desk) -> str:
    """Why the newest compaction was done."""
    return str(json.loads((it.home / "told.json").read_text())["compaction_reason"])


def asked(it: Desk) -> int:
    """How often the hook that puts off was asked."""
    return len((it.home / "asked").read_text().splitlines())


def summary_prompts(it: Desk) -> list[str]:
    return [asked_last(call.body) for call in it.server.calls if is_summary_request(call.body)]


async def test_what_the_user_asks_for_and_a_hook_puts_off_until_the_turn_ends_is_done_at_once(tmp_path: Path) -> None:
    async with desk(tmp_path, Reply(SUMMARY), config=with_hooks("turn_end")) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact keep the prices")
        assert "A hook put the compaction off until the turn ends. It is done then." in it.agent.text()
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert "keep the prices" in summary_prompts(it)[0]
        assert (asked(it), reason(it)) == (1, "manual")
        await it.prompt("Two?", Reply("Yes."))
        assert LONG not in str(it.last)


async def test_what_the_user_asks_for_and_a_hook_puts_off_by_tokens_is_done_when_they_have_come(tmp_path: Path) -> None:
    async with desk(tmp_path, Reply(SUMMARY), config=with_hooks({"tokens": 1_000})) as it:
        await it.filled(5_000)
        await it.prompt("/compact keep the prices")
        assert "off until 1,000 more tokens are in the context. It is done then." in it.agent.text()
        await it.prompt("Two?", Reply("Second.", usage=Usage(5_500, 5)))
        await it.prompt("Three?", Reply("Third.", usage=Usage(6_200, 5)))
        assert (shown_compactions(it.agent), it.asked) == ([], 0)
        await it.prompt("Four?", Reply("Fourth.", usage=Usage(2_000, 5)))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert "keep the prices" in summary_prompts(it)[0]
        assert LONG not in str(it.last)
        assert (asked(it), reason(it)) == (1, "manual")
        # It was that one alone that waited.
        await it.prompt("Five?", Reply("Fifth.", usage=Usage(9_000, 5)))
        await it.prompt("Six?", Reply("Sixth.", usage=Usage(9_000, 5)))
        assert it.asked == 1


async def test_what_one_hook_wants_and_another_puts_off_until_the_turn_ends_is_done_as_it_was_wanted(
    tmp_path: Path,
) -> None:
    stop = [{"command": f"echo '{json.dumps(WANTS)}'"}]
    async with desk(tmp_path, Reply(SUMMARY), config=with_hooks("turn_end", Stop=stop)) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("Two?", Reply("Yes."))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert "Mind the prices." in summary_prompts(it)[0]
        assert (asked(it), reason(it)) == (1, "hook")


async def test_a_hook_that_asks_at_each_turn_and_one_that_puts_off_each_time_do_not_put_it_off_for_ever(
    tmp_path: Path,
) -> None:
    stop = [{"command": f"echo '{json.dumps(WANTS)}'"}]
    async with desk(tmp_path, Reply(SUMMARY), config=with_hooks({"tokens": 1_000}, Stop=stop)) as it:
        await it.filled(5_000)
        for used in (5_000, 5_400, 5_800, 6_200):
            assert it.asked == 0
            await it.prompt("More?", Reply("More.", usage=Usage(used, 5)))
        await it.prompt("Two?", Reply("Yes.", usage=Usage(2_000, 5)))
        assert it.asked == 1
        assert reason(it) == "hook"
        assert LONG not in str(it.last)


async def test_what_was_put_off_until_the_end_of_a_turn_that_the_user_cancels_is_done_in_the_next(
    tmp_path: Path,
) -> None:
    wants = [{"command": f"echo '{json.dumps(WANTS)}'", "matcher": "read"}]
    async with desk(tmp_path, Reply(SUMMARY), config=with_hooks("turn_end", PostToolUse=wants)) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("Two?", Reply("Yes."))
        (tmp_path / "a.txt").write_text("one")
        it.answers = [
            Reply("Step.", tool_calls=[ToolCall("read", {"path": "a.txt"})]),
            Reply("Step.", tool_calls=[ToolCall("shell", {"command": "true"})]),
        ]
        it.agent.permission_answer = "cancelled"
        turn = await it.agent.start_prompt(it.session, "Three?")
        assert await turn.result() == {"stopReason": "cancelled"}
        assert (it.asked, asked(it)) == (0, 1)
        await it.prompt("Four?", Reply("Fourth."))
        assert (it.asked, asked(it), reason(it)) == (1, 1, "hook")
        assert LONG not in str(it.last)


async def test_what_was_put_off_is_not_done_behind_an_undo_and_told_where_it_fails(tmp_path: Path) -> None:
    defer = json.dumps({"defer": {"tokens": 1_000}})
    before = [{"command": f"cat later 2> /dev/null || test ! -e once || echo '{defer}'"}]
    config = {**BY_HAND, "hooks": {"PreCompact": before}}
    async with desk(tmp_path, Reply(SUMMARY), Reply(""), Reply(""), config=config) as it:
        await it.filled(5_000)
        await it.prompt("/compact")
        await it.prompt("Two?", Reply(LONG, usage=Usage(4_600, 400)))
        (tmp_path / "once").touch()
        await it.prompt("/compact keep the prices")
        await it.prompt("/compact undo")
        for text in ("Three?", "Four?"):
            await it.prompt(text, Reply("Yes.", usage=Usage(9_000, 5)))
        assert (len(shown_compactions(it.agent)), it.asked) == (1, 1)
        # Who was told that it is done later is told where it was not.
        (tmp_path / "later").write_text(json.dumps({"defer": "turn_end"}))
        await it.prompt("/compact keep the prices")
        assert shown_compactions(it.agent)[-1].statuses == ["in_progress", "failed"]
        [told] = it.agent.updates(kind="notice")
        assert told["title"] == "The compaction that a hook put off was not done."
        assert told["description"].startswith("The model answered with an empty")


# --- what hooks say of it beside ---

HOOKS_OWN = "# Goal\nA cart, says the hook."


def saying(defer: object, **answer: object) -> dict[str, Any]:
    """The same, with another hook that says something of the compaction that is put off."""
    config = with_hooks(defer)
    config["hooks"]["PreCompact"].append({"command": ["echo", json.dumps(answer)]})
    return config


async def test_what_a_hook_adds_to_a_compaction_that_another_puts_off_is_told_to_whoever_writes_it(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, Reply(SUMMARY), config=saying("turn_end", context="Name every price.")) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact keep the prices")
        [written] = summary_prompts(it)
        assert "keep the prices" in written
        assert written.count("Name every price.") == 1
        assert asked(it) == 1


async def test_a_hook_s_summary_of_what_another_puts_off_is_used_then_and_what_was_said_since_stays(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, config=saying({"tokens": 1_000}, summary=HOOKS_OWN)) as it:
        await it.filled(5_000)
        await it.prompt("/compact")
        await it.prompt("Two?", Reply("Second.", usage=Usage(5_500, 5)))
        await it.prompt("Three?", Reply("Third.", usage=Usage(6_200, 5)))
        assert shown_compactions(it.agent) == []
        await it.prompt("Four?", Reply("Fourth.", usage=Usage(2_000, 5)))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], HOOKS_OWN)
        assert (it.asked, asked(it), reason(it)) == (0, 1, "manual")
        sent = json.dumps(it.last)
        assert LONG not in sent
        assert [sent.count(text) for text in ("says the hook.", "Two?", "Second.", "Third.", "Four?")] == [1] * 5


async def test_hooks_are_asked_again_where_what_one_has_summarised_is_another_conversation_by_then(
    tmp_path: Path,
) -> None:
    refused = Reply(http_status=400, body={"error": {"message": "No such thing."}})
    async with desk(tmp_path, config=saying({"tokens": 1_000}, summary=HOOKS_OWN)) as it:
        await it.filled(5_000)
        await it.prompt("/compact")
        with pytest.raises(AgentError, match="No such thing"):
            await it.prompt("Two?", refused)
        await it.prompt("Three?", Reply("Third.", usage=Usage(6_200, 5)))
        await it.prompt("Four?", Reply("Fourth.", usage=Usage(7_500, 5)))
        assert (asked(it), shown_compactions(it.agent)) == (2, [])
        await it.prompt("Five?", Reply("Fifth.", usage=Usage(2_000, 5)))
        assert [compaction.text for compaction in shown_compactions(it.agent)] == [HOOKS_OWN]
        assert (it.asked, asked(it)) == (0, 2)


@pytest.mark.parametrize("said", [{"context": "Name every price."}, {"summary": HOOKS_OWN}], ids=["added", "written"])
async def test_what_hooks_say_of_one_that_is_due_and_put_off_until_the_turn_ends_holds_then(
    tmp_path: Path, said: dict[str, str]
) -> None:
    config = {**saying("turn_end", **said), "compaction": {"prepare": False}}
    async with desk(tmp_path, Reply(SUMMARY), config=config) as it:
        await it.filled(THRESHOLD)
        await it.prompt("Two?", Reply("Second.", usage=Usage(THRESHOLD, 5)))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses[-1], asked(it)) == ("completed", 1)
        assert compaction.text == said.get("summary", SUMMARY)
        assert [text.count("Name every price.") for text in summary_prompts(it)] == [1] * ("context" in said)
