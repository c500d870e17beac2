"""The agent's own home in a session whose directory holds it: what is in there is no
part of the project.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.called import call_command
from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import results

SECRET = "sk-stored-0123456789abcdef"
WIRE = {"ACP_AGENT_WIRE": "1"}


@pytest.mark.parametrize("mode", ["ask", "full-access"])
async def test_no_tool_gives_a_model_the_stored_keys_in_any_mode(
    tmp_path: Path, mode: str
) -> None:
    calls = [
        ToolCall("read", {"path": "state/keys.json"}),
        ToolCall("read", {"path": "link"}),
        ToolCall("read", {"path": "project/../state/keys.json"}),
        ToolCall("grep", {"pattern": ".*", "path": "state/keys.json"}),
        ToolCall("grep", {"pattern": "stored", "path": "state"}),
        ToolCall("grep", {"pattern": "stored"}),
        ToolCall("grep", {"pattern": "stored", "path": "hard.txt"}),
        ToolCall("read", {"path": "hard.txt"}),
        ToolCall("write", {"path": "state/keys.json", "content": "{}"}),
        ToolCall(
            "edit", {"path": "link", "edits": [{"old_text": "sk", "new_text": "ks"}]}
        ),
    ]
    async with stage(
        tmp_path, Reply(tool_calls=calls), Reply("No."), dialect="anthropic", env=WIRE
    ) as it:
        keys = it.home / "state" / "keys.json"
        stored = await call_command(
            it.home, "login", "anthropic", "--no-check", stdin=SECRET
        )
        assert stored.code == 0, stored
        before = keys.read_bytes()
        assert SECRET.encode() in before
        (it.home / "link").symlink_to(keys)
        (it.home / "hard.txt").hardlink_to(keys)
        session = await it.agent.new_session(it.home)
        await it.agent.set_mode(session, mode)
        it.agent.permission_answer = "allow_once"
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        answers = results(it.server.calls[-1].body)
        assert [answer.is_error for answer in answers] == [
            *[True] * 4,
            *[False] * 2,
            *[True] * 4,
        ]
        assert all(
            "contains the keys" in answers[number].text
            for number in (0, 1, 2, 3, 6, 7, 8, 9)
        )
        assert SECRET not in str(it.server.calls[-1].body)
        assert keys.read_bytes() == before
        for path in (it.home / "state").rglob("*"):
            assert (
                path == keys
                or not path.is_file()
                or SECRET.encode() not in path.read_bytes()
            ), path


async def test_what_else_is_in_the_home_is_asked_about_and_a_search_passes_it_over(
    tmp_path: Path,
) -> None:
    calls = [
        ToolCall("grep", {"pattern": "needle"}),
        ToolCall("read", {"path": "state/notes.txt"}),
        ToolCall("read", {"path": "mine.txt"}),
        ToolCall("grep", {"pattern": "needle", "path": "state"}),
        ToolCall("write", {"path": "state/new.txt", "content": "x"}),
        ToolCall("list", {"path": ".", "depth": 3}),
        ToolCall("glob", {"pattern": "**/*.txt"}),
        ToolCall("list", {"path": "state"}),
        ToolCall("glob", {"pattern": "*.txt", "path": "state"}),
        ToolCall("shell", {"command": "ls", "cwd": "state"}),
    ]
    async with stage(
        tmp_path,
        Reply(tool_calls=calls),
        Reply("Done."),
        dialect="anthropic",
        config={"sandbox": {"commands": "off"}},
    ) as it:
        (it.home / "state" / "notes.txt").write_text("a needle\n")
        (it.home / "mine.txt").write_text("my needle\n")
        session = await it.agent.new_session(it.home)
        await it.agent.set_mode(session, "accept-edits")
        it.agent.permission_answer = "allow_once"
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        found, read, mine, inside, written, tree, files, listed, matched, run = results(
            it.server.calls[-1].body
        )
        assert "mine.txt:1:my needle" in found.text
        assert "notes.txt" not in found.text
        assert "a needle" in read.text
        assert "my needle" in mine.text
        assert "notes.txt:1:a needle" in inside.text
        assert not written.is_error
        assert "mine.txt" in tree.text
        assert "state/" in tree.text
        assert files.text == "mine.txt"
        assert all("notes.txt" in answer.text for answer in (listed, matched, run))
        assert "notes.txt" not in tree.text
        asked = [
            permission["toolCall"]["title"] for permission in it.agent.desk.permissions
        ]
        assert asked[:-1] == [
            "Read state/notes.txt",
            "Search state for needle",
            "Write state/new.txt",
            "List state",
            "Search state for `files named *.txt`",
        ]
        # A long path is cut in its middle.
        assert asked[-1].startswith("(in /")
        assert asked[-1].endswith("/home/state) ls")
