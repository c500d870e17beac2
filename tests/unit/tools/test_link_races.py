"""Symbolic links that are swapped while a tool runs: only the permitted file is read or
written.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent import nofollow
from acp_agent.conversation.messages import Image, JsonValue, Text
from acp_agent.errors import ToolError
from acp_agent.tools.tool import CallResult
from support.exchanged import exchange, exchanged
from support.pictures import png
from support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="renameat2")

SECRET = "hunter2-private-key"
CALLS = 60
"""Enough for an attack to succeed on code that opens by path; together they are certain
to.
"""


def hostile(workspace: Workspace, outside: Path) -> tuple[Path, Path]:
    """Make a folder of the project and a link to a folder with secrets, whose files
    have the same names.
    """
    own = workspace.root / "src"
    link = workspace.root / "link"
    for folder, text in ((own, "harmless"), (outside, SECRET)):
        (folder / "deep").mkdir(parents=True)
        for name in ("key", "deep/key", "picture.txt"):
            (folder / name).write_text(f"{text}\n")
    (outside / SECRET).touch()
    link.symlink_to(outside)
    return own, link


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = ((path, path.lstat().st_mode) for path in sorted(folder.rglob("*")))
    return {
        str(path): (mode, path.read_bytes() if path.is_file() else b"")
        for path, mode in found
    }


async def attempt(
    workspace: Workspace, tool: str, arguments: dict[str, JsonValue]
) -> CallResult | None:
    """Make a call as in *Accept edits*: what leads outside is asked for, and refused."""
    failure = ""
    try:
        prepared = await workspace.prepare(tool, **arguments)
        diffs = "".join(diff.old_text or "" for diff in prepared.view.diffs)
        if prepared.access.outside:
            return None
        assert SECRET not in diffs
        return await workspace.run(prepared)
    except ToolError as error:
        failure = str(error)
    assert SECRET not in failure
    return None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "src/key"}),
        ("read", {"path": "src/deep/key"}),
        ("read", {"path": "src/picture.png"}),
        ("grep", {"path": "src", "pattern": "."}),
        ("grep", {"path": "src/key", "pattern": "."}),
        ("grep", {"pattern": ".", "glob": "src/**/key"}),
        ("glob", {"path": "src", "pattern": "*"}),
        ("glob", {"path": "src", "pattern": f"{SECRET}"}),
        ("list", {"path": "src"}),
        ("list", {"path": ".", "depth": 3}),
    ],
    ids=str,
)
async def test_no_secret_is_read_while_a_directory_and_a_link_are_swapped(
    workspace: Workspace, tmp_path: Path, tool: str, arguments: dict[str, JsonValue]
) -> None:
    outside = tmp_path / "outside"
    own, link = hostile(workspace, outside)
    (own / "picture.png").write_text("harmless")
    (outside / "picture.png").write_bytes(png(1, 1))
    with exchanged(own, link):
        results = [await attempt(workspace, tool, arguments) for _ in range(CALLS)]
    parts = [part for result in results if result is not None for part in result.parts]
    assert not any(isinstance(part, Image) for part in parts)
    asked = f"pattern {SECRET}" if SECRET in str(arguments) else ""
    texts = "".join(part.text for part in parts if isinstance(part, Text))
    assert SECRET not in texts.replace(asked, "")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write", {"path": "src/authorized_keys", "content": "evil"}),
        ("write", {"path": "src/new/authorized_keys", "content": "evil"}),
        ("write", {"path": "src/deep/authorized_keys", "content": "evil"}),
        ("write", {"path": "src/key", "content": "evil"}),
        (
            "edit",
            {
                "path": "src/key",
                "edits": [{"old_text": "harmless", "new_text": "evil"}],
            },
        ),
    ],
    ids=str,
)
async def test_nothing_outside_is_written_while_a_directory_and_a_link_are_swapped(
    workspace: Workspace, tmp_path: Path, tool: str, arguments: dict[str, JsonValue]
) -> None:
    outside = tmp_path / "outside"
    own, link = hostile(workspace, outside)
    before = state_of(outside)
    folder = os.open(own, os.O_RDONLY)  # the project's, whatever its name is now
    with exchanged(own, link):
        for _ in range(CALLS):
            if tool == "edit":
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                file = os.open("key", flags, dir_fd=folder)
                os.write(file, b"harmless\n")
                os.close(file)
            await attempt(workspace, "read", {"path": "src/key"})
            await attempt(workspace, tool, arguments)
            assert state_of(outside) == before
    os.close(folder)


async def test_a_file_swapped_with_a_link_is_neither_read_nor_written(
    workspace: Workspace, tmp_path: Path
) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    own = workspace.file("notes.txt", "harmless\n")
    link = workspace.root / "link"
    link.symlink_to(secret)
    with exchanged(own, link):
        for _ in range(CALLS):
            result = await attempt(workspace, "read", {"path": "notes.txt"})
            assert result is None or SECRET not in str(result.parts)
            await attempt(workspace, "write", {"path": "notes.txt", "content": "evil"})
    assert secret.read_text() == SECRET
    assert secret.stat().st_mode & 0o777 == 0o600


async def test_a_session_directory_that_becomes_a_link_is_outside(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text(SECRET)
    workspace.environment = replace(
        workspace.environment, real_roots=(workspace.root.resolve(),)
    )
    workspace.root.rename(tmp_path / "aside")
    workspace.root.symlink_to(tmp_path / "outside")
    prepared = await workspace.prepare("read", path="key")
    assert prepared.access.outside == ((tmp_path / "outside" / "key").resolve(),)


async def test_links_within_a_project_keep_working(
    workspace: Workspace, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "far.txt").write_text("far\n")
    workspace.file("packages/one/a.txt", "near\n")
    (workspace.root / "one").symlink_to("packages/one")
    (workspace.root / "far").symlink_to(elsewhere)
    (workspace.root / "new").symlink_to("packages/new")
    assert "near" in await workspace.text("read", path="one/a.txt")
    assert "one/a.txt:1:near" in await workspace.text(
        "grep", path="one", pattern="near"
    )
    assert "one/a.txt" in await workspace.text("glob", path="one", pattern="*.txt")
    await workspace.call("write", path="one/a.txt", content="changed\n")
    await workspace.call("write", path="one/b/c.txt", content="made\n")
    await workspace.call("write", path="new/d.txt", content="made\n")
    assert (workspace.root / "packages/one/a.txt").read_text() == "changed\n"
    assert (workspace.root / "packages/one/b/c.txt").read_text() == "made\n"
    assert (workspace.root / "packages/new/d.txt").read_text() == "made\n"
    prepared = await workspace.prepare("read", path="far/far.txt")
    assert prepared.access.outside == ((elsewhere / "far.txt").resolve(),)
    assert "far" in str((await workspace.run(prepared)).parts)
    await workspace.call("write", path="far/far.txt", content="changed\n")
    assert (elsewhere / "far.txt").read_text() == "changed\n"


@given(
    links=st.dictionaries(
        st.sampled_from(["a", "a/b", "c", "d/e"]),
        st.sampled_from(["x", "d", "../x", "..", "c"]),
    ),
    path=st.lists(
        st.sampled_from(["a", "b", "c", "d", "e", "x", "new"]), min_size=1, max_size=4
    ).map("/".join),
)
def test_a_path_is_opened_only_if_no_part_of_it_is_a_link(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str], path: str
) -> None:
    root = tmp_path_factory.mktemp("tree").resolve()
    for folder in ("a/b", "c", "d/e", "x"):
        (root / folder).mkdir(parents=True)
    for name, target in links.items():
        if not (root / name).is_symlink() and os.path.realpath(
            (root / name).parent
        ) == str((root / name).parent):
            (root / name).rename(root / f"old-{name.replace('/', '-')}")
            (root / name).symlink_to(target)
    wanted = root / path
    has_link = any(each.is_symlink() for each in (wanted, *wanted.parents))
    nofollow.prepare()
    for opened in (
        nofollow.open_exactly,
        lambda each: nofollow.open_stepwise(str(each), os.O_RDONLY | os.O_NOFOLLOW, 0),
    ):
        try:
            descriptor = opened(wanted)
        except OSError:
            assert has_link or not wanted.exists()
            continue
        assert not has_link
        assert os.path.samestat(os.fstat(descriptor), wanted.lstat())
        os.close(descriptor)


def test_two_paths_can_be_swapped_atomically(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "other").write_text("2")
    exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one").read_text() == "2"
