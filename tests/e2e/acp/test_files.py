"""Files: through the editor where it offers them, on the disk where it does not, and
what the editor is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import AVANTE, BARE, CODECOMPANION, TOAD, ZED, Editor
from support.memory import stage
from support.replies import Reply, ToolCall
from support.serving import Handler
from support.stage import Stage, results

READ = ToolCall("read", {"path": "a.txt"})


def edit(old: str, new: str, path: str = "a.txt") -> ToolCall:
    return ToolCall(
        "edit", {"path": path, "edits": [{"old_text": old, "new_text": new}]}
    )


def turn(*calls: ToolCall) -> list[Reply]:
    """One call in each answer, and a last answer without any."""
    return [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]


def returned(it: Stage) -> list[str]:
    """The result of the last call in each request after the first."""
    return [results(call.body)[-1].text for call in it.server.calls[1:]]


@pytest.mark.parametrize("editor", [ZED, CODECOMPANION], ids=["zed", "codecompanion"])
async def test_an_unsaved_buffer_wins_and_an_edit_goes_through_the_editor(
    tmp_path: Path, editor: Editor
) -> None:
    new = ToolCall("write", {"path": "deep/er/b.txt", "content": "made\n"})
    async with stage(
        tmp_path, *turn(READ, edit("zwei", "2"), new), editor=editor
    ) as it:
        path = it.folder / "a.txt"
        it.agent.desk.unsaved[str(path)] = "eins\nzwei\n"
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "zwei" in returned(it)[0]
        assert it.agent.desk.writes == [
            (str(path), "eins\n2\n"),
            (str(it.folder / "deep/er/b.txt"), "made\n"),
        ]
        assert path.read_text() == "eins\n2\n"
        assert (it.folder / "deep/er/b.txt").read_text() == "made\n"
        assert [call["status"] for call in it.calls()] == ["completed"] * 3


@pytest.mark.parametrize(
    "editor", [TOAD, ZED, BARE], ids=["loses them", "keeps them", "disk"]
)
async def test_an_edit_keeps_the_line_ends_of_a_file_whatever_the_editor_makes_of_them(
    tmp_path: Path, editor: Editor
) -> None:
    again = ToolCall(
        "edit",
        {"path": "a.txt", "edits": [{"old_text": "2\n", "new_text": "2\n2.5\n"}]},
    )
    whole = ToolCall("write", {"path": "a.txt", "content": "whole\nnew\n"})
    async with stage(
        tmp_path,
        *turn(READ, edit("two", "2"), again, whole),
        editor=editor,
        mode="accept-edits",
    ) as it:
        path = it.folder / "a.txt"
        path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [call["status"] for call in it.calls()] == ["completed"] * 4
        assert path.read_bytes() == b"whole\r\nnew\r\n"


async def test_a_file_whose_bytes_the_editor_drops_is_not_edited(
    tmp_path: Path,
) -> None:
    whole = ToolCall("write", {"path": "a.txt", "content": "whole\n"})
    async with stage(
        tmp_path, *turn(READ, edit("two", "2"), whole), editor=TOAD, mode="accept-edits"
    ) as it:
        path = it.folder / "a.txt"
        path.write_bytes(before := b"gr\xfcn\r\ntwo\r\n")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [call["status"] for call in it.calls()] == ["failed"] * 3
        assert "not UTF-8" in returned(it)[0]
        assert path.read_bytes() == before


async def test_an_editor_that_gives_a_file_without_its_last_newline_takes_none_from_it(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, *turn(READ, edit("two", "2")), editor=AVANTE) as it:
        path = it.folder / "a.txt"
        it.agent.desk.unsaved[str(path)] = "one\ntwo\nthree"
        await it.prompt()
        assert it.agent.desk.writes == [(str(path), "one\n2\nthree\n")]
        assert path.read_text() == "one\n2\nthree\n"


def answering(answer: Any) -> Handler:
    async def handler(params: Mapping[str, Any]) -> Any:
        if isinstance(answer, AgentError):
            raise answer
        return answer

    return handler


UNHEARD: dict[str, tuple[Any, str]] = {
    "error": (
        AgentError(-32603, "Internal error: the buffer is busy"),
        "it answered: Internal error: the buffer is busy",
    ),
    "null": (None, "content is missing"),
    "array": ([], "the result must be an object"),
}


@pytest.mark.parametrize("answer", UNHEARD)
async def test_where_the_editor_fails_to_read_a_file_the_model_sees_the_disk_and_changes_nothing(
    tmp_path: Path, answer: str
) -> None:
    wire, reason = UNHEARD[answer]
    whole = ToolCall("write", {"path": "a.txt", "content": "whole\n"})
    new = ToolCall("write", {"path": "new.txt", "content": "new\n"})
    async with stage(tmp_path, *turn(READ, edit("two", "2"), whole, new)) as it:
        path = it.folder / "a.txt"
        it.agent.desk.unsaved[str(path)] = "unsaved\ntwo\n"
        it.agent.handlers["fs/read_text_file"] = answering(wire)
        assert await it.prompt() == {"stopReason": "end_turn"}
        read, edited, written, _ = returned(it)
        assert "did not provide the text in its buffer" in read
        for refused in (edited, written):
            assert "the editor could not provide the text in its buffer" in refused
            assert reason in refused
        assert [call["status"] for call in it.calls()] == [
            "completed",
            "failed",
            "failed",
            "completed",
        ]
        assert path.read_text() == "one\ntwo\nthree\n"
        # What is not there has no buffer that could be overwritten, and is all that
        # permission was asked for.
        assert [name for name, _ in it.agent.desk.writes] == [
            str(it.folder / "new.txt")
        ]
        assert len(it.agent.desk.permissions) == 1


@pytest.mark.parametrize(
    "editor",
    [
        BARE,
        replace(ZED, files=False, more={"fs": {"readTextFile": True}}),
        replace(ZED, files=False, more={"fs": {"writeTextFile": True}}),
    ],
    ids=["neither", "reads", "writes"],
)
async def test_what_the_editor_does_not_offer_is_done_on_the_disk(
    tmp_path: Path, editor: Editor
) -> None:
    async with stage(tmp_path, *turn(READ, edit("two", "2")), editor=editor) as it:
        offered = it.agent.desk
        if editor.more:
            it.agent.handlers |= {
                "fs/read_text_file": offered.read,
                "fs/write_text_file": offered.write,
            }
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert bool(offered.reads) == editor.advertises("fs", "readTextFile")
        assert bool(offered.writes) == editor.advertises("fs", "writeTextFile")


@pytest.mark.parametrize("code", [-32601, -32002])
async def test_a_file_that_the_editor_does_not_know_or_cannot_take_is_read_from_and_written_to_the_disk(
    tmp_path: Path, code: int
) -> None:
    async with stage(
        tmp_path, *turn(READ, edit("two", "2")), mode="accept-edits"
    ) as it:
        it.agent.handlers["fs/read_text_file"] = answering(AgentError(code))
        if code == -32601:
            it.agent.handlers["fs/write_text_file"] = answering(AgentError(code))
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert "did not provide" not in str(returned(it))


async def test_a_write_that_the_editor_refuses_is_not_made_behind_its_back(
    tmp_path: Path,
) -> None:
    new = ToolCall("write", {"path": "new/er/b.txt", "content": "made\n"})
    outside = ToolCall("write", {"path": "../made.txt", "content": "made\n"})
    async with stage(tmp_path, *turn(READ, edit("two", "2"), new, outside)) as it:

        async def refuse(params: Mapping[str, Any]) -> Any:
            raise AgentError(-32603, "The user said no")

        it.agent.handlers["fs/write_text_file"] = refuse
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [call["status"] for call in it.calls()] == [
            "completed",
            "failed",
            "failed",
            "completed",
        ]
        assert "The user said no" in returned(it)[1]
        assert "The user said no" in returned(it)[2]
        assert not list(it.folder.rglob("b.txt"))
        assert (it.folder / "a.txt").read_text() == "one\ntwo\nthree\n"
        # Editors refuse what lies outside their project, but we asked the user about
        # exactly that.
        assert (tmp_path / "made.txt").read_text() == "made\n"


@pytest.mark.parametrize(
    "editor", [ZED, TOAD, BARE], ids=["error", "empty text", "disk"]
)
async def test_a_missing_file_is_missing_however_the_editor_says_it_and_a_new_one_has_no_old_text(
    tmp_path: Path, editor: Editor
) -> None:
    calls = [
        ToolCall("read", {"path": "gone.txt"}),
        ToolCall("write", {"path": "gone.txt", "content": "new\n"}),
    ]
    async with stage(tmp_path, *turn(*calls), editor=editor) as it:
        await it.prompt()
        assert "does not exist" in returned(it)[0]
        [asked] = it.agent.desk.permissions
        path = str(it.folder / "gone.txt")
        diff = {"type": "diff", "path": path, "oldText": None, "newText": "new\n"}
        shown = it.calls()[1]
        for call in (asked["toolCall"], shown):
            first = call["content"][0]
            assert {"oldText": None, **first} == diff
            assert call["locations"][0]["path"] == path
        assert shown["status"] == "completed"


async def test_an_edit_shows_its_diff_first_with_an_absolute_path_and_a_title_of_one_line(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, *turn(READ, edit("two", "2"))) as it:
        await it.prompt()
        [asked] = it.agent.desk.permissions
        diff = {
            "type": "diff",
            "path": str(it.folder / "a.txt"),
            "oldText": "one\ntwo\nthree\n",
            "newText": "one\n2\nthree\n",
        }
        assert asked["toolCall"]["content"][0] == diff
        assert asked["toolCall"]["kind"] == "edit"
        shown = it.calls()[1]
        assert shown["content"][0] == diff
        assert shown["title"] == "Edit a.txt"
        assert shown["locations"] == [{"path": str(it.folder / "a.txt"), "line": 2}]
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            again = later.calls()[1]
            assert {
                key: again[key]
                for key in (
                    "title",
                    "kind",
                    "status",
                    "content",
                    "locations",
                    "rawInput",
                )
            } == {
                key: shown[key]
                for key in (
                    "title",
                    "kind",
                    "status",
                    "content",
                    "locations",
                    "rawInput",
                )
            }


async def test_a_result_is_shown_as_a_code_block_that_its_text_cannot_break(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, *turn(READ), files={"a.txt": "```\n# not Markdown\n````\n"}
    ) as it:
        await it.prompt()
        [call] = it.calls()
        shown = call["content"][0]["content"]["text"]
        assert shown.startswith("`````\n")
        assert shown.endswith("\n`````")
        assert call["kind"] == "read"
        assert call["name"] == "read"
