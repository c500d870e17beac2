"""References are read as git reads them, whatever a command wrote into their files."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.processes import environment_without
from acp_agent.sandbox.references import GitReferences, references_of
from acp_agent.sandbox.repositories import Repository
from acp_agent.sandbox.tips import TipStore, tips_of

pytestmark = pytest.mark.process

NAMES = {
    f"GIT_{who}_{what}": "n@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


def git(folder: Path, *words: str, check: bool = True) -> str:
    env = {**environment_without(()), **NAMES}
    done = subprocess.run(
        ("git", *words),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=check,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return made(tmp_path_factory.mktemp("shared").resolve())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return made(tmp_path.resolve() / "project")


def made(root: Path) -> Repository:
    root.mkdir(exist_ok=True)
    git(root, "init", "-qb", "main")
    git(root, "commit", "-qm", "one", "--allow-empty")
    return Repository(root, root / ".git", root / ".git")


def hidden_commit(repository: Repository) -> str:
    """Return a commit that no reference points to."""
    return git(
        repository.work_tree, "commit-tree", "-p", "HEAD", "-m", "two", "HEAD^{tree}"
    )


AFTER = (
    "",
    "\n",
    " x",
    "\tx\ny",
    "\rx",
    "\0x",
    "\n\n" + "x" * 9_000,
    "x",
    "\x0bx",
    "0",
    ".",
)


@given(
    st.sampled_from(["", "\n", " "]),
    st.booleans(),
    st.sampled_from(AFTER) | st.text(" \t\n\r\0\x0bx", max_size=4),
)
def test_a_file_of_a_reference_means_what_git_takes_it_for(
    shared: Repository, before: str, is_upper: bool, after: str
) -> None:
    commit = hidden_commit(shared)
    file = shared.folder / "refs/heads/evil"
    file.write_text(
        before + (commit.upper() if is_upper else commit) + after, newline=""
    )
    by_git = git(
        shared.work_tree, "rev-parse", "-q", "--verify", "refs/heads/evil", check=False
    )
    assert (commit in tips_of(shared)) == (by_git == commit)


@given(
    st.sampled_from([" ", "\t", "\r", "x", "  "]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_packed_reference_means_what_git_takes_it_for(
    shared: Repository, separator: str, is_upper: bool, end: str
) -> None:
    commit = hidden_commit(shared)
    (shared.folder / "refs/heads/evil").unlink(missing_ok=True)
    packed = shared.folder / "packed-refs"
    packed.write_text(
        (commit.upper() if is_upper else commit) + separator + "refs/heads/evil" + end,
        newline="",
    )
    by_git = git(
        shared.work_tree, "rev-parse", "-q", "--verify", "refs/heads/evil", check=False
    )
    ours = tips_of(shared)
    packed.unlink()
    assert commit in ours or by_git != commit


PLANTED = {
    "text after the id": "echo {0} x > .git/refs/heads/evil",
    "capital letters": "echo {0} | tr a-f A-F > .git/refs/heads/evil",
    "a packed one after a tab": "printf '{0}\\trefs/heads/evil\\n' > .git/packed-refs",
    "a symbolic one": "mkdir .git/refs/x; echo {0} > .git/refs/x/y; "
    "printf 'ref: \\t refs/x/y \\n' > .git/refs/heads/evil",
    "a link to a reference": "mkdir .git/refs/x; echo {0} > .git/refs/x/y; ln -s refs/x/y .git/refs/heads/evil",
    "the head of another work tree": "git worktree add -q --detach ../wt {0}",
    "a stash": "echo {0} x > .git/refs/stash",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_commit_that_a_command_left_in_an_odd_reference_is_the_command_s_for_good(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    store = TipStore(tmp_path / "home")
    commit = hidden_commit(repository)
    before = store.of_user(repository)
    subprocess.run(
        ["bash", "-c", PLANTED[name].format(commit)],
        cwd=repository.work_tree,
        check=True,
    )
    store.after_command(before)
    git(repository.work_tree, "update-ref", "refs/heads/again", commit)
    git(repository.work_tree, "pack-refs", "--all", check=False)
    own = store.of_user(repository).commits
    assert commit not in own
    assert git(repository.work_tree, "rev-parse", "HEAD") in own


UNREADABLE = {
    "a pipe": "mkfifo .git/refs/heads/pipe",
    "a link that leads nowhere yet": "ln -s ../../../later .git/refs/heads/evil",
    "a link to a folder": "mkdir x; echo {0} > x/evil; ln -s ../../../x .git/refs/heads/x",
    "more than is read": "head -c 9000000 /dev/zero | tr '\\0' '#' > .git/packed-refs",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_no_later_tip_is_trusted_after_a_command_left_a_reference_that_cannot_be_read(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    store = TipStore(tmp_path / "home")
    commit = hidden_commit(repository)
    mine = git(repository.work_tree, "rev-parse", "HEAD")
    before = store.of_user(repository)
    subprocess.run(
        ["bash", "-c", UNREADABLE[name].format(commit)],
        cwd=repository.work_tree,
        check=True,
    )
    store.after_command(before)
    for odd in (
        *(repository.folder / "refs/heads").iterdir(),
        repository.folder / "packed-refs",
    ):
        if odd.is_symlink() or odd.is_fifo() or odd.name == "packed-refs":
            odd.unlink(missing_ok=True)
    git(repository.work_tree, "update-ref", "refs/heads/evil", commit)
    assert set(store.of_user(repository).commits) == {mine}


@pytest.mark.parametrize("name", UNREADABLE)
def test_later_tips_are_trusted_again_once_all_references_can_be_read_and_are_known(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    store = TipStore(tmp_path / "home")
    before = store.of_user(repository)
    commit = hidden_commit(repository)
    subprocess.run(
        ["bash", "-c", UNREADABLE[name].format("x")],
        cwd=repository.work_tree,
        check=True,
    )
    store.after_command(before)
    (repository.folder / "refs/heads/unknown").write_text(commit)
    assert len(store.of_user(repository).commits) == 1
    for odd in (
        *(repository.folder / "refs/heads").iterdir(),
        repository.folder / "packed-refs",
    ):
        if odd.is_symlink() or odd.is_fifo() or odd.name == "packed-refs":
            odd.unlink(missing_ok=True)
    assert len(store.of_user(repository).commits) == 1
    git(repository.work_tree, "update-ref", "-d", "refs/heads/unknown")
    running = TipStore(
        tmp_path / "home", lambda: {repository.common: [before.commits.keys()]}
    )
    running.of_user(repository)
    git(
        repository.work_tree,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "while a command runs",
    )
    assert len(running.of_user(repository).commits) == 1
    git(repository.work_tree, "reset", "-q", "--hard", "HEAD~")
    store.of_user(repository)
    git(repository.work_tree, "commit", "-q", "--allow-empty", "-m", "later")
    assert (
        git(repository.work_tree, "rev-parse", "HEAD")
        in store.of_user(repository).commits
    )


def test_the_user_can_accept_what_a_repository_has_now(
    repository: Repository, tmp_path: Path
) -> None:
    store = TipStore(tmp_path / "home")
    before = store.of_user(repository)
    made = ""
    for name in ("made", "mine"):
        git(repository.work_tree, "commit", "-q", "--allow-empty", "-m", name)
        if name == "made":
            made = git(repository.work_tree, "rev-parse", "HEAD")
            os.mkfifo(repository.folder / "refs/heads/pipe")
            git(repository.work_tree, "branch", "made")
            store.after_command(before)
    mine = git(repository.work_tree, "rev-parse", "HEAD")
    assert not {made, mine} & store.of_user(repository).commits.keys()
    assert store.accept(repository)
    assert {made, mine} & store.of_user(repository).commits.keys() == {mine}
    assert store.accept(repository, wholly=True)
    assert {made, mine} <= store.of_user(repository).commits.keys()
    assert not store.accept(repository, wholly=True)


CHANGES = {
    "a new branch": "git branch new",
    "a new branch in a new folder": "git branch a/b/c",
    "a file that is written in place": "echo {0} > .git/refs/heads/main",
    "a file in a folder that is written in place": "echo {0} > .git/refs/heads/x/y",
    "a packed reference": "git pack-refs --all",
    "a packed reference that is written in place": "echo '{0} refs/heads/z' >> .git/packed-refs",
    "a detached head": "git switch -q --detach",
    "the first stash": "echo x > a && git add a && git stash -q",
    "another work tree": "git worktree add -q --detach ../tree",
    "a symbolic reference": "git symbolic-ref refs/heads/s refs/x/y; mkdir .git/refs/x; echo {0} > .git/refs/x/y",
    "a folder that is a link": "mv .git/refs/heads .git/h; ln -s ../h .git/refs/heads",
}


@pytest.mark.parametrize("name", CHANGES)
def test_references_are_read_again_only_after_a_change(
    repository: Repository, name: str
) -> None:
    git(repository.work_tree, "branch", "x/y")
    git(repository.work_tree, "pack-refs", "--all")
    git(repository.work_tree, "update-ref", "refs/heads/x/y", hidden_commit(repository))
    known = references_of(repository)
    end = time.monotonic() + 30
    while references_of(repository) is not known:
        assert time.monotonic() < end
        known = references_of(repository)
    line = CHANGES[name].format(hidden_commit(repository))
    subprocess.run(
        ["bash", "-c", line],
        cwd=repository.work_tree,
        env={**environment_without(()), **NAMES},
        check=True,
    )
    again = references_of(repository)
    fresh = GitReferences(repository)
    assert again is not known
    assert (again.direct, again.indirect, again.is_whole) == (
        fresh.direct,
        fresh.indirect,
        fresh.is_whole,
    )


def test_an_ordinary_repository_is_read_whole(repository: Repository) -> None:
    root = repository.work_tree
    git(root, "tag", "-am", "v1", "v1")
    git(root, "pack-refs", "--all")
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    os.makedirs(root / ".git/refs/heads/empty/deep")  # noqa: PTH103 - as git leaves them
    references = GitReferences(repository)
    assert references.is_whole
    assert {name for name, _ in references.direct} == {
        "refs/heads/main",
        "refs/tags/v1",
    }
    assert references.indirect == set()
