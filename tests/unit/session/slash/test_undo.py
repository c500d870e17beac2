"""`/undo` restores the files as they were before the turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import ZED, Editor
from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import Stage, conversation, results

NO_FILES = replace(ZED, files=False)
ONE = "one\ntwo\nthree\n"


def read(path: str) -> ToolCall:
    return ToolCall("read", {"path": path})


def edit(path: str, old: str, new: str) -> ToolCall:
    return ToolCall(
        "edit", {"path": path, "edits": [{"old_text": old, "new_text": new}]}
    )


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write", {"path": path, "content": content})


def turn(*calls: ToolCall) -> list[Reply]:
    return [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]


async def undo(it: Stage) -> str:
    """Send the command, and return its answer."""
    since = len(it.agent.lines)
    assert await it.prompt("/undo") == {"stopReason": "end_turn"}
    return it.agent.text(since=since)


@pytest.mark.parametrize(
    "editor", [ZED, NO_FILES], ids=["the editor's files", "the disk"]
)
async def test_undo_reverts_all_edits_of_a_turn_and_the_model_must_read_again(
    tmp_path: Path, editor: Editor
) -> None:
    replies = [
        *turn(
            read("a.txt"),
            edit("a.txt", "two", "2"),
            edit("a.txt", "three", "3"),
            write("new/b.txt", "made\n"),
        ),
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
        _, note, asked = conversation(it.server.calls[-2].body)[-3:]
        assert "The user took back what your edits changed" in note[1] + asked[1]
        assert "- `new/b.txt`: removed" in note[1] + asked[1]
        [refused] = results(it.server.calls[-1].body)
        assert "was not read in this context" in refused.text
        assert (it.folder / "a.txt").read_text() == ONE
        await it.prompt("Again.")
        assert (it.folder / "a.txt").read_text() == "one\nzwei\nthree\n"


async def test_undo_reverts_one_turn_after_another_but_no_shell_commands(
    tmp_path: Path,
) -> None:
    replies = [
        *turn(read("a.txt"), edit("a.txt", "two", "2")),
        *turn(
            edit("a.txt", "three", "3"), ToolCall("shell", {"command": "echo x > made"})
        ),
        Reply("Just talk."),
    ]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        for prompt in ("First.", "Second.", "What did you do?"):
            await it.prompt(prompt)
        said = await undo(it)
        assert "“Second.” changed in 1 file" in said
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert (it.folder / "made").exists()
        async with it.restarted() as later:
            await later.agent.load(later.session, later.folder)
            assert "“First.”" in await undo(later)
            assert (it.folder / "a.txt").read_text() == ONE
            assert (await undo(later)).startswith("There is nothing to undo")


async def test_undo_changes_nothing_if_one_file_was_changed_since(
    tmp_path: Path,
) -> None:
    replies = turn(
        read("a.txt"),
        edit("a.txt", "two", "2"),
        write("b.txt", "b\n"),
        write("c.txt", "c\n"),
    )
    async with stage(tmp_path, *replies, mode="accept-edits") as it:
        await it.prompt("Change them.")
        (it.folder / "b.txt").write_text("mine\n")
        (
            it.folder / "c.txt"
        ).unlink()  # already as before that turn, so nothing is left to do
        said = await undo(it)
        assert said.splitlines() == [
            "Nothing was undone. These changes of the turn “Change them.” cannot be undone:",
            "",
            "- `b.txt`: it has changed since, and that change would be lost.",
        ]
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert (it.folder / "b.txt").read_text() == "mine\n"
        (it.folder / "b.txt").unlink()
        assert (await undo(it)).startswith("Undone")
        assert (it.folder / "a.txt").read_text() == ONE


async def test_undo_does_not_claim_to_remove_a_file_that_a_command_moved(
    tmp_path: Path,
) -> None:
    replies = turn(
        write("x.txt", "1\n"),
        write("z.txt", "1\n"),
        ToolCall("shell", {"command": "mv x.txt y.txt"}),
    )
    async with stage(tmp_path, *replies, mode="full-access") as it:
        await it.prompt("Make them.")
        assert "- `x.txt`: already gone; if a command moved it" in await undo(it)
        assert sorted(path.name for path in it.folder.iterdir()) == ["a.txt", "y.txt"]


async def test_undo_keeps_what_somebody_else_wrote_during_the_turn(
    tmp_path: Path,
) -> None:
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


async def test_undo_continues_later_if_a_file_could_not_be_written(
    tmp_path: Path,
) -> None:
    files = {"a.txt": ONE, "b.txt": "b\n"}
    replies = turn(
        read("a.txt"), edit("a.txt", "two", "2"), read("b.txt"), edit("b.txt", "b", "c")
    )
    async with stage(tmp_path, *replies, files=files, mode="accept-edits") as it:
        await it.prompt("Change them.")
        usual = it.agent.handlers["fs/write_text_file"]

        async def writes(params: Mapping[str, Any]) -> Any:
            if params["path"].endswith("b.txt"):
                raise AgentError(-32603, "It is locked")
            return await usual(params)

        it.agent.handlers["fs/write_text_file"] = writes
        assert (await undo(it)).startswith(
            "`b.txt` was not undone: The editor did not write"
        )
        assert [(it.folder / name).read_text() for name in files] == [ONE, "c\n"]
        it.agent.handlers["fs/write_text_file"] = usual
        assert (await undo(it)).startswith("Undone")
        assert [(it.folder / name).read_text() for name in files] == [ONE, "b\n"]
