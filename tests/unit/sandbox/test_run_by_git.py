"""Files that git runs or obeys, whatever they are called: an edit of one is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.run_by_git import is_run_by_git
from support.workspace import Workspace

pytestmark = pytest.mark.process


def git(folder: Path, *words: str) -> None:
    subprocess.run(("git", *words), cwd=folder, capture_output=True, check=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "config", "core.hooksPath", ".githooks")
    git(root, "config", "include.path", "../.gitconfig")
    git(root, "init", "-q", "--bare", "tests/fixture.git")
    git(root, "init", "-q", "--separate-git-dir", str(root / "elsewhere"), "nested")
    return root


@pytest.mark.parametrize(
    "name",
    [
        ".githooks/pre-commit",
        ".gitconfig",
        "tests/fixture.git/config",
        "tests/fixture.git/hooks/pre-commit",
        "tests/fixture.git/refs/heads/x",
        "elsewhere/config",
    ],
)
async def test_an_edit_of_what_git_runs_is_asked_for_whatever_it_is_called(
    root: Path, name: str
) -> None:
    assert is_run_by_git(root / name, (root,))
    (root / name).unlink(missing_ok=True)
    prepared = await Workspace(root).prepare("write", path=name, content="x")
    assert prepared.access.outside == (root / name,)


async def test_the_file_that_makes_a_folder_a_repository_is_asked_for(
    root: Path,
) -> None:
    workspace = Workspace(root)
    for name in ("docs/HEAD", "docs/config", "docs/objects/x"):
        assert not (
            await workspace.prepare("write", path=name, content="x")
        ).access.outside
        await workspace.call("write", path=name, content="x")
    assert (
        await workspace.prepare("write", path="docs/refs/x", content="x")
    ).access.outside


@pytest.mark.parametrize(
    ("there", "last"),
    [
        (("x/commondir", "x/config.worktree"), "x/HEAD"),
        (("x/HEAD", "x/config.worktree"), "x/commondir"),
        (("x/HEAD", "x/commondir", "y/objects/k"), "y/refs/k"),
        (("x/HEAD", "x/commondir", "y/objects/k", "y/refs/k"), "y/config"),
        (("x/HEAD", "x/commondir"), "x/config.worktree"),
    ],
)
async def test_the_file_that_completes_a_repository_split_in_two_is_asked_for(
    root: Path, there: tuple[str, ...], last: str
) -> None:
    for name in there:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("../y\n")
    prepared = await Workspace(root).prepare("write", path=last, content="x")
    assert prepared.access.outside == (root / last,)


async def test_ordinary_files_are_not_asked_for(root: Path) -> None:
    for name in (
        "src/main.py",
        "HEAD",
        "refs/x",
        "docs/objects/y",
        "githooks/pre-commit",
    ):
        assert not is_run_by_git(root / name, (root,))


@pytest.mark.parametrize(
    "setting",
    [
        'hooksPath = .own"hoo"ks',
        "hooksPath = .own\\\nhooks",
        'hooksPath = ".own#hooks"',
        'hooksPath = ".ownhooks" # kept here',
        "hooksPath=.ownhooks;",
    ],
)
def test_settings_are_read_as_git_reads_them(tmp_path: Path, setting: str) -> None:
    root = tmp_path.resolve()
    git(root, "init", "-q")
    with (root / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\t{setting}\n")
    [folder] = subprocess.run(
        ("git", "config", "core.hooksPath"),
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert is_run_by_git(root / folder / "pre-commit", (root,))


def test_settings_of_a_repository_around_the_root_count(tmp_path: Path) -> None:
    main = tmp_path.resolve() / "main"
    (main / "packages" / "x").mkdir(parents=True)
    git(main, "init", "-q")
    git(main, "config", "core.hooksPath", "packages/x/githooks")
    git(
        main,
        "-c",
        "user.name=n",
        "-c",
        "user.email=n@x",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    )
    tree = main.with_name("tree")
    git(main, "worktree", "add", "-q", str(tree))
    folder = main / "packages" / "x"
    assert is_run_by_git(folder / "githooks" / "pre-commit", (folder,))
    assert is_run_by_git(tree / "packages" / "x" / "githooks" / "pre-commit", (tree,))
    assert not is_run_by_git(tree / "githooks" / "pre-commit", (tree,))
    assert not is_run_by_git(folder / "pre-commit", (folder,))
    for root, named in (
        (folder, folder / "githooks"),
        (tree, tree / "packages" / "x" / "githooks"),
    ):
        assert named / "pre-commit" in Policy.of((root,), (), (), ()).run_elsewhere


OBEDIENT = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-all",
)
"""Runs a program that obeys permissions even if it is root's."""
ASK = """
import sys
from pathlib import Path
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.run_by_git import is_run_by_git
root = Path(sys.argv[1])
for closed, name in (each.split("=") for each in sys.argv[2:]):
    (root / closed).chmod(0)
    assert is_run_by_git(root / name, (root,)), name
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no permissions")
def test_a_command_that_closes_a_folder_hides_nothing_that_git_runs(root: Path) -> None:
    attacks = (
        ".git=.githooks/pre-commit",
        "tests=tests/fixture.git/config",
        "tests/fixture.git=tests/fixture.git/HEAD",
    )
    words = [
        *(OBEDIENT if os.geteuid() == 0 else ()),
        sys.executable,
        "-c",
        ASK,
        str(root),
        *attacks,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
