"""What hooks want behind an answer: that the agent goes on, or that it stops."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from support.background import desk
from support.models import Reply, ToolCall

NEVER_CONTENT = f"""#!{sys.executable}
import json, sys
told = json.load(sys.stdin)
with open("told.jsonl", "a") as file:
    file.write(json.dumps([told["turn_number"], told["stop_hook_active"]]) + "\\n")
print("Not yet.", file=sys.stderr)
sys.exit(2)
"""


def answers(event: str, *hooks: object) -> dict[str, Any]:
    """A configuration in which hooks give these answers, one after the other; a text is a command line."""
    commands = [each if isinstance(each, str) else f"echo '{json.dumps(each)}'" for each in hooks]
    return {"compaction": {"auto": False}, "hooks": {event: [{"command": command} for command in commands]}}


async def test_a_hook_that_is_never_content_lets_the_agent_go_on_five_times_for_each_prompt(tmp_path: Path) -> None:
    (tmp_path / "check").write_text(NEVER_CONTENT)
    (tmp_path / "check").chmod(0o755)
    async with desk(tmp_path, config=answers("Stop", "./check")) as it:
        for text in ("One?", "Two?"):
            begun = len(it.agent.lines)
            await it.prompt(text, *(Reply(f"Answer {number}.") for number in range(1, 7)))
            shown = it.agent.text(since=begun)
            assert "Hooks have let the agent go on 5 times for this prompt; it ends here." in shown
        told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
        assert told == [[number, number not in (1, 7)] for number in range(1, 13)]
        assert json.dumps(it.last).count("Not yet.") == 10


async def test_a_hook_that_ends_the_turn_before_a_call_keeps_it_and_those_behind_it_from_being_made(
    tmp_path: Path,
) -> None:
    config = answers("PreToolUse", {"continue": False, "stopReason": "Enough for today."})
    async with desk(tmp_path, config=config) as it:
        await it.agent.set_mode(it.session, "full-access")
        calls = [ToolCall("write", {"path": name, "content": "1"}) for name in ("b.txt", "c.txt")]
        await it.prompt("One?", Reply(tool_calls=calls))
        assert "A hook ended the turn. Enough for today." in it.agent.text()
        assert len(it.server.calls) == 1
        assert not (tmp_path / "b.txt").exists()
        await it.prompt("And now?", Reply("Yes."))
        assert str(it.server.calls[1].body).count("before this call ran. Enough for today.") == 2
