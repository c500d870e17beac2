"""What hooks want behind an answer: that the agent goes on, that it stops, that the conversation becomes short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.background import LONG, SUMMARY, desk
from support.compactions import asked_last, shown_compactions
from support.models import Reply


def answers(event: str, *hooks: object) -> dict[str, Any]:
    """A configuration in which hooks give these answers, one after the other; a text is a command line."""
    commands = [each if isinstance(each, str) else f"echo '{json.dumps(each)}'" for each in hooks]
    return {"compaction": {"auto": False}, "hooks": {event: [{"command": command} for command in commands]}}


@pytest.mark.parametrize("event", ["turn_end", "agent_stop"])
async def test_a_hook_that_ends_the_turn_behind_an_answer_is_the_last_word(tmp_path: Path, event: str) -> None:
    stop = {"continue": False, "stopReason": "Enough for today.", "decision": "block", "reason": "Go on."}
    config = answers(event, stop)
    config["hooks"].setdefault("agent_stop", []).append({"command": "touch asked; exit 2"})
    async with desk(tmp_path, config=config) as it:
        await it.prompt("One?", Reply("Yes."))
        # Apart from the answer, also where an editor joins the messages of a turn.
        assert "\n\nA hook ended the turn. Enough for today.\n\n" in it.agent.text()
        assert len(it.server.calls) == 1
        assert not (tmp_path / "asked").exists()


async def test_what_a_hook_says_at_great_length_is_cut_for_the_user_and_for_the_model(tmp_path: Path) -> None:
    most, text = 65_536, "x" * 100_000
    said = {"action": "compact", "instructions": text, "continue": False, "stopReason": text}
    (tmp_path / "answer.json").write_text(json.dumps(said))
    window = {"ACP_AGENT_CONTEXT_WINDOW": "100000"}
    async with desk(tmp_path, Reply(SUMMARY), env=window, config=answers("Stop", "cat answer.json")) as it:
        await it.prompt("One?", Reply(LONG * 8))
        await it.prompt("Two?", Reply("Yes."))
        assert [each.statuses[-1] for each in shown_compactions(it.agent)] == ["completed"]
        for heard in (it.agent.text(), asked_last(it.server.calls[-1].body)):
            assert f"{'x' * most}\n[34,464 more characters of this hook were left out]" in heard


@pytest.mark.parametrize("together", [True, False], ids=["one hook", "two hooks"])
async def test_a_compaction_at_the_stop_ends_the_turn_also_where_a_hook_does_not_want_it_to_stop(
    tmp_path: Path, together: bool
) -> None:
    when = "grep -q 'Two?' || exit 0; "
    compact, block = {"action": "compact"}, {"decision": "block", "reason": "Go on."}
    wanted = [{**compact, **block}] if together else [compact, block]
    config = answers("Stop", *(f"{when}echo '{json.dumps(each)}'" for each in wanted))
    async with desk(tmp_path, Reply(SUMMARY), config=config) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("Two?", Reply("Yes."))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert len(it.server.calls) == 3


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("compact", "A hook wants the conversation compacted; there is nothing to compact yet."),
        ("summary", "A hook wants a summary of the conversation; there is nothing to summarise yet."),
    ],
)
async def test_a_hook_that_wants_short_what_is_short_already_is_told_of_once(
    tmp_path: Path, action: str, told: str
) -> None:
    config = answers("Stop", {"action": action})
    config["hooks"]["turn_end"] = config["hooks"]["Stop"]
    async with desk(tmp_path, config=config) as it:
        await it.prompt("One?", Reply("Yes."))
        assert str(it.agent.updates(kind="notice")).count(told) == 1
        assert shown_compactions(it.agent) == []
