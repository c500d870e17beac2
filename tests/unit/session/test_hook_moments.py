"""The fields of hook events that describe the session: turn numbers and who prompted."""

from __future__ import annotations

import json
from pathlib import Path

from support.memory import stage
from support.models import Reply, ToolCall

KEEP = [{"command": "(cat; echo) >> ../events.jsonl"}]
SUMMARY = [{"command": ["echo", '{"summary": "All about carts."}']}]
READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])
OTHERS = ("turn_end", "agent_stop")
HOOKS = dict.fromkeys(("user_message_send", "before_tool_call", *OTHERS), KEEP)


async def test_turn_numbers_continue_across_prompts_compactions_and_reopening(
    tmp_path: Path,
) -> None:
    replies = [
        Reply("Adds prices. " * 600),
        READ,
        Reply("Two."),
        Reply("Three."),
        Reply("Four."),
    ]
    files = {"a.txt": "one\n", ".acp-agent/recipes/look.md": "Look."}
    config = {"hooks": {**HOOKS, "before_compaction": SUMMARY}}
    async with stage(
        tmp_path, *replies, config=config, files=files, trusted=True
    ) as it:
        await it.prompt("One?")
        await it.prompt("Two?")
        await it.prompt("/compact")
        await it.agent.request("session/close", {"sessionId": it.session})
        await it.agent.resume(it.session, it.folder)
        await it.prompt("Three?")
        await it.prompt("/look")
        lines = [
            json.loads(line)
            for line in (tmp_path / "events.jsonl").read_text().splitlines()
        ]
        numbers = [
            (line["event"], line["turn_number"])
            for line in lines
            if line["invoked_by"] == "main"
        ]
        one, three = (
            [(event, number) for event in ("user_message_send", *OTHERS)]
            for number in (1, 3)
        )
        two = [(event, 2) for event in HOOKS]
        assert numbers == [*one, *two, *three]
        recipes = [
            (line["event"], line["invoked_by"])
            for line in lines
            if line["invoked_by"] != "main"
        ]
        assert recipes == [
            ("turn_end", "compact"),
            *((event, "look") for event in ("user_message_send", *OTHERS)),
        ]


async def test_text_from_session_start_is_added_once_until_it_changes_or_is_compacted(
    tmp_path: Path,
) -> None:
    hooks = {
        "session_start": [{"command": "cat ../rule"}],
        "before_compaction": SUMMARY,
    }
    replies = [
        Reply("Adds prices. " * 600),
        *(Reply(f"Answer {number}.") for number in range(4)),
    ]

    def counts() -> list[int]:
        request = json.dumps(it.server.calls[-1].body)
        return [request.count(rule) for rule in ("Mind the cents.", "Mind the euros.")]

    async with stage(tmp_path, *replies, config={"hooks": hooks}) as it:
        (tmp_path / "rule").write_text("Mind the cents.")
        await it.prompt("One?")
        for rule, expected in (
            ("Mind the cents.", [1, 0]),
            ("Mind the euros.", [1, 1]),
        ):
            (tmp_path / "rule").write_text(rule)
            await it.agent.request("session/close", {"sessionId": it.session})
            await it.agent.resume(it.session, it.folder)
            await it.prompt("And now?")
            assert counts() == expected
        await it.prompt("/compact")
        await it.prompt("And then?")
        assert counts()[1] == 1
