"""Rules in a whole session."""

from __future__ import annotations

import pytest
import subprocess
from pathlib import Path

from support.compactions import is_summary_request, shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, Usage
from support.stage import results, stage

pytestmark = pytest.mark.process

AFTER_A_COMMIT = """\
on: agent_stop
when:
  usage: 70%
  command: git commit*
then: compact
"""

GUARD = """\
- on: before_tool_call
  when: {tool: [write, edit], path: migrations/}
  then: {block: Migrations are made with ./manage.py makemigrations., notice: A migration was left alone.}
- on: PreToolUse
  when: {tool: write, path: "*.md"}
  then: {allow: Notes are free.}
"""
WINDOW = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
BY_HAND = {"compaction": {"auto": False}}
LONG = "The cart adds prices. " * 300
COMMIT = ToolCall("shell", {"command": "touch b.txt && git commit --allow-empty -qm first"})


def with_rules(tmp_path: Path, text: str) -> None:
    """Write the user's rules, and make a repository of the folder that the stage will work in."""
    folder = tmp_path / "home" / "state" / "hooks"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "rules.yaml").write_text(text)
    project = tmp_path / "project"
    project.mkdir()
    for words in (["init", "-q"], ["config", "user.name", "A"], ["config", "user.email", "a@example.org"]):
        subprocess.run(["git", *words], check=True, cwd=project)


async def test_five_lines_compact_at_seventy_per_cent_after_a_commit(tmp_path: Path) -> None:
    with_rules(tmp_path, AFTER_A_COMMIT)
    low, high = Usage(9_000, 5), Usage(15_000, 5)
    script = [
        Reply(LONG, usage=high),
        Reply(tool_calls=[COMMIT], usage=low),
        Reply("Committed.", usage=low),
        Reply("Full.", usage=high),
        Reply("# Goal\nA cart."),
        Reply("Full again.", usage=high),
    ]
    async with stage(tmp_path, *script, editor=ZED_BETA, mode="full-access", env=WINDOW, config=BY_HAND) as it:
        await it.prompt("Full, and no commit?")
        await it.prompt("A commit, and not full?")
        assert shown_compactions(it.agent) == []
        await it.prompt("Both?")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], "# Goal\nA cart.")
        assert await it.prompt("Full, and no commit since?") == {"stopReason": "end_turn"}
        assert len(shown_compactions(it.agent)) == 1
        assert [is_summary_request(call.body) for call in it.server.calls] == [*[False] * 4, True, False]


async def test_a_rule_guards_a_folder_and_another_spares_the_user_a_question(tmp_path: Path) -> None:
    with_rules(tmp_path, GUARD)
    paths = ["migrations/1.sql", "./app/../migrations/2.sql", "notes.md", "app.py"]
    writes = [ToolCall("write", {"path": path, "content": "x"}) for path in paths]
    async with stage(tmp_path, Reply(tool_calls=writes), Reply("Done."), editor=ZED_BETA, dialect="anthropic") as it:
        it.agent.permission_answer = "allow_once"
        await it.prompt("Write")
        said = results(it.server.calls[1].body)
        assert [result.is_error for result in said] == [True, True, False, False]
        assert "A hook refused this call. Migrations are made with ./manage.py makemigrations." in said[0].text
        assert {path.name for path in it.folder.iterdir()} == {".git", "a.txt", "app.py", "notes.md"}
        asked = [line for line in it.agent.lines if line.method == "session/request_permission"]
        assert [str(line.params["toolCall"]["title"]) for line in asked] == ["Write app.py"]
        assert "A migration was left alone." in str(it.agent.updates(kind="notice"))
