"""The plan as an editor shows it: one with an id where the editor knows those, and the
whole list where it does not.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from support.editors import ZED
from support.memory import stage
from support.models import Reply, ToolCall

PLANS = replace(ZED, more={**ZED.more, "plan": {}})
KINDS = ("plan", "plan_update", "plan_removed")


def planned(*entries: tuple[str, str]) -> Reply:
    """A reply that sets the plan."""
    steps = [{"content": content, "status": status} for content, status in entries]
    return Reply(tool_calls=[ToolCall("plan", {"entries": steps})])


def shown(updates: list[Any]) -> list[tuple[str, list[str]]]:
    """The updates of plans: their kind, and the steps' statuses."""
    found: list[tuple[str, list[str]]] = []
    for update in updates:
        if update["sessionUpdate"] in KINDS:
            entries = update.get("plan", update).get("entries", [])
            found.append(
                (update["sessionUpdate"], [entry["status"] for entry in entries])
            )
    return found


async def test_an_editor_that_knows_plans_by_id_sees_one_that_changes_and_goes(
    tmp_path: Path,
) -> None:
    replies = [
        planned(("Look", "in_progress"), ("Mend", "pending")),
        planned(("Look", "completed")),
        planned(),
    ]
    async with stage(tmp_path, *replies, Reply("Done."), editor=PLANS) as it:
        assert await it.prompt("Work") == {"stopReason": "end_turn"}
        changed = [
            ("plan_update", ["in_progress", "pending"]),
            ("plan_update", ["completed"]),
            ("plan_removed", []),
        ]
        assert shown(it.agent.updates()) == changed
        ids = [each["plan"]["planId"] for each in it.agent.updates(kind="plan_update")]
        ids += [each["planId"] for each in it.agent.updates(kind="plan_removed")]
        assert len(ids) == 3
        assert len(set(ids)) == 1
        async with it.restarted(capabilities=ZED) as older:
            heard = len(older.agent.lines)
            await older.agent.load(it.session, it.folder)
            lists = [
                ("plan", ["in_progress", "pending"]),
                ("plan", ["completed"]),
                ("plan", []),
            ]
            assert shown(older.agent.updates(since=heard)) == lists


async def test_a_step_that_will_not_be_done_leaves_the_plan(tmp_path: Path) -> None:
    dropped = (
        planned(("Look", "cancelled"), ("Mend", "pending")),
        planned(("Look", "cancelled")),
    )
    for editor, kinds in (
        (PLANS, ("plan_update", "plan_removed")),
        (ZED, ("plan", "plan")),
    ):
        async with stage(
            tmp_path / kinds[0], *dropped, Reply("Done."), editor=editor
        ) as it:
            assert await it.prompt("Work") == {"stopReason": "end_turn"}
            assert shown(it.agent.updates()) == [
                (kinds[0], ["pending"]),
                (kinds[1], []),
            ]
