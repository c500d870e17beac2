"""`/export` writes the conversation to a file, and needs permission like any write."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.memory import stage
from support.models import Reply
from support.stage import Stage


async def export(it: Stage, path: str = "") -> str:
    """Export, and return the text for the user."""
    since = len(it.agent.lines)
    await it.prompt(f"/export {path}")
    return it.agent.text(since=since)


async def test_export_asks_and_writes_the_whole_conversation(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("A cart.")) as it:
        await it.prompt("What is it?")
        it.agent.permission_answer = "reject_once"
        assert "since you did not allow it" in await export(it, "notes/talk.md")
        assert not (it.folder / "notes").exists()
        it.agent.permission_answer = "allow_once"
        text = await export(it, "notes/talk.md")
        asked = [
            line
            for line in it.agent.lines
            if line.method == "session/request_permission"
        ]
        assert asked[-1].params["toolCall"]["title"] == "Write notes/talk.md"
        written = (it.folder / "notes/talk.md").read_text()
        assert (
            text
            == f"The conversation was written to `notes/talk.md` ({len(written):,} characters)."
        )
        lines = written.splitlines()
        assert lines[1:10] == [
            "# What is it?",
            "",
            "## User",
            "",
            "What is it?",
            "",
            "## Agent",
            "",
            "A cart.",
        ]
        assert lines[-1].startswith("Nothing was written, since you did not allow it")
        assert [call["status"] for call in it.calls()] == ["failed", "completed"]


async def test_export_has_a_default_path_and_replaces_only_its_own_files(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, Reply("A cart."), Reply("Yes."), mode="full-access"
    ) as it:
        await it.prompt("What is it?")
        assert "a.txt already exists" in await export(it, "a.txt")
        assert (it.folder / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert "`.acp-agent/exports/" in await export(it)
        await it.prompt("Is it?")
        await export(it)
        [file] = (it.folder / ".acp-agent" / "exports").iterdir()
        assert file.name.startswith(f"{it.session}-")
        assert "Is it?" in file.read_text()


@pytest.mark.parametrize(("path", "asked"), [("talk.md", 0), ("", 1)])
async def test_export_needs_permission_like_a_write(
    tmp_path: Path, path: str, asked: int
) -> None:
    async with stage(tmp_path, Reply("A cart."), mode="accept-edits") as it:
        await it.prompt("What is it?")
        assert "was written to" in await export(it, path)
        assert (
            len(
                [
                    line
                    for line in it.agent.lines
                    if line.method == "session/request_permission"
                ]
            )
            == asked
        )
        await it.agent.set_mode(it.session, "plan")
        assert "Nothing was written" in await export(it, "other.md")
