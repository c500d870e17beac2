"""Files that git runs or obeys, whatever they are called: an edit of one is asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.sandbox.run_by_git import is_run_by_git
from support.workspace import Workspace


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
async def test_an_edit_of_what_git_runs_is_asked_for_whatever_it_is_called(root: Path, name: str) -> None:
    assert is_run_by_git(root / name, (root,))
    (root / name).unlink(missing_ok=True)
    prepared = await Workspace(root).prepare("write", path=name, content="x")
    assert prepared.access.outside == (root / name,)


async def test_the_file_that_makes_a_folder_a_repository_is_asked_for(root: Path) -> None:
    workspace = Workspace(root)
    for name in ("docs/HEAD", "docs/config", "docs/objects/x"):
        assert not (await workspace.prepare("write", path=name, content="x")).access.outside
        await workspace.call("write", path=name, content="x")
    assert (await workspace.prepare("write", path="docs/refs/x", content="x")).access.outside


async def test_ordinary_files_are_not_asked_for(root: Path) -> None:
    for name in ("src/main.py", "HEAD", "refs/x", "docs/objects/y", "githooks/pre-commit"):
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
        ("git", "config", "core.hooksPath"), cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    assert is_run_by_git(root / folder / "pre-commit", (root,))
