"""Files that commands change while the editor still shows its old buffers, and files
that the editor garbles.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import CODECOMPANION, ZED, Editor
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results

READ = ToolCall("read", {"path": "a.txt"})
SED = ToolCall("shell", {"command": "sed -i s/two/TWO/ a.txt"})


def edit(old: str, new: str) -> ToolCall:
    return ToolCall(
        "edit", {"path": "a.txt", "edits": [{"old_text": old, "new_text": new}]}
    )


def write(text: str) -> ToolCall:
    return ToolCall("write", {"path": "a.txt", "content": text})


def turn(*calls: ToolCall) -> list[Reply]:
    return [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]


def returned(it: Stage) -> list[str]:
    """Return the last tool result of each request after the first."""
    return [results(call.body)[-1].text for call in it.server.calls[1:]]


class Buffers:
    """An editor that reads each file once, and shows the same text until it writes the
    file.

    :ivar texts: contents of the buffers, by path.
    :ivar strips: whether it removes byte order marks.
    :ivar formats: what it replaces when it saves a text, and by what.
    """

    def __init__(self, it: Stage, *, strips: bool = False) -> None:
        self.texts: dict[str, str] = {}
        self.strips = strips
        self.formats: tuple[str, str] = ("", "")
        it.agent.handlers |= {
            "fs/read_text_file": self.read,
            "fs/write_text_file": self.write,
        }

    async def read(self, params: Mapping[str, Any]) -> Any:
        path = params["path"]
        if path not in self.texts:
            if not Path(path).exists():
                raise AgentError(-32002, "Resource not found")
            text = Path(path).read_bytes().decode()
            self.texts[path] = text.removeprefix("\ufeff") if self.strips else text
        return {"content": self.texts[path]}

    async def write(self, params: Mapping[str, Any]) -> Any:
        text = params["content"].replace(*self.formats)
        self.texts[params["path"]] = text
        Path(params["path"]).write_bytes(text.encode())
        return {}


@pytest.mark.parametrize("editor", [ZED, CODECOMPANION], ids=["zed", "codecompanion"])
@pytest.mark.parametrize(
    "change",
    [edit("three", "THREE"), write("one\ntwo\nTHREE\n")],
    ids=["edit", "write"],
)
async def test_what_a_command_changed_is_not_overwritten_by_what_the_editor_still_shows(
    tmp_path: Path, editor: Editor, change: ToolCall
) -> None:
    replies = turn(READ, SED, change, READ, edit("three", "THREE"))
    async with stage(tmp_path, *replies, editor=editor, mode="full-access") as it:
        Buffers(it)
        await it.prompt()
        assert (
            "has changed since it was read (by the user, a command" in returned(it)[2]
        )
        assert returned(it)[3] == "1\tone\n2\tTWO\n3\tthree"
        assert (it.folder / "a.txt").read_text() == "one\nTWO\nTHREE\n"


async def test_what_a_command_changed_after_the_agent_wrote_the_file_is_not_overwritten(
    tmp_path: Path,
) -> None:
    replies = turn(
        READ, edit("one", "1"), SED, edit("three", "3"), READ, edit("three", "3")
    )
    async with stage(tmp_path, *replies, mode="full-access") as it:
        Buffers(it)
        await it.prompt()
        assert "has changed since it was read" in returned(it)[3]
        assert (it.folder / "a.txt").read_text() == "1\nTWO\n3\n"


async def test_the_disk_counts_too_if_the_editor_formats_what_it_saves(
    tmp_path: Path,
) -> None:
    replies = turn(READ, edit("one", "1"), SED, READ, edit("three", "3"))
    async with stage(tmp_path, *replies, mode="full-access") as it:
        Buffers(it).formats = ("1", "one;")
        await it.prompt()
        assert returned(it)[3] == "1\tone;\n2\tTWO\n3\tthree"
        assert (it.folder / "a.txt").read_text() == "one;\nTWO\n3\n"


async def test_a_file_that_a_command_has_removed_does_not_come_back(
    tmp_path: Path,
) -> None:
    remove = ToolCall("shell", {"command": "rm a.txt"})
    async with stage(
        tmp_path, *turn(READ, remove, edit("three", "3"), READ), mode="full-access"
    ) as it:
        Buffers(it)
        await it.prompt()
        assert all("does not exist" in answer for answer in returned(it)[2:])
        assert not (it.folder / "a.txt").exists()


async def test_a_file_that_a_command_has_made_is_read_where_the_editor_still_has_none(
    tmp_path: Path,
) -> None:
    missing = ToolCall("read", {"path": "b.txt"})
    make = ToolCall("shell", {"command": "echo made > b.txt"})
    async with stage(
        tmp_path,
        *turn(missing, make, missing),
        editor=CODECOMPANION,
        mode="full-access",
    ) as it:

        async def nothing(params: Mapping[str, Any]) -> Any:
            return {"content": ""}

        it.agent.handlers["fs/read_text_file"] = nothing
        await it.prompt()
        assert "does not exist" in returned(it)[0]
        assert returned(it)[2] == "1\tmade"


async def test_unsaved_text_is_respected_if_only_the_editor_has_changed(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, *turn(READ), *turn(READ, edit("three", "3")), mode="full-access"
    ) as it:
        buffers = Buffers(it)
        await it.prompt()
        buffers.texts[str(it.folder / "a.txt")] = "unsaved\ntwo\nthree\n"
        await it.prompt()
        assert (it.folder / "a.txt").read_text() == "unsaved\ntwo\n3\n"


async def test_nothing_is_written_if_both_the_editor_and_the_disk_have_changed(
    tmp_path: Path,
) -> None:
    replies = [
        *turn(READ),
        *turn(SED, READ, edit("three", "3")),
        *turn(READ, edit("three", "3")),
    ]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        buffers = Buffers(it)
        path = it.folder / "a.txt"
        await it.prompt()
        buffers.texts[str(path)] = "unsaved\ntwo\nthree\n"
        await it.prompt()
        read, edited = (results(call.body)[-1].text for call in it.server.calls[-2:])
        assert read.startswith(
            "1\tunsaved\n2\ttwo\n3\tthree\n(This is the unsaved text in the editor."
        )
        assert "Writing it would lose one of the two changes" in edited
        assert path.read_text() == "one\nTWO\nthree\n"
        buffers.texts.clear()  # the user reloads the file
        await it.prompt()
        assert path.read_text() == "one\nTWO\n3\n"


UNSAVED = "one\ntwo\nthree\nunsaved\n"


@pytest.mark.parametrize(
    "replies",
    [
        turn(READ, SED, edit("three", "3")),
        turn(READ, SED, READ, edit("three", "3")),
        turn(READ, SED, write(f"{UNSAVED}more\n")),
        [*turn(READ), *turn(SED), *turn(edit("three", "3"))],
    ],
    ids=["edit", "read-again", "write", "turns"],
)
async def test_nothing_is_written_if_the_disk_changes_under_text_unsaved_at_the_read(
    tmp_path: Path, replies: list[Reply]
) -> None:
    replies = [*replies, *turn(READ, edit("three", "3"))]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        buffers = Buffers(it)
        path = it.folder / "a.txt"
        buffers.texts[str(path)] = UNSAVED
        while len(it.server.calls) < len(replies) - 3:
            await it.prompt()
        refusal = results(it.server.calls[-1].body)[-1].text
        assert "Writing it would lose one of the two changes" in refusal
        assert path.read_text() == "one\nTWO\nthree\n"
        buffers.texts.clear()  # the user reloads the file
        await it.prompt()
        assert path.read_text() == "one\nTWO\n3\n"


async def test_a_file_that_a_command_makes_under_unsaved_text_is_not_overwritten(
    tmp_path: Path,
) -> None:
    make = ToolCall("shell", {"command": "echo made > a.txt"})
    replies = turn(READ, make, edit("three", "3"))
    async with stage(tmp_path, *replies, mode="full-access") as it:
        buffers = Buffers(it)
        path = it.folder / "a.txt"
        path.unlink()
        buffers.texts[str(path)] = UNSAVED
        await it.prompt()
        assert "Writing it would lose one of the two changes" in returned(it)[2]
        assert path.read_text() == "made\n"


async def test_unsaved_text_at_the_first_read_can_be_edited_if_the_disk_is_unchanged(
    tmp_path: Path,
) -> None:
    replies = [
        *turn(READ, edit("three", "3")),
        *turn(READ, edit("two", "2")),
    ]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        buffers = Buffers(it)
        path = it.folder / "a.txt"
        buffers.texts[str(path)] = UNSAVED
        await it.prompt()
        assert path.read_text() == "one\ntwo\n3\nunsaved\n"
        buffers.texts[str(path)] += "typed\n"
        await it.prompt()
        assert path.read_text() == "one\n2\n3\nunsaved\ntyped\n"


@pytest.mark.parametrize(
    "change", [edit("hello", "HELLO"), write("HELLO\n")], ids=["edit", "write"]
)
@pytest.mark.parametrize("unsaved", [False, True])
async def test_a_byte_order_mark_that_the_editor_drops_is_kept(
    tmp_path: Path, change: ToolCall, unsaved: bool
) -> None:
    async with stage(tmp_path, *turn(READ, change), mode="accept-edits") as it:
        buffers = Buffers(it, strips=True)
        path = it.folder / "a.txt"
        path.write_bytes(b"\xef\xbb\xbfhello\n")
        if unsaved:
            buffers.texts[str(path)] = "unsaved, hello\n"
        await it.prompt()
        assert returned(it)[0] == ("1\tunsaved, hello" if unsaved else "1\thello")
        kept = b"unsaved, " if unsaved and change.name == "edit" else b""
        assert path.read_bytes() == b"\xef\xbb\xbf" + kept + b"HELLO\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
async def test_a_file_in_utf_16_or_utf_32_is_refused_and_stays_as_it_is(
    tmp_path: Path, encoding: str
) -> None:
    async with stage(
        tmp_path, *turn(READ, edit("two", "2"), write("whole\n")), mode="accept-edits"
    ) as it:
        Buffers(it)
        path = it.folder / "a.txt"
        path.write_bytes(before := "one\ntwo\n".encode(encoding))
        await it.prompt()
        assert [call["status"] for call in it.calls()] == ["failed"] * 3
        assert path.read_bytes() == before


async def test_the_disk_counts_too_in_a_session_that_was_loaded_again(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, *turn(READ), *turn(edit("three", "3")), mode="full-access"
    ) as it:
        Buffers(it)
        await it.prompt()
        (it.folder / "a.txt").write_text("one\nTWO\nthree\n")
        await it.agent.load(it.session, it.folder)
        await it.prompt()
        assert (
            "has changed since it was read"
            in results(it.server.calls[-1].body)[-1].text
        )
        assert (it.folder / "a.txt").read_text() == "one\nTWO\nthree\n"
