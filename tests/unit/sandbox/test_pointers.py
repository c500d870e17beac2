"""`.git` files, links and `commondir` files of commands: those that lead to programs or
out of the session's directories are renamed.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.changes import COARSE_NS
from acp_agent.sandbox.pointers import PointerSurroundings, block_pointer
from support.keeper import Kept
from support.sandbox_repositories import git, make, run

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(bool(fault()), reason="no bubblewrap"),
]
STAGE = 'git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),sub"'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    make(folder)
    return folder


def git_directory(place: Path, *settings: str) -> str:
    """Make a git directory with one commit, and return its settings."""
    make(place.parent / "made")
    for setting in settings:
        git(place.parent / "made", "config", *setting.split(" ", 1))
    (place.parent / "made" / ".git").rename(place)
    (place.parent / "made").rmdir()
    return (place / "config").read_text()


def wait_until_old(file: Path) -> None:
    """Wait until a change of a file cannot be one of the next command any more."""
    end = time.monotonic() + 5
    while time.time_ns() < file.lstat().st_ctime_ns + 2 * COARSE_NS:
        assert time.monotonic() < end


def is_run(root: Path, ran: Path) -> bool:
    """Return whether `git status` in the project or the folder in it runs something."""
    for folder in (root, root / "sub"):
        subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
    return ran.exists()


POINTERS = {
    "a file": ("mkdir sub; echo gitdir: {place} > sub/.git", ".git"),
    "a link": ("mkdir sub; ln -s {place} sub/.git", ".git"),
    "a link to a file": (
        "mkdir sub; echo gitdir: {place} > sub/f; ln -s f sub/.git",
        ".git",
    ),
    "a common directory": (
        "git init -q sub; rm sub/.git/config; echo {place} > sub/.git/commondir",
        ".git/commondir",
    ),
    "a file to a directory with a common directory": (
        (
            "git init -q venv/x; mv venv/x/.git venv/y; rm venv/y/config; "
            "echo {place} > venv/y/commondir; mkdir sub; echo gitdir: ../venv/y > sub/.git"
        ),
        ".git",
    ),
    "a folder like a bare repository": (
        "mkdir sub; echo ref: refs/heads/x > sub/HEAD; echo {place} > sub/commondir",
        "commondir",
    ),
}


@pytest.mark.parametrize(
    "where", ["project/tests/e.git", "project/a/b/c/d/e/f/g/e.git", "e.git"]
)
@pytest.mark.parametrize("how", POINTERS)
def test_a_pointer_to_a_directory_that_runs_programs_is_renamed(
    root: Path, tmp_path: Path, how: str, where: str
) -> None:
    place = tmp_path.resolve() / where
    place.parent.mkdir(parents=True, exist_ok=True)
    ran = tmp_path / "ran"
    settings = git_directory(place, f"core.fsmonitor touch {ran};:")
    line, pointer = POINTERS[how]
    wait_until_old(place / "config")
    keeper = Kept()
    run(root, keeper, f"{line.format(place=place)}; {STAGE}")
    assert not is_run(root, ran)
    assert (root / "sub" / f"{pointer}.blocked").is_symlink() or (
        root / "sub" / f"{pointer}.blocked"
    ).is_file()
    assert any("fsmonitor" in done and str(place) in done for done in keeper.done)
    assert (place / "config").read_text() == settings


def test_a_pointer_to_a_directory_with_hooks_is_renamed(root: Path) -> None:
    git_directory(root / "e.git")
    hook = root / "e.git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    wait_until_old(hook)
    keeper = Kept()
    run(root, keeper, "mkdir sub; echo gitdir: ../e.git > sub/.git")
    assert (root / "sub" / ".git.blocked").is_file()
    assert any("post-index-change" in done for done in keeper.done)
    assert hook.is_file()


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("how", POINTERS)
def test_a_pointer_out_of_the_session_s_directories_is_renamed_whatever_is_there(
    root: Path, tmp_path: Path, how: str, is_there: bool
) -> None:
    place = tmp_path.resolve() / "other" / "deep" / "e.git"
    place.parent.mkdir(parents=True)
    if is_there:
        git_directory(place)
    line, pointer = POINTERS[how]
    keeper = Kept()
    run(root, keeper, f"{line.format(place=place)}; {STAGE}")
    assert not (root / "sub" / pointer).exists()
    assert any("outside the session's directories" in each for each in keeper.done)
    ran = tmp_path / "ran"
    if not is_there:
        git_directory(place)
    git(place, "config", "core.fsmonitor", f"touch {ran};:")
    assert not is_run(root, ran)


@pytest.mark.parametrize("link", ["sub/.git", "hop"])
def test_a_pointer_that_comes_back_through_a_link_outside_is_renamed(
    root: Path, tmp_path: Path, link: str
) -> None:
    git_directory(root / "e.git")
    (tmp_path / "link").symlink_to(root / "e.git")
    line = f"mkdir sub; ln -s {tmp_path.resolve()}/link {link}"
    if link == "hop":
        line += "; echo gitdir: ../hop > sub/.git"
    keeper = Kept()
    run(root, keeper, line)
    assert (root / "sub" / ".git.blocked").lstat()
    assert any("outside the session's directories" in each for each in keeper.done)


def test_a_pointer_that_a_later_command_turns_elsewhere_is_renamed(
    root: Path, tmp_path: Path
) -> None:
    keeper = Kept()
    run(root, keeper, "git init -q --separate-git-dir e.git sub")
    assert not keeper.done
    run(root, keeper, f"echo gitdir: {tmp_path.resolve()}/other > sub/.git")
    assert (root / "sub" / ".git.blocked").is_file()


def test_programs_that_become_executable_complete_no_repository_of_the_user_s(
    root: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    git_directory(root / "sub", f"core.fsmonitor touch {ran};:", "core.worktree .")
    for name in ("objects", "refs"):
        subprocess.run(["rm", "-r", name], cwd=root / "sub", check=True)
        (root / "sub" / name).touch(0o644)
    keeper = Kept()
    run(root, keeper, "chmod +x sub/objects sub/refs")
    assert not is_run(root, ran)
    assert keeper.done


LATER = {
    "a file": "mkdir sub; echo gitdir: {place} > sub/.git",
    "a relative file": "mkdir sub; echo gitdir: ../{place} > sub/.git",
    "a link": "mkdir sub; ln -s ../{place} sub/.git",
    "a common directory": "git init -q sub; rm sub/.git/config; echo ../../{place} > sub/.git/commondir",
}


@pytest.mark.parametrize("place", ["w/e.git", "w/a/b/c/d/e/f/e.git", "w/venv/a/e.git"])
@pytest.mark.parametrize("how", LATER)
def test_no_session_in_a_folder_below_arms_a_pointer_of_an_earlier_one(
    root: Path, tmp_path: Path, how: str, place: str
) -> None:
    ran = tmp_path / "ran"
    keeper = Kept()
    folder = root / "w"
    folder.mkdir()
    line = LATER[how].format(place=place if "../" in LATER[how] else root / place)
    if place != "w/e.git":  # the directory is there, and harmless
        line = f"mkdir -p {Path(place).parent}; git init -q --bare {place}; {line}"
    run(root, keeper, line)
    inner = place.removeprefix("w/")
    settings = f"git config -f {inner}/config"
    run(
        folder,
        keeper,
        f"mkdir -p {inner}; git init -q --bare {inner}; {settings} core.bare false; "
        f"{settings} core.worktree {root}/sub; {settings} core.fsmonitor 'touch {ran};:'",
    )
    assert not is_run(root, ran)
    assert any("led to" in done for done in keeper.done)


def test_a_file_that_names_no_directory_is_no_pointer(root: Path) -> None:
    keeper = Kept()
    run(root, keeper, "mkdir sub; echo text > sub/.git")
    assert (root / "sub" / ".git").is_file()


ORDINARY = {
    "a repository": "git init -q sub",
    "a clone": "git clone -q . sub",
    "a directory elsewhere": "git init -q --separate-git-dir e.git sub",
    "a worktree": "git worktree add -q sub",
    "a worktree of a nested repository": "git -C nested worktree add -q ../sub",
    "a submodule": "git -c protocol.file.allow=always submodule add -q ./nested sub",
    "a clone with a submodule": "git -c protocol.file.allow=always submodule add -q ./nested m; git commit -qm m; "
    "git -c protocol.file.allow=always clone -q --recurse-submodules . sub",
    "a worktree of a clone": "git clone -q . c; git -C c worktree add -q ../sub",
    "a submodule in a worktree": "git worktree add -q w; cd w; "
    "git -c protocol.file.allow=always submodule add -q ../nested sub; cd ..; mkdir sub; cp w/.gitmodules sub",
}


def test_a_pointer_that_cannot_be_renamed_is_an_error_of_the_caller() -> None:
    # The kernel does not rename anything in /proc.
    mark = Path(f"/proc/{os.getpid()}/cwd")
    with pytest.raises(OSError, match="Errno"):
        list(block_pointer(mark, PointerSurroundings((Path("/proc"),), ())))


@pytest.mark.parametrize("where", ["project", "linked"])
@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_repositories_worktrees_and_submodules_keep_their_pointers(
    root: Path, name: str, where: str
) -> None:
    folder = root
    if where == "linked":
        folder = root.parent / "linked"
        git(root, "worktree", "add", "-q", str(folder))
    make(folder / "nested")
    for each in (root, folder / "nested"):
        git(each, "config", "credential.helper", "store")
        (each / ".git" / "hooks").mkdir(exist_ok=True)
        (each / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\n")
        (each / ".git" / "hooks" / "pre-push").chmod(0o755)
    keeper = Kept()
    run(folder, keeper, ORDINARY[name])
    assert not [*folder.rglob("*.blocked")]
    assert not keeper.done
    git(folder / "sub", "status")
