"""The `edit` and `write` tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.events import FileVersion
from acp_agent.conversation.messages import JsonValue, Text
from acp_agent.conversation.views import Diff, Location
from acp_agent.errors import ToolError
from acp_agent.tools.files.changes import DIFF_LIMIT, _diff_of
from acp_agent.tools.text import digest
from support.workspace import Workspace


async def refusal(workspace: Workspace, tool: str, **arguments: JsonValue) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.call(tool, **arguments)
    return str(caught.value)


def edit(old: str, new: str) -> list[JsonValue]:
    return [{"old_text": old, "new_text": new}]


async def test_an_edit_shows_its_diff_before_it_changes_the_file(
    workspace: Workspace,
) -> None:
    path = workspace.file("src/app.py", "a = 1\nb = 2\n")
    await workspace.call("read", path="src/app.py")
    prepared = await workspace.prepare(
        "edit", path="src/app.py", edits=edit("b = 2", "b = 3")
    )
    assert path.read_text() == "a = 1\nb = 2\n"
    assert (prepared.view.title, prepared.view.kind) == ("Edit src/app.py", "edit")
    assert prepared.view.diffs == (Diff(str(path), "a = 1\nb = 2\n", "a = 1\nb = 3\n"),)
    assert prepared.view.locations == (Location(str(path), 2),)
    assert (
        prepared.access.effect,
        prepared.access.subject,
        prepared.access.outside,
    ) == ("edit", "edit", ())
    outcome = await workspace.run(prepared)
    assert path.read_text() == "a = 1\nb = 3\n"
    assert outcome.files == (FileVersion(str(path), digest("a = 1\nb = 3\n")),)
    assert not outcome.is_error


async def test_one_invalid_edit_changes_nothing(workspace: Workspace) -> None:
    path = workspace.file("a", "one\ntwo\n")
    await workspace.call("read", path="a")
    message = await refusal(
        workspace, "edit", path="a", edits=edit("one", "1") + edit("three", "3")
    )
    assert message.startswith("edits[1]: this text is not in the file.")
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("edit", {"edits": edit("x", "y")}), ("write", {"content": "y"})],
    ids=["edit", "write"],
)
async def test_an_unread_or_changed_file_is_not_edited(
    workspace: Workspace, tool: str, arguments: dict[str, JsonValue]
) -> None:
    path = workspace.file("a", "x")
    assert "Read it first" in await refusal(workspace, tool, path="a", **arguments)
    await workspace.call("read", path="a")
    path.write_text("x, changed by the user")
    assert "Read the file again" in await refusal(
        workspace, tool, path="a", **arguments
    )
    assert path.read_text() == "x, changed by the user"
    await workspace.call("read", path="a")
    prepared = await workspace.prepare(tool, path="a", **arguments)
    path.write_text("x!")  # while the user decides
    with pytest.raises(ToolError, match="Read the file again"):
        await workspace.run(prepared)
    assert path.read_text() == "x!"
    await workspace.call("read", path="a")
    await workspace.call(tool, path="a", **arguments)
    assert path.read_text() in ("y", "y!")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("edit", {"edits": edit("x", "y")}), ("write", {"content": "y"})],
    ids=["edit", "write"],
)
async def test_whether_a_path_outside_exists_is_revealed_only_after_permission(
    workspace: Workspace,
    tmp_path_factory: pytest.TempPathFactory,
    tool: str,
    arguments: dict[str, JsonValue],
) -> None:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "there").write_text("x")
    (folder / "folder").mkdir()
    prepared = {
        name: await workspace.prepare(tool, path=str(folder / name), **arguments)
        for name in ("there", "folder", "missing")
    }
    assert {name: call.access.outside for name, call in prepared.items()} == {
        name: (folder / name,) for name in prepared
    }
    with pytest.raises(ToolError, match="was not read in this context"):
        await workspace.run(prepared["there"])
    with pytest.raises(ToolError, match="is a directory"):
        await workspace.run(prepared["folder"])
    assert (folder / "there").read_text() == "x"


async def test_a_new_file_needs_no_reading_and_can_be_edited_at_once(
    workspace: Workspace,
) -> None:
    prepared = await workspace.prepare("write", path="new/dir/a.py", content="x = 1\n")
    path = workspace.root / "new/dir/a.py"
    assert prepared.view.diffs == (Diff(str(path), None, "x = 1\n"),)
    assert prepared.view.title == "Write new/dir/a.py"
    outcome = await workspace.run(prepared)
    assert outcome.parts == (Text("Created new/dir/a.py (1 line)."),)
    await workspace.call("edit", path="new/dir/a.py", edits=edit("1", "2"))
    assert path.read_text() == "x = 2\n"


async def test_crlf_byte_order_mark_and_missing_final_newline_are_kept(
    workspace: Workspace,
) -> None:
    path = workspace.file("a", "\ufeffone\r\ntwo".encode())
    await workspace.call("read", path="a")
    await workspace.call("edit", path="a", edits=edit("one\ntwo", "1\n2"))
    assert path.read_bytes() == "\ufeff1\r\n2".encode()
    await workspace.call("write", path="a", content="x\ny\n")
    assert path.read_bytes() == "\ufeffx\r\ny\r\n".encode()


@given(st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_the_size_of_a_diff_is_limited(
    old_size: int, new_size: int, is_new: bool
) -> None:
    before = "a\n" * (old_size * DIFF_LIMIT // 3)
    after = "b" * (new_size * DIFF_LIMIT)
    diff = _diff_of("/a", None if is_new else before, after)
    assert max(len(diff.old_text or ""), len(diff.new_text)) <= DIFF_LIMIT + 60
    assert (diff.old_text is None) == is_new
