"""What a command has done to the files that its line names: told where it was seen, and not where it was only meant."""

from __future__ import annotations

import os

from acp_agent.conversation.events import FileChange
from support.workspace import Workspace


async def changes(workspace: Workspace, command: str) -> list[tuple[str, ...]]:
    """The changes that are told of a command, with paths as they are in the directory."""
    outcome = await workspace.call("shell", command=command)

    def names(change: FileChange) -> list[str]:
        return [os.path.relpath(path, workspace.root) for path in (change.former, change.path) if path]

    return [(*names(change), change.operation, change.kind or "unknown") for change in outcome.view.changes]


async def test_what_is_gone_was_deleted_and_is_told_with_what_it_was(workspace: Workspace) -> None:
    workspace.file("a b.txt", "text")
    workspace.file("bin/blob", b"\0\1")
    workspace.file("kept")
    (workspace.root / "link").symlink_to("kept")
    (workspace.root / "empty").mkdir()
    told = await changes(workspace, "rm 'a b.txt' bin/blob; unlink ./link && rmdir empty/ && rm -f absent")
    assert told == [
        ("a b.txt", "delete", "text"),
        ("bin/blob", "delete", "binary"),
        ("link", "delete", "symlink"),
        ("empty", "delete", "directory"),
    ]
    assert await changes(workspace, "rm -rf bin") == [("bin", "delete", "directory")]


async def test_a_file_under_another_name_was_moved(workspace: Workspace) -> None:
    for name in ("a", "b", "c"):
        workspace.file(name, name)
    (workspace.root / "sub").mkdir()
    assert await changes(workspace, "mv a new") == [("a", "new", "move", "text")]
    # over another file, into directories, and twice
    assert await changes(workspace, "mv b new") == [("b", "new", "move", "text")]
    assert await changes(workspace, "/bin/mv new c sub/") == [
        ("new", "sub/new", "move", "text"),
        ("c", "sub/c", "move", "text"),
    ]
    assert await changes(workspace, "mv sub there") == [("sub", "there", "move", "directory")]


async def test_a_file_with_the_same_bytes_where_there_was_none_was_copied(workspace: Workspace) -> None:
    workspace.file("a", "same")
    workspace.file("b", "same")
    workspace.file("there", "other")
    (workspace.root / "sub").mkdir()
    assert await changes(workspace, "cp a new") == [("a", "new", "copy", "text")]
    assert await changes(workspace, "cp a b sub") == [("a", "sub/a", "copy", "text"), ("b", "sub/b", "copy", "text")]
    assert await changes(workspace, "cp a there") == []
    assert await changes(workspace, "cp a one; printf x >> one") == []
    # another name of the same file is none
    assert await changes(workspace, "ln a three; echo cp") == []
    # nor is one without any
    workspace.file("empty", "")
    assert await changes(workspace, "touch fresh; rm -f absent; cat empty") == []


async def test_nothing_is_told_of_what_was_not_seen_to_happen(workspace: Workspace) -> None:
    workspace.file("a", "a")
    workspace.file("sub/a", "a")
    for command in ("cd sub && rm a", "echo rm a", "rm -i a </dev/null", "mv a a || true", "rm 'unclosed"):
        assert await changes(workspace, command) == []
    # A command that names no such program is not looked at: another one may be at work beside it.
    assert await changes(workspace, "python3 -c 'import os; os.unlink(\"a\")'") == []
    assert not (workspace.root / "a").exists()
