"""What programs may do to a compaction: veto it, add to its prompt, and hear of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from support.background import LONG, SUMMARY, THRESHOLD, desk
from support.compactions import asked_last, is_summary_request, shown_compactions
from support.models import Reply, Usage

KEEP = "(cat; echo) >> told.jsonl"
VETO = f"{KEEP}; echo Not on Fridays. >&2; exit 2"


def told(folder: Path) -> list[dict[str, Any]]:
    """What the hooks were told, in order."""
    path = folder / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_a_veto_of_a_compaction_by_hand_is_told_and_nothing_is_shown_or_changed(tmp_path: Path) -> None:
    config = {"hooks": {"before_compaction": [{"command": VETO}], "after_compaction": [{"command": KEEP}]}}
    async with desk(tmp_path, config=config) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact keep the prices")
        assert shown_compactions(it.agent) == []
        assert "Not on Fridays." in it.agent.text()
        [asked] = told(tmp_path)
        assert (asked["event"], asked["trigger"]) == ("before_compaction", "manual")
        assert it.asked == 0
        await it.prompt("Two?", Reply("Yes."))
        assert it.server.calls[-1].mentions(LONG)


async def test_a_veto_keeps_a_summary_from_being_prepared_and_the_turns_go_on(tmp_path: Path) -> None:
    config = {"hooks": {"PreCompact": [{"command": VETO, "matcher": "auto"}]}}
    async with desk(tmp_path, Reply(SUMMARY), config=config) as it:
        await it.filled()
        with anyio.fail_after(20):
            while not told(tmp_path):
                await it.prompt("And?", Reply("An answer.", usage=Usage(THRESHOLD, 5)))
        await it.prompt("And now?", Reply("An answer.", usage=Usage(THRESHOLD, 5)))
        assert (it.asked, shown_compactions(it.agent)) == (0, [])
        assert it.server.calls[-1].mentions(LONG)
        assert {each["trigger"] for each in told(tmp_path)} == {"auto"}
        # Of one by hand that hook is not asked.
        await it.prompt("/compact")
        assert shown_compactions(it.agent)[0].statuses[-1] == "completed"


async def test_hooks_hear_of_a_compaction_before_and_after_it_and_what_they_add_is_asked_for(tmp_path: Path) -> None:
    adds = f"{KEEP}; echo '{json.dumps({'context': 'Name every price.'})}'"
    config = {"hooks": {"before_compaction": [{"command": adds}], "after_compaction": [{"command": KEEP}]}}
    async with desk(tmp_path, Reply(SUMMARY), config=config) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        assert shown_compactions(it.agent)[0].statuses == ["in_progress", "completed"]
        [asked] = [call.body for call in it.server.calls if is_summary_request(call.body)]
        assert "Name every price." in asked_last(asked)
        before, after = told(tmp_path)
        assert [before["event"], after["event"]] == ["before_compaction", "after_compaction"]
        assert (after["trigger"], after["summary"]) == ("manual", SUMMARY)
