"""Rules in a whole session."""

from __future__ import annotations

from pathlib import Path

from support.compactions import asked_last, is_summary_request, shown_compactions
from support.editors import ZED_BETA
from support.memory import stage
from support.models import Reply, ToolCall

AMID = """\
- on: after_tool_call
  when: {command: "touch*"}
  then: compact
- on: after_tool_call
  when: {command: "true*"}
  then: {action: compact, stop: That will do.}
"""

BY_HAND = {"compaction": {"auto": False}}
LONG = "The cart adds prices. " * 300


async def test_a_compaction_requested_during_a_turn_runs_before_the_next_request(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "home" / "state" / "hooks"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "rules.yaml").write_text(AMID)
    script = [
        Reply(LONG),
        Reply(
            "Let me make it.",
            tool_calls=[ToolCall("shell", {"command": "touch b.txt"})],
        ),
        Reply("# Goal\nA cart."),
        Reply(LONG),
        Reply("Now this.", tool_calls=[ToolCall("shell", {"command": "true"})]),
        Reply("# Goal\nA second cart."),
        Reply("On."),
    ]
    async with stage(
        tmp_path, *script, editor=ZED_BETA, mode="full-access", config=BY_HAND
    ) as it:
        await it.prompt("One?")
        await it.prompt("Make it")
        calls = it.server.calls
        assert [is_summary_request(call.body) for call in calls] == [
            False,
            False,
            True,
            False,
        ]
        assert not calls[3].mentions(LONG)
        assert calls[3].mentions("# Goal\nA cart.")
        assert await it.prompt("Do that") == {"stopReason": "end_turn"}
        assert "A hook ended the turn. That will do." in it.agent.text()
        assert is_summary_request(calls[5].body)
        assert [
            compaction.statuses[-1] for compaction in shown_compactions(it.agent)
        ] == ["completed", "completed"]
        await it.prompt("And now?")
        assert asked_last(calls[6].body) == "And now?"
        assert calls[6].mentions("A second cart.")
