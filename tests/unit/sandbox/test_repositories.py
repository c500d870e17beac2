"""Repositories outside a session's directories: what git can do there in the sandbox,
and what stays closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from acp_agent.processes import environment_without
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.repositories import repository_of
from acp_agent.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.process

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
KINDS = ("worktree", "worktree of a bare repository", "worktree inside", "folder", "folder of a worktree", "submodule",
         "folder of a submodule", "submodule of a worktree", "separate")  # fmt: skip


def git(folder: Path, *words: str) -> str:
    command = ("git", "-c", "protocol.file.allow=always", *words)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def in_sandbox(root: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command in the sandbox of a session in this folder."""
    with Sandbox((root,), ()).wrap(("bash", "-c", line), root, network=False) as (
        _,
        words,
    ):
        return subprocess.run(
            words,
            cwd=root,
            env=environment_without(()),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that commands in the sandbox can see, unlike `/tmp`."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


@pytest.fixture(autouse=True)
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory for the test, with a name and an email address for commits."""
    folder = place / "home"
    folder.mkdir()
    (folder / ".gitconfig").write_text(
        "[user]\n\tname = n\n\temail = n@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    monkeypatch.setenv("HOME", str(folder))
    return folder


def repository(folder: Path) -> Path:
    """Create a repository with one commit."""
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q")
    for name in ("a.txt", "sub/b.txt"):
        (folder / name).write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def session_in(place: Path, kind: str) -> tuple[Path, Path]:
    """Create a session's folder whose git directory is outside it; return both."""
    main = repository(place / "main")
    if kind == "folder":
        return main / "sub", main / ".git"
    if kind == "separate":
        (place / "elsewhere").mkdir()
        git(
            place,
            "clone",
            "-q",
            "--separate-git-dir",
            str(place / "elsewhere" / "x.git"),
            str(main),
            str(place / "w"),
        )
        return place / "w", place / "elsewhere" / "x.git"
    if kind == "worktree of a bare repository":
        git(place, "clone", "-q", "--bare", str(main), str(place / ".bare"))
        git(
            place / ".bare", "worktree", "add", "-q", "-b", "other", str(place / "tree")
        )
        return place / "tree", place / ".bare"
    if "submodule" in kind:
        top = repository(place / "top")
        git(top, "submodule", "--quiet", "add", str(main), "lib")
        git(top, "commit", "-qm", "submodule")
        if kind == "submodule of a worktree":
            git(top, "worktree", "add", "-q", str(place / "tree"))
            git(place / "tree", "submodule", "--quiet", "update", "--init")
            return place / "tree" / "lib", top / ".git/worktrees/tree/modules/lib"
        return (
            top / "lib" / "sub" if kind.startswith("folder") else top / "lib"
        ), top / ".git/modules/lib"
    tree = main / "trees" / "tree" if kind == "worktree inside" else place / "tree"
    git(main, "worktree", "add", "-q", str(tree))
    return (tree / "sub" if kind.startswith("folder") else tree), main / ".git"


WORK = (
    "echo two > new.txt && git add new.txt && git commit -qm second && echo three >> new.txt && git stash -q"
    " && git stash pop -q && git commit -qam third && git branch topic && git branch -qD topic && git tag v1"
    " && git fetch -q . HEAD && git pack-refs --all && git gc -q && git log --format=%s"
)


@needs_bubblewrap
def test_git_sees_the_whole_work_tree_around_a_folder_in_tmp_which_is_empty_otherwise(
    tmp_path: Path,
) -> None:
    main = repository(tmp_path / "main")
    done = in_sandbox(
        main / "sub",
        "echo two > b.txt; git commit -qam second && git show --stat HEAD; touch ../new",
    )
    assert "sub/b.txt | 2 +-" in done.stdout, done.stderr
    assert "1 file changed" in done.stdout
    assert "new" in done.stderr
    assert git(main, "status", "--porcelain") == ""


@needs_bubblewrap
@pytest.mark.parametrize("kind", KINDS)
def test_git_commits_stashes_and_fetches_where_its_directory_lies_outside(
    place: Path, kind: str
) -> None:
    root, folder = session_in(place, kind)
    before = sorted(
        path
        for path in (*folder.iterdir(), *root.iterdir())
        if path.name not in ("new.txt", "packed-refs")
    )
    done = in_sandbox(root, WORK)
    assert done.returncode == 0, done.stderr
    # `git branch -D` cannot edit the config here, as in a repository inside the
    # session's folder.
    assert [line for line in done.stderr.splitlines() if "config" not in line] == []
    assert done.stdout.splitlines()[:2] == ["third", "second"]
    assert git(root, "log", "--format=%s").splitlines()[:2] == ["third", "second"]
    assert git(root, "status", "--porcelain") == ""
    left = {path.relative_to(place) for path in folder.iterdir()} - {
        path.relative_to(place) for path in before
    }
    assert {path.name for path in left} <= {
        "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "packed-refs", "logs", "refs", "index", "gc.pid",
    }  # fmt: skip


ATTACKS = {
    "a hook": "mkdir -p $GIT/hooks; echo x > $GIT/hooks/pre-commit",
    "a replaced folder of hooks": "mv $GIT/hooks $GIT/h; mkdir $GIT/hooks && echo x > $GIT/hooks/pre-commit",
    "a setting": "git config core.fsmonitor ./evil; echo x >> $GIT/config",
    "a replaced setting": "cp $GIT/config $GIT/c; echo x >> $GIT/c; mv -f $GIT/c $GIT/config",
    "a setting of the worktree": "echo x > $GIT/config.worktree",
    "another directory": "echo ../evil > $GIT/commondir",
    "attributes": "mkdir -p $GIT/info; echo '* filter=evil' > $GIT/info/attributes",
    "ignored files": "echo '*' > $GIT/info/exclude",
    "a replaced folder of attributes": "mv $GIT/info $GIT/i; mkdir $GIT/info; echo x > $GIT/info/attributes",
    "another's objects": "mkdir -p $GIT/objects/info; echo /evil > $GIT/objects/info/alternates",
    "a replaced folder of objects": "mv $GIT/objects $GIT/o || mv $GIT/objects/info $GIT/objects/i",
    "a moved git directory": "mv $GIT $GIT.old",
    "the .git file": "f=$(git rev-parse --show-toplevel)/.git; [ ! -f $f ] || echo gitdir: /evil > $f",
    "a hook of its own directory": "echo x > $OWN/hooks/pre-commit",
    "a setting of its own directory": "echo x > $OWN/config.worktree",
    "another directory for its own": "[ $OWN = $GIT ] || echo ../evil > $OWN/commondir",
    "the way back": "[ $OWN = $GIT ] || echo /evil/.git > $OWN/gitdir",
    "a submodule of the main work tree": "[ $OWN = $GIT ] || { mkdir -p $GIT/modules/x; echo x > $GIT/modules/x/a; }",
    "a file beside": "echo x > $GIT/../beside.txt; echo x > $GIT/../../beside.txt",
    "a hard link": "ln $GIT/config hard && echo x >> hard",
    "an unmounted cover": "umount $GIT/hooks $GIT/config; unshare -rm umount $GIT/config; echo x >> $GIT/config",
}


def _closed_state(place: Path, root: Path, folder: Path) -> dict[str, bytes]:
    """Return the contents of the files that a command must not change, by path."""
    state: dict[str, bytes] = {}
    for path in place.rglob("*"):
        inside = path.is_relative_to(folder)
        parts = path.relative_to(folder).parts if inside else ()
        is_closed = not inside or any(
            part in ("hooks", "info", "modules") for part in parts
        )
        named = path.name in (
            "config",
            "config.worktree",
            "commondir",
            "gitdir",
            "alternates",
            ".git",
        )
        if path.is_file() and (is_closed or named) and not path.is_relative_to(root):
            state[str(path)] = path.read_bytes()
    if (root / ".git").is_file():
        state["file"] = (root / ".git").read_bytes()
    return state


@needs_bubblewrap
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_planted_in_a_git_directory_outside(place: Path, kind: str) -> None:
    root, folder = session_in(place, kind)
    own = git(root, "rev-parse", "--absolute-git-dir").strip()
    before = _closed_state(place, root, folder)
    lines = (f"({attack}) > /dev/null 2>&1" for attack in ATTACKS.values())
    done = in_sandbox(
        root, f"GIT={folder} OWN={own}\n" + "\n".join((*lines, "echo done"))
    )
    assert done.stdout == "done\n"
    assert _closed_state(place, root, folder) == before
    git(root, "status")


@needs_bubblewrap
def test_the_other_work_trees_of_a_repository_keep_their_state(place: Path) -> None:
    root, folder = session_in(place, "worktree")
    git(place / "main", "worktree", "add", "-q", str(place / "third"))
    files = [
        folder / "HEAD",
        folder / "index",
        *(folder / "worktrees/third" / name for name in ("HEAD", "index")),
    ]
    before = [file.read_bytes() for file in files]
    in_sandbox(
        root,
        "".join(
            f"echo x > {file}; rm -f {file}; mv /dev/null {file};" for file in files
        ),
    )
    assert [file.read_bytes() for file in files] == before


@needs_bubblewrap
def test_a_worktree_of_a_repository_that_is_a_directory_of_the_session_too_stays_as_it_was(
    place: Path,
) -> None:
    root, folder = session_in(place, "worktree")
    policy = Policy.of((root, place / "main"), (), (), ())
    assert policy.repositories == ()
    assert folder / "config" in policy.protected


def victim(place: Path, kind: str) -> str:
    """Create a repository that belongs to someone else, and return its git directory."""
    other = repository(place / "victim")
    if kind == "repository":
        return str(other / ".git")
    if kind == "bare repository":
        git(place, "clone", "-q", "--bare", str(other), "bare.git")
        return str(place / "bare.git")
    if kind == "worktree":
        git(other, "worktree", "add", "-q", str(place / "theirs"))
        return str(other / ".git/worktrees/theirs")
    if kind == "submodule":
        top = repository(place / "top")
        git(top, "submodule", "--quiet", "add", str(other), "lib")
        return str(top / ".git/modules/lib")
    git(
        place,
        "clone",
        "-q",
        "--separate-git-dir",
        str(place / "x.git"),
        str(other),
        str(place / "theirs"),
    )
    return str(place / "x.git")


VICTIMS = ("repository", "bare repository", "worktree", "submodule", "separate")


@needs_bubblewrap
@pytest.mark.parametrize("kind", VICTIMS)
def test_a_planted_git_file_opens_no_repository_of_another_folder(
    place: Path, kind: str
) -> None:
    named = victim(place, kind)
    root = place / "planted"
    subprocess.run(["cp", "-r", str(place / "victim"), str(root)], check=True)
    subprocess.run(["rm", "-rf", str(root / ".git")], check=True)
    (root / ".git").write_text(f"gitdir: {named}\n")
    assert repository_of(root) is None
    in_sandbox(root, f"echo x > {named}/planted; echo x > {named}/../planted")
    assert not Path(named, "planted").exists()
    assert not Path(named).parent.joinpath("planted").is_file()


@needs_bubblewrap
def test_a_planted_git_directory_opens_nothing_by_naming_another(place: Path) -> None:
    other = repository(place / "victim")
    root = place / "planted"
    own = root / "fake" / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text(f"{other / '.git'}\n")
    (own / "gitdir").write_text(f"{root / '.git'}\n")
    (root / ".git").write_text(f"gitdir: {own}\n")
    assert repository_of(root) is None
    nested = place / "nested"
    (nested / "sub").mkdir(parents=True)
    (nested / ".git").symlink_to(other / ".git")
    assert Policy.of((nested / "sub",), (), (), ()).repositories == ()


def test_a_hard_link_to_another_s_file_does_not_make_its_index_one_of_the_folder(
    place: Path,
) -> None:
    named = victim(place, "separate")
    root = place / "planted"
    root.mkdir()
    os.link(place / "theirs" / "a.txt", root / "a.txt")
    git(place / "theirs", "status")  # records the time of the link in the index
    (root / ".git").write_text(f"gitdir: {named}\n")
    assert repository_of(root) is None
    assert repository_of(place / "theirs") is not None


def test_a_repository_that_holds_the_home_stays_closed(place: Path, home: Path) -> None:
    repository(home)
    assert Policy.of((home / "sub",), (), (), ()).repositories == ()


@needs_bubblewrap
def test_a_repository_whose_hooks_are_a_link_stays_closed_and_the_sandbox_works(
    place: Path,
) -> None:
    root, folder = session_in(place, "worktree")
    subprocess.run(["rm", "-rf", str(folder / "hooks")], check=True)
    (folder / "hooks").symlink_to(place)
    assert Policy.of((root,), (), (), ()).repositories == ()
    done = in_sandbox(root, f"echo x > {folder}/x; echo ran")
    assert (done.stdout, (folder / "x").exists()) == ("ran\n", False)


@needs_bubblewrap
def test_what_a_killed_agent_has_left_in_a_git_directory_outside_goes_with_the_next_command(
    place: Path,
) -> None:
    root, folder = session_in(place, "worktree")
    for name in ("hooks", "info"):
        subprocess.run(["rm", "-rf", str(folder / name)], check=True)
    before = sorted(folder.rglob("*"))
    script = (
        "import os, pathlib, sys; from acp_agent.sandbox.policy import Policy;"
        "from acp_agent.sandbox.placeholders import placeholders;"
        "made = placeholders(Policy.of((pathlib.Path(sys.argv[1]),), (), (), ()).closed); made.__enter__(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(root)], check=False)
    assert sorted(folder.rglob("*")) != before
    in_sandbox(root, "true")
    assert sorted(folder.rglob("*")) == before
