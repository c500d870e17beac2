"""Where there is a sandbox, and what stays covered while processes of a command end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from acp_agent.errors import SandboxError
from acp_agent.regular import TooLargeError, read_regular, read_resolved
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.repositories import repository_of
from acp_agent.sandbox.run_by_git import is_run_by_git
from acp_agent.sandbox.sandbox import Sandbox

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")


@pytest.mark.process
@needs_bubblewrap
def test_what_holds_the_home_or_is_the_directory_of_a_repository_has_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    bare = tmp_path / "bare"
    (home / "project").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    monkeypatch.setenv("HOME", str(home))
    told = {
        root: Sandbox((root,), ()).usable()
        for root in (home, tmp_path, bare, home / "project")
    }
    assert [
        why.removeprefix(f"{root} ").partition(",")[0]
        for root, (_, why) in told.items()
    ] == [
        "contains your home directory",
        "contains your home directory",
        "is a git directory",
        "",
    ]
    with pytest.raises(SandboxError, match="No command runs without a sandbox"):
        Sandbox((home,), (), required=True).usable()


@needs_bubblewrap
def test_a_directory_with_secrets_and_the_agent_s_own_home_have_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    own = home / "state"
    vault = home / "vault"
    project = home / "project"
    monkeypatch.setenv("HOME", str(home))
    secret = (
        own,
        own / "recipes",
        home / ".ssh",
        home / ".ssh" / "keys",
        home / ".aws",
        home / ".claude",
        vault / "x",
    )
    usable = (
        project,
        home / ".claude" / "worktrees" / "one",
        home / ".cursor" / "worktrees" / "two",
    )
    for folder in (*secret, *usable):
        folder.mkdir(parents=True, exist_ok=True)
    (home / "link").symlink_to(home / ".ssh")
    for roots in (
        *((root,) for root in secret),
        *((project, root) for root in secret),
        (home / "link",),
    ):
        sandbox, why = Sandbox(roots, (own,), read_deny=(str(vault),)).usable()
        assert sandbox is None, roots
        assert "which commands may not read" in why
    for root in usable:
        assert Sandbox((root,), (own,)).usable()[1] == ""


@needs_bubblewrap
def test_a_link_that_was_planted_since_it_was_asked_for_stops_the_command(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox((tmp_path,), ())
    assert sandbox.usable() == (sandbox, "")
    (tmp_path / ".vscode").symlink_to("/")
    with (
        pytest.raises(SandboxError, match="is a symbolic link"),
        sandbox.wrap(("true",), tmp_path, network=False),
    ):
        pass


@pytest.mark.process
@needs_bubblewrap
def test_a_folder_that_cannot_be_looked_through_or_has_too_much_to_protect_has_no_sandbox(
    tmp_path: Path,
) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    for number in range(500):
        (tmp_path / ".git" / "worktrees" / str(number)).mkdir(parents=True)
    assert (
        "too many git submodules or worktrees" in Sandbox((tmp_path,), ()).usable()[1]
    )
    deep = tmp_path / "deep"
    (deep / ".git" / "modules").mkdir(parents=True)
    file = os.open(deep / ".git" / "modules", os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("a", dir_fd=file)
        file, above = os.open("a", os.O_RDONLY, dir_fd=file), file
        os.close(above)
    os.close(file)
    assert "cannot be searched" in Sandbox((deep,), ()).usable()[1]
    subprocess.run(["rm", "-rf", str(deep)], check=True)


@pytest.mark.process
@needs_bubblewrap
def test_what_covers_a_missing_path_stays_while_a_process_of_the_command_is_left(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox((tmp_path,), ())
    root = tmp_path.resolve()
    with sandbox.wrap(
        ("sh", "-c", "echo begun; exec sleep 1000"), root, network=False
    ) as (_, words):
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
    assert (root / ".vscode").is_dir()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with sandbox.wrap(("true",), root, network=False):
        pass
    assert list(root.iterdir()) == []


@pytest.mark.process
@needs_bubblewrap
def test_a_command_that_locks_folders_of_a_project_hangs_no_agent_that_works_there(
    tmp_path: Path,
) -> None:
    project, other, home = (
        tmp_path.resolve() / name for name in ("project", "other", "home")
    )
    for each in (project, other):
        each.mkdir()
        subprocess.run(["git", "init", "-q", str(each)], check=True)
    home.mkdir()
    line = f"exec 8< {other} 9< {project}/.git; flock -n 8 && flock -ns 9; echo $?; read -r _"
    sandbox = Sandbox((project,), (home,), (str(other),))
    pipe = subprocess.PIPE
    ended = threading.Event()

    def work() -> None:
        for root in (other, project):
            with Sandbox((root,), (home,)).wrap(("true",), root, network=False) as (
                _,
                words,
            ):
                subprocess.run(words, check=True)
        ended.set()

    with (
        sandbox.wrap(("bash", "-c", line), project, network=False) as (_, words),
        subprocess.Popen(words, stdin=pipe, stdout=pipe) as command,
    ):
        assert command.stdout is not None
        assert command.stdout.readline() == b"0\n"
        worker = threading.Thread(target=work)
        worker.start()
        is_free = ended.wait(30)
        command.communicate(b"\n")
        worker.join()
    assert is_free
    assert [
        list((home / "locks").iterdir()),
        [each.name for each in other.iterdir()],
    ] == [[], [".git"]]


@pytest.mark.process
@needs_bubblewrap
def test_a_command_cannot_lock_what_the_agents_tell_each_other_by(
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve() / "project"
    home = tmp_path.resolve() / "home"
    root.mkdir()
    home.mkdir()
    with Sandbox((root,), (home,)).wrap(
        ("ls", "-A", str(home)), root, network=False
    ) as (_, words):
        assert [
            each.stat().st_mode & 0o777
            for each in (home / "locks", *(home / "locks").iterdir())
        ] == [0o700, 0o600]
        assert subprocess.run(words, capture_output=True, check=True).stdout == b""


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("size", [2 << 20, 1 << 36])
def test_a_project_whose_git_settings_are_too_large_to_read_has_no_sandbox(
    tmp_path: Path, size: int
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    config = tmp_path / ".git" / "config"
    before = config.read_bytes()
    with config.open("ab") as file:
        file.truncate(size)
    sandbox, why = Sandbox((tmp_path,), ()).usable()
    assert sandbox is None
    assert why.startswith(
        f"{config} is larger than 1,024 KiB, which is more than the agent reads before each command;"
    )
    # The settings may name any file.
    assert is_run_by_git(tmp_path / "notes.txt", (tmp_path,))
    config.write_bytes(before)
    assert Sandbox((tmp_path,), ()).usable()[1] == ""


@pytest.mark.process
@needs_bubblewrap
def test_an_exclude_file_that_is_too_large_to_read_is_left_as_it_is(
    tmp_path: Path,
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    exclude = tmp_path / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    with exclude.open("ab") as file:
        file.truncate(1 << 36)
    with Sandbox((tmp_path,), ()).wrap(("true",), tmp_path, network=False):
        assert exclude.stat().st_size == 1 << 36


def test_a_file_that_is_larger_than_what_is_read_at_once_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sparse"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == read_resolved(file.resolve(), 5) == b"12345"
    for read in (read_regular, read_resolved):
        with pytest.raises(TooLargeError):
            read(file.resolve(), 4)
    os.truncate(file, 1 << 37)
    with pytest.raises(TooLargeError):
        read_regular(file, 1 << 20)


@pytest.mark.process
@needs_bubblewrap
def test_a_worktree_is_recognised_by_an_index_of_many_files(tmp_path: Path) -> None:
    work_tree = tmp_path / "work"
    git = tmp_path / "git"
    subprocess.run(
        ["git", "init", "-q", "--separate-git-dir", str(git), str(work_tree)],
        check=True,
    )
    for number in range(10):
        (work_tree / f"{number}.txt").write_text("x")
    subprocess.run(["git", "add", "."], cwd=work_tree, check=True)
    with (git / "index").open("ab") as file:
        file.truncate(1 << 30)
    assert repository_of(work_tree.resolve()) is not None
