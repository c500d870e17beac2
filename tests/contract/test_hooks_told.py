"""What hooks are told, and what they tell the user: as an editor shows it, and as the model reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.models import Reply, ToolCall
from support.stage import results, stage


def saying(**answer: Any) -> dict[str, Any]:
    """A hook that answers this."""
    return {"command": ["echo", json.dumps(answer)]}


READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])


async def test_hooks_are_told_of_each_call_that_was_allowed_to_run_however_it_failed(tmp_path: Path) -> None:
    told = 'cat >> told.jsonl; echo >> told.jsonl; echo \'{"context": "Look into README first."}\''
    hooks = {
        "PreToolUse": [{"command": "exit 2", "matcher": "Grep"}],
        "PostToolUse": [{"command": told}],
    }
    edit = {"path": "a.txt", "edits": [{"old_text": "nine", "new_text": "9"}]}
    calls = [
        ("read", {"path": "none.txt"}),
        ("edit", edit),
        ("shell", {"command": "exit 3"}),
        ("grep", {"pattern": "x"}),
    ]
    replies = [Reply(tool_calls=[ToolCall(*call) for call in calls]), Reply("Done.")]
    async with stage(tmp_path, *replies, config={"hooks": hooks}, mode="full-access") as it:
        await it.prompt("Go")
        read, changed, ran, refused = results(it.server.calls[1].body)
        for result in (read, changed, ran):
            assert result.text.endswith("\nLook into README first.")
        assert refused.text == "A hook refused this call."
        events = [json.loads(line) for line in (it.folder / "told.jsonl").read_text().splitlines() if line]
        assert [event["tool_name"] for event in events] == ["Read", "Edit", "Bash"]
        assert all(event["is_error"] and not event["tool_response"]["success"] for event in events)
        assert events[0]["tool_output"] == read.text.removesuffix("\nLook into README first.")


SHH = """grep -q secret && echo '{"decision": "block", "systemMessage": "SHH"}'; true"""


async def test_what_hooks_tell_is_shown_in_the_turn_it_belongs_to_and_never_to_the_model(tmp_path: Path) -> None:
    hooks = {
        "PreToolUse": [saying(systemMessage="NO LINTER")],
        "Stop": [saying(systemMessage="TESTS FAIL")],
        "PreCompact": [{"command": "exit 3", "name": "bad"}],
        "UserPromptSubmit": [{"command": SHH}],
    }
    replies = [READ, Reply("Done. " * 900), Reply("All about carts."), Reply("Two.")]
    async with stage(tmp_path, *replies, config={"hooks": hooks}) as it:

        async def said(prompt: str) -> str:
            before = len(it.agent.lines)
            await it.prompt(prompt)
            return it.agent.text(since=before)

        first = await said("Go")
        assert first.index("NO LINTER") < first.index("Done.") < first.index("TESTS FAIL")
        ids = [id for id, text in it.agent.texts().items() if "TESTS" in text or "LINTER" in text or "Done." in text]
        assert len(ids) == 3
        assert "The hook bad (" in await said("/compact")
        assert "SHH" in await said("My secret is 7.")
        assert "TESTS FAIL" in await said("Go on")
        for call in it.server.calls:
            assert not any(call.mentions(word) for word in ("LINTER", "TESTS", "The hook bad", "SHH"))
