"""Changes that a command makes to the files in its command line are reported if they
were observed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acp_agent.conversation.views import FileChange
from acp_agent.tools.shell.named_files import named_files
from support.workspace import Workspace


async def changes(workspace: Workspace, command: str) -> list[tuple[str, ...]]:
    """Return the changes reported for a command, with paths relative to the directory."""
    outcome = await workspace.call("shell", command=command)

    def names(change: FileChange) -> list[str]:
        return [
            os.path.relpath(path, workspace.root)
            for path in (change.former, change.path)
            if path
        ]

    return [(*names(change), change.operation) for change in outcome.view.changes]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "rm 'a b' sub/c; unlink ./link && rmdir none/ && rm -f absent",
            [
                ("a b", "delete"),
                ("sub/c", "delete"),
                ("link", "delete"),
                ("none", "delete"),
            ],
        ),
        ("rm -rf sub", [("sub", "delete")]),
        ("mv a new", [("a", "new", "move")]),
        ("mv a b", [("a", "b", "move")]),
        ("/bin/mv a b sub/", [("a", "sub/a", "move"), ("b", "sub/b", "move")]),
        ("mv sub there", [("sub", "there", "move")]),
        ("cp a new", [("a", "new", "copy")]),
        ("cp a b sub", [("a", "sub/a", "copy"), ("b", "sub/b", "copy")]),
        # What was not seen to happen: over another file, changed since, another name of
        # the same file, without a byte.
        ("cp a b", []),
        ("cp a one; printf x >> one", []),
        ("ln a three; echo cp", []),
        ("touch fresh; rm -f absent; cat link", []),
        ("cd sub && rm c", []),
        ("echo rm a", []),
        ("mv a a || true", []),
        ("rm 'unclosed", []),
        # A command that names no such program is not looked at: another one may be at
        # work beside it.
        ("python3 -c 'import os; os.unlink(\"a\")'", []),
    ],
)
async def test_observed_changes_to_files_in_a_command_line_are_reported(
    workspace: Workspace, command: str, told: list[tuple[str, ...]]
) -> None:
    for name in ("a", "b", "a b", "sub/c"):
        workspace.file(name, name)
    workspace.file("c", "c")
    (workspace.root / "none").mkdir()
    (workspace.root / "link").symlink_to("c")
    assert await changes(workspace, command) == told


def test_very_large_files_are_not_compared(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", 80 << 30)
    changes = named_files("cp --sparse=always a b", tmp_path)
    assert changes is not None
    (tmp_path / "b").touch()
    os.truncate(tmp_path / "b", 80 << 30)
    assert changes() == ()  # within the time limit of a test: 80 GB take longer
