"""`/undo`: the files are again what they were before the turn, all of them or none."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acp_agent.session.originals import SessionOriginals, remove_originals
from acp_agent.tools.text import digest
from support.client import AgentError
from support.editors import ZED, Editor
from support.models import Reply, ToolCall
from support.stage import Stage, conversation, results, stage

NO_FILES = replace(ZED, files=False)
ONE = "one\ntwo\nthree\n"


def read(path: str) -> ToolCall:
    return ToolCall("read", {"path": path})


def edit(path: str, old: str, new: str) -> ToolCall:
    return ToolCall("edit", {"path": path, "edits": [{"old_text": old, "new_text": new}]})


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write", {"path": path, "content": content})


def turn(*calls: ToolCall) -> list[Reply]:
    return [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]


async def undo(it: Stage) -> str:
    """Send the command, and what it said."""
    since = len(it.agent.lines)
    assert await it.prompt("/undo") == {"stopReason": "end_turn"}
    return it.agent.text(since=since)


@pytest.mark.parametrize("editor", [ZED, NO_FILES], ids=["the editor's files", "the disk"])
async def test_all_edits_of_the_turn_are_taken_back_and_the_model_is_told_and_has_to_read_again(
    tmp_path: Path, editor: Editor
) -> None:
    replies = [
        *turn(read("a.txt"), edit("a.txt", "two", "2"), edit("a.txt", "three", "3"), write("new/b.txt", "made\n")),
        *turn(edit("a.txt", "two", "zwei")),
        *turn(read("a.txt"), edit("a.txt", "two", "zwei")),
    ]
    async with stage(tmp_path, *replies, editor=editor, mode="accept-edits") as it:
        await it.prompt("Write numbers, please.")
        assert (it.folder / "a.txt").read_text() == "one\n2\n3\n"
        said = await undo(it)
        assert (it.folder / "a.txt").read_text() == ONE
        assert not (it.folder / "new/b.txt").exists()
        assert said.splitlines() == [
            "Undone what the turn “Write numbers, please.” changed in 2 files:",
            "",
            "- `a.txt`: as it was before",
            "- `new/b.txt`: removed, since that turn had made it",
        ]
        await it.prompt("In German.")
        _, told, asked = conversation(it.server.calls[-2].body)[-3:]
        assert "The user took back what your edits changed" in told[1] + asked[1]
        assert "- `new/b.txt`: removed" in told[1] + asked[1]
        [refused] = results(it.server.calls[-1].body)
        assert "was not read in this context" in refused.text
        assert (it.folder / "a.txt").read_text() == ONE
        await it.prompt("Again.")
        assert (it.folder / "a.txt").read_text() == "one\nzwei\nthree\n"


async def test_turn_after_turn_is_taken_back_and_commands_are_not(tmp_path: Path) -> None:
    replies = [
        *turn(read("a.txt"), edit("a.txt", "two", "2")),
        *turn(edit("a.txt", "three", "3"), ToolCall("shell", {"command": "echo x > made"})),
        Reply("Just talk."),
    ]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        for prompt in ("First.", "Second.", "What did you do?"):
            await it.prompt(prompt)
        said = await undo(it)
        assert "“Second.” changed in 1 file" in said
        assert said.endswith("It also ran 1 command; what those changed is as it was.")
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert (it.folder / "made").exists()
        async with it.restarted() as later:
            await later.agent.load(later.session, later.folder)
            assert "“First.”" in await undo(later)
            assert (it.folder / "a.txt").read_text() == ONE
            assert (await undo(later)).startswith("There is nothing to undo")


async def test_a_file_that_changed_since_keeps_all_of_them_as_they_are(tmp_path: Path) -> None:
    replies = turn(read("a.txt"), edit("a.txt", "two", "2"), write("b.txt", "b\n"), write("c.txt", "c\n"))
    async with stage(tmp_path, *replies, mode="accept-edits") as it:
        await it.prompt("Change them.")
        (it.folder / "b.txt").write_text("mine\n")
        (it.folder / "c.txt").unlink()  # as it was before that turn: nothing is left to do there
        said = await undo(it)
        assert said.splitlines() == [
            "Nothing was undone. Of what the turn “Change them.” changed, this cannot be taken back:",
            "",
            "- `b.txt`: it has changed since, which would be lost.",
            "",
            "The other 2 files could be, but it is all of them or none.",
        ]
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert (it.folder / "b.txt").read_text() == "mine\n"
        (it.folder / "b.txt").unlink()
        assert (await undo(it)).startswith("Undone")
        assert (it.folder / "a.txt").read_text() == ONE


async def test_a_file_that_was_made_through_a_link_is_removed_and_the_link_stays(tmp_path: Path) -> None:
    async with stage(tmp_path, *turn(write("dangling", "made\n")), editor=NO_FILES, mode="accept-edits") as it:
        (it.folder / "dangling").symlink_to("made.txt")
        await it.prompt("Make it.")
        assert (it.folder / "made.txt").read_text() == "made\n"
        said = await undo(it)
        assert (it.folder / "dangling").is_symlink()
        assert not (it.folder / "made.txt").exists()
        assert said.splitlines()[-1] == (
            "- `dangling`: the link stays; `made.txt` behind it was removed, since that turn had made it"
        )


async def test_what_a_command_moved_away_is_not_said_to_be_removed_and_words_behind_undo_undo_nothing(
    tmp_path: Path,
) -> None:
    replies = turn(write("x.txt", "1\n"), write("z.txt", "1\n"), ToolCall("shell", {"command": "mv x.txt y.txt"}))
    async with stage(tmp_path, *replies, mode="full-access") as it:
        await it.prompt("Make them.")
        begun = len(it.agent.lines)
        assert await it.prompt("/undo x.txt only") == {"stopReason": "end_turn"}
        assert it.agent.text(since=begun).startswith("Nothing may follow `/undo`, and nothing was undone.")
        assert (it.folder / "z.txt").exists()
        gone = "- `x.txt`: not there any more, and not looked for: if a command moved it, it stays where it is"
        assert gone in await undo(it)
        assert sorted(path.name for path in it.folder.iterdir()) == ["a.txt", "y.txt"]


async def test_what_somebody_wrote_in_the_middle_of_the_turn_is_not_lost(tmp_path: Path) -> None:
    calls = [
        read("a.txt"),
        edit("a.txt", "two", "2"),
        ToolCall("shell", {"command": "echo four >> a.txt"}),
        read("a.txt"),
        edit("a.txt", "three", "3"),
    ]
    async with stage(tmp_path, *turn(*calls), mode="full-access") as it:
        await it.prompt("Change it.")
        assert "something else changed it in the middle of that turn" in await undo(it)
        assert (it.folder / "a.txt").read_text() == "one\n2\n3\nfour\n"


async def test_what_is_not_saved_in_the_editor_counts_as_the_file(tmp_path: Path) -> None:
    async with stage(tmp_path, *turn(read("a.txt"), edit("a.txt", "two", "2")), mode="accept-edits") as it:
        await it.prompt("Change it.")
        it.agent.desk.unsaved[str(it.folder / "a.txt")] = "one\n2\nthree, and mine\n"
        assert "it has changed since" in await undo(it)
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"


async def test_a_file_that_cannot_be_written_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    replies = turn(
        read("a.txt"), edit("a.txt", "two", "2"), write("c.txt", "c\n"), read("b.txt"), edit("b.txt", "b", "c")
    )
    files = {"a.txt": ONE, "b.txt": "b\n"}
    async with stage(tmp_path, *replies, files=files, mode="accept-edits") as it:
        await it.prompt("Change them.")
        usual = it.agent.handlers["fs/write_text_file"]

        async def writes(params: Mapping[str, Any]) -> Any:
            if params["path"].endswith("b.txt"):
                raise AgentError(-32603, "It is locked")
            return await usual(params)

        it.agent.handlers["fs/write_text_file"] = writes
        said = await undo(it)
        assert said.startswith("Nothing was undone. The editor did not write")
        assert said.endswith("All files are as they were before this command.")
        left = [(it.folder / name).read_text() for name in ("a.txt", "b.txt", "c.txt")]
        assert left == ["one\n2\nthree\n", "c\n", "c\n"]
        it.agent.handlers["fs/write_text_file"] = usual
        assert (await undo(it)).startswith("Undone")
        assert sorted(path.name for path in it.folder.iterdir()) == ["a.txt", "b.txt"]


async def test_a_large_file_comes_back_from_a_private_store_that_goes_with_the_session(tmp_path: Path) -> None:
    large = "".join(f"line {number}\n" for number in range(20_000))
    files = {"large.txt": large}
    replies = turn(read("large.txt"), edit("large.txt", "line 7\n", "line seven\n"))
    async with stage(tmp_path, *replies, files=files, mode="accept-edits") as it:
        await it.prompt("Change it.")
        folder = it.home / "state" / "undo" / it.session
        [kept] = folder.iterdir()
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, kept)] == [0o700, 0o700, 0o600]
        assert (await undo(it)).startswith("Undone")
        assert (it.folder / "large.txt").read_text() == large
        await it.agent.request("session/delete", {"sessionId": it.session})
        assert not folder.exists()


def logged(it: Stage) -> Sequence[dict[str, Any]]:
    with closing(sqlite3.connect(it.home / "state" / "sessions.db")) as database:
        rows = database.execute("SELECT data FROM events WHERE kind = 'tool_returned' ORDER BY seq").fetchall()
    return [json.loads(data) for (data,) in rows]


async def test_a_small_file_is_in_the_log_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, *turn(read("a.txt"), edit("a.txt", "two", "2")), mode="accept-edits") as it:
        await it.prompt("Change it.")
        assert not (it.home / "state" / "undo").exists()
        assert logged(it)[-1]["before"] == [{"path": str(it.folder / "a.txt"), "digest": digest(ONE)}]


async def test_the_store_is_bounded_keeps_what_is_newest_and_gives_nothing_that_was_tampered_with(
    tmp_path: Path,
) -> None:
    originals = SessionOriginals(tmp_path, "sess_1", most=25)
    for text in ("a" * 10, "b" * 10, "c" * 10):
        await originals.keep(text)
        for path in (tmp_path / "undo" / "sess_1").iterdir():
            earlier = path.stat().st_mtime_ns - 10**9
            os.utime(path, ns=(earlier, earlier))
    assert [await originals.read(digest(letter * 10)) for letter in "abc"] == [None, "b" * 10, "c" * 10]
    (tmp_path / "undo" / "sess_1" / digest("c" * 10)).write_text("x")
    assert await originals.read(digest("c" * 10)) is None
    await originals.keep("too much for it " * 4)
    remove_originals(tmp_path, "..")
    remove_originals(tmp_path, "sess_1")
    assert [*(tmp_path / "undo").iterdir()] == []
