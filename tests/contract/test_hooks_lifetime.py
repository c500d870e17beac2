"""The life of a session as its hooks are told of it: how it starts and ends, and which answer of a prompt it is at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.models import Reply
from support.stage import stage

KEEP = "(cat; echo) >> ../told.jsonl"


def told(root: Path, *keys: str) -> list[tuple[Any, ...]]:
    """The event and some of the keys of each that was told, in order."""
    lines = [json.loads(line) for line in (root / "told.jsonl").read_text().splitlines()]
    return [(line["event"], *(line[key] for key in keys if key in line)) for line in lines]


async def test_hooks_are_told_how_a_session_starts_each_time_and_how_it_ends(tmp_path: Path) -> None:
    kept = [{"command": KEEP}]
    summary = [{"command": ["echo", '{"summary": "All about carts."}']}]
    config = {"hooks": {"SessionStart": kept, "SessionEnd": kept, "PreCompact": summary}}
    replies = [Reply("Adds prices. " * 600), Reply("Loaded."), Reply("Resumed."), Reply("Another.")]
    async with stage(tmp_path, *replies, config=config) as it:
        close = {"sessionId": it.session}
        await it.prompt("What is this?")
        await it.prompt("/compact")
        await it.agent.request("session/close", close)
        await it.agent.load(it.session, it.folder)
        await it.prompt("And now?")
        await it.agent.request("session/close", close)
        await it.agent.resume(it.session, it.folder)
        await it.prompt("And then?")
        assert told(tmp_path, "source", "reason") == [
            ("session_start", "new"),
            ("session_start", "compact"),
            ("session_end", "close"),
            ("session_start", "load"),
            ("session_end", "close"),
            ("session_start", "resume"),
        ]
        other = await it.agent.new_session(it.folder)
        await it.agent.prompt(other, "Hello")
        await it.agent.request("session/delete", {"sessionId": other})
        assert told(tmp_path, "source", "reason", "session_id")[6:] == [
            ("session_start", "new", other),
            ("session_end", "delete", other),
        ]
    assert told(tmp_path, "reason", "session_id")[8:] == [("session_end", "exit", it.session)]


async def test_answers_of_all_prompts_are_counted_and_hooks_prolong_one_five_times_at_most(
    tmp_path: Path,
) -> None:
    config = {
        "hooks": {
            "turn_end": [{"command": KEEP}],
            "Stop": [{"command": "grep -q enough && exit 0; echo More. >&2; exit 2"}],
        }
    }
    async with stage(tmp_path, script=lambda _: Reply("Done."), config=config) as it:
        assert await it.prompt("Go") == {"stopReason": "end_turn"}
        assert [number for _, number in told(tmp_path, "turn_number")] == [1, 2, 3, 4, 5, 6]
        assert len(it.server.calls) == 6
        assert "Hooks have let the agent go on 5 times for this prompt; it ends here." in it.agent.text()
        await it.prompt("That is enough.")
        assert told(tmp_path, "turn_number")[6:] == [("turn_end", 7)]
