"""What hooks tell the user, and what they want where it cannot be: as an editor shows it, and as the model reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.editors import ZED_BETA
from support.models import Reply, ToolCall
from support.stage import conversation, results, stage


def saying(**answer: Any) -> dict[str, Any]:
    """A hook that answers this."""
    return {"command": ["echo", json.dumps(answer)]}


READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])


async def test_what_a_hook_wants_in_the_wrong_place_is_told_once_and_the_rest_of_it_is_done(tmp_path: Path) -> None:
    swap = saying(action="replace", replace_messages=[{"role": "user", "content": "x"}], context="Mind the gap.")
    hooks = {
        "SessionStart": [{"command": "echo no start >&2; exit 2", "name": "grumpy"}, {"command": "echo I am second"}],
        "PreToolUse": [{**swap, "name": "swapper"}],
        "PostToolUse": [saying(context="x" * 70_000)],
    }
    async with stage(tmp_path, READ, READ, Reply("Done."), config={"hooks": hooks}, editor=ZED_BETA) as it:
        await it.prompt("Go")
        told = [update["title"] for update in it.agent.updates(kind="notice")]
        assert told[0] == "The hook grumpy at session_start: no start"
        [text] = told[1:]
        assert "The hook swapper (" in text
        assert "answered `action: replace` at before_tool_call, where only these are possible:" in text
        assert "I am second" in "\n".join(text for _, text in conversation(it.server.calls[0].body))
        [result] = results(it.server.calls[1].body)
        assert "\nMind the gap." in result.text
        assert "xx\n[4,464 more characters of this hook were left out]\n" in result.text
        assert len(result.text) < 67_000
