"""What the user sees of a program's answer: a refusal in its shortest form, unknown
keys, and broken JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import results


async def test_a_guard_that_answers_blocked_refuses_the_call_with_its_reason(
    tmp_path: Path,
) -> None:
    answer = json.dumps({"blocked": True, "reason": "Not this file."})
    config = {"hooks": {"before_tool_call": [{"command": ["echo", answer]}]}}
    write = Reply(tool_calls=[ToolCall("write", {"path": "b.txt", "content": "1"})])
    async with stage(
        tmp_path, write, Reply("Done."), config=config, mode="full-access"
    ) as it:
        await it.prompt("Write it.")
        [result] = results(it.server.calls[1].body)
        assert result.text == "A hook refused this call. Not this file."
        assert not (it.folder / "b.txt").exists()


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (
            '{"decison": "block"}',
            "answered `decison` at agent_stop, which was ignored. At this event, only these keys are possible: ",
        ),
        ('{"decision": "block"', "failed at agent_stop. Its answer is no JSON"),
        (
            'Checked.\n{"decision": "block"}',
            "failed at agent_stop. What it printed is no JSON object",
        ),
    ],
)
async def test_unknown_keys_and_broken_json_are_reported_to_the_user_once(
    tmp_path: Path, printed: str, words: str
) -> None:
    config = {
        "hooks": {
            "agent_stop": [{"command": ["printf", "%s", printed], "name": "check"}]
        }
    }
    async with stage(tmp_path, Reply("One."), Reply("Two."), config=config) as it:
        await it.prompt("One?")
        await it.prompt("Two?")
        assert it.agent.text().count("The hook check (") == 1
        assert words in it.agent.text()
