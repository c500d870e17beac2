"""Paths: resolving them, checking whether they are outside, and showing them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import JsonValue
from acp_agent.errors import ToolError
from acp_agent.nofollow import make_folder
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.local import LocalFiles
from acp_agent.tools.paths import Target, absolute, outside, shown
from acp_agent.tools.shell.run import LocalCommands
from support.workspace import Workspace

CWD = Path("/home/me/project")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a.py", "/home/me/project/a.py"),
        ("./a//b/../c.py", "/home/me/project/a/c.py"),
        ("../x", "/home/me/x"),
        ("/etc/hosts", "/etc/hosts"),
        ("file:///tmp/a%20b.txt", "/tmp/a b.txt"),
        ("file://localhost/tmp/a", "/tmp/a"),
        ("file:/tmp/a", "/tmp/a"),
        ("FILE:///tmp/a", "/tmp/a"),
        ("file:a", "/home/me/project/file:a"),
        (".", "/home/me/project"),
        ("/../../x", "/x"),
        ("~user.txt", "/home/me/project/~user.txt"),
    ],
)
def test_paths_are_made_absolute(written: str, meant: str) -> None:
    assert absolute(written, CWD) == Path(meant)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "  ",
        "a\0b",
        "x" * 5000,
        "file://server/share/a",
        "file://",
        "file:///a%00b",
        "file://[",
    ],
)
def test_invalid_paths_are_refused_with_a_message(written: str) -> None:
    with pytest.raises(ToolError, match=r"\.$"):
        absolute(written, CWD)


@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_becomes_a_path_or_is_refused(written: str) -> None:
    try:
        path = absolute(written, CWD)
    except ToolError:
        return
    assert path.is_absolute()
    assert ".." not in path.parts
    shown(path, CWD).encode()
    assert len(shown(path, CWD).splitlines()) == 1


def test_paths_in_the_working_directory_are_shown_relative_to_it() -> None:
    assert shown(CWD / "src/a.py", CWD) == "src/a.py"
    assert shown(CWD, CWD) == "."
    assert shown(Path("/home/me/project2/a"), CWD) == "/home/me/project2/a"
    assert shown(CWD / "a\nb\udcff", CWD) == "a\\nb\ufffd"


def test_links_are_resolved_to_decide_whether_a_path_is_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    elsewhere = tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "out").symlink_to(elsewhere)
    (root / "dangling").symlink_to(elsewhere / "new")
    (root / "loop").symlink_to(root / "loop")
    (tmp_path / "alias").symlink_to(root)
    for inside in (root, root / "not" / "yet", tmp_path / "alias" / "x", root / "loop"):
        assert not outside(inside, (root,)), inside
    assert not outside(root, (tmp_path / "alias",))
    for away in (root / "out" / "not-yet", root / "dangling", tmp_path / "root2"):
        assert outside(away, (root,)), away
    assert outside(root / "out" / "x", (root,)) == (elsewhere.resolve() / "x",)
    assert not outside(root / "out" / "x", (root, elsewhere))


@given(
    links=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["a", "b", "../o", "..", "../root/d", "d/e"]),
        )
    ),
    steps=st.lists(st.sampled_from(["a", "b", "c", "d", "e", "new"]), max_size=5),
)
def test_a_created_file_is_where_the_containment_check_says(
    tmp_path_factory: pytest.TempPathFactory,
    links: list[tuple[str, str]],
    steps: list[str],
) -> None:
    top = tmp_path_factory.mktemp("tree").resolve()
    root = top / "root"
    (root / "d" / "e").mkdir(parents=True)
    (top / "o").mkdir()
    for name, target in links:
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    directory = root.joinpath(*steps)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        made = os.open(directory, os.O_DIRECTORY)
    except OSError:
        return
    try:
        # The kernel's own word on where that is; macOS has no /proc, where the inode's
        # path is asked for instead.
        real = (
            Path(f"/proc/self/fd/{made}").readlink()
            if Path("/proc/self/fd").exists()
            else directory.resolve()
        )
    finally:
        os.close(made)
    assert bool(outside(directory / "file", (root,))) == (not real.is_relative_to(root))


def edited(path: Path, root: Path) -> Target:
    environment = Environment(root, (root,), LocalFiles(), LocalCommands())
    return Target.of(str(path), environment, edited=True)


@pytest.mark.parametrize(
    ("name", "guarded"),
    [
        (".git/hooks/pre-commit", True),
        ("sub/.git/config", True),
        (".acp-agent/recipes/compact.md", True),
        ("innocent", True),
        (".gitignore", False),
        (".github/ci.yaml", True),
    ],
)
def test_editing_a_file_that_other_programs_run_or_read_needs_permission(
    tmp_path: Path, name: str, guarded: bool
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "innocent").symlink_to(tmp_path / ".git" / "config")
    assert bool(edited(tmp_path / name, tmp_path).outside) == guarded


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "sub"}),
        ("write", {"path": "sub/new", "content": "x"}),
        ("list", {"path": "sub"}),
        ("glob", {"path": "sub", "pattern": "*"}),
        ("grep", {"path": "sub", "pattern": "x"}),
        ("shell", {"cwd": "sub", "command": "touch made"}),
    ],
)
async def test_a_path_that_changes_before_permission_is_given_is_not_used(
    workspace: Workspace, tmp_path: Path, tool: str, arguments: dict[str, JsonValue]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    prepared = await workspace.prepare(tool, **arguments)
    (workspace.root / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match="leads somewhere else"):
        await workspace.run(prepared)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    again = await workspace.prepare(tool, **arguments)
    [outside] = again.access.outside
    assert outside.is_relative_to((tmp_path / "elsewhere").resolve())


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("a/" * 2_045 + "f", "bytes, and the maximum is 4,095"),
        ("a/" * 1_000 + "f", "parts, and the maximum is 500"),
        ("a" * 4_200, "bytes, and the maximum is 4,095"),
        ("ä" * 2_100, "bytes, and the maximum is 4,095"),
        ("~/" + "a/" * 600 + "f", "parts, and the maximum is 500"),
    ],
)
async def test_a_path_that_is_too_long_or_too_deep_is_a_clear_error(
    tmp_path: Path, path: str, says: str
) -> None:
    edits: JsonValue = [{"old_text": "a", "new_text": "b"}]
    calls: dict[str, dict[str, JsonValue]] = {
        "write": {"content": "x"},
        "edit": {"edits": edits},
        "read": {},
        "list": {},
    }
    for name, arguments in calls.items():
        with pytest.raises(ToolError, match="The path is too long: ") as error:
            await Workspace(tmp_path).call(name, path=path, **arguments)
        assert says in str(error.value)


def test_missing_parent_directories_are_created(tmp_path: Path) -> None:
    deep = tmp_path.resolve().joinpath(*["a"] * 1_200)
    make_folder(deep)
    assert deep.is_dir()
    for folder in [deep, *deep.parents][:1_200]:
        folder.rmdir()  # pytest fails to remove folders of this depth
