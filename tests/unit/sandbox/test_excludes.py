"""Placeholders are hidden from git, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.processes import environment_without
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.excludes import _pattern  # pyright: ignore[reportPrivateUsage]
from acp_agent.sandbox.policy import GUARDED
from acp_agent.sandbox.sandbox import Sandbox

pytestmark = [
    pytest.mark.skipif(bool(fault()), reason="no bubblewrap"),
    pytest.mark.process,
]


def git(folder: Path, *words: str) -> str:
    command = ("git", "-c", "user.name=n", "-c", "user.email=n@example.org", *words)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def in_sandbox(root: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command in the sandbox of a session in this folder."""
    names = {
        f"GIT_{who}_{what}": "n@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    with Sandbox((root,), ()).wrap(("bash", "-c", line), root, network=False) as (
        _,
        words,
    ):
        return subprocess.run(
            words,
            cwd=root,
            env={**environment_without(()), **names},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that commands in the sandbox can see, unlike `/tmp`."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


@pytest.fixture(params=["repository", "no info", "worktree", "odd [folder]* of one "])
def root(request: pytest.FixtureRequest, place: Path) -> Path:
    """A session's folder in a repository, with a modified file, a new one and ignored
    ones.
    """
    main = place / "main"
    folder = main / request.param if request.param.startswith("odd") else main
    folder.mkdir(parents=True)
    git(main, "init", "-q")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text("*.o\n")
    git(main, "add", ".")
    git(main, "commit", "-qm", "first")
    if request.param == "worktree":
        folder = place / "tree"
        git(main, "worktree", "add", "-q", str(folder))
    if request.param == "no info":
        subprocess.run(["rm", "-r", str(main / ".git/info")], check=True)
    else:
        with (main / ".git/info/exclude").open("a") as file:
            file.write("*.mine")  # without a newline at the end
    (folder / "a.txt").write_text("two\n")
    for name in ("new.txt", "x.o", "x.mine"):
        (folder / name).write_text("new\n")
    return folder


def listed(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()} - {".git"}


def test_untracked_files_are_stashed_and_come_back(root: Path) -> None:
    names = listed(root)
    done = in_sandbox(root, "git stash -u && ls -A && cat a.txt")
    assert (done.returncode, done.stderr) == (0, "")
    assert "new.txt" not in done.stdout
    assert done.stdout.endswith("one\n")
    assert in_sandbox(root, "git stash pop -q").returncode == 0
    assert (root / "a.txt").read_text() == "two\n"
    assert listed(root) == names


def test_clean_removes_what_is_untracked_and_says_nothing_of_placeholders(
    root: Path,
) -> None:
    for options in ("-fdn", "-fd"):
        done = in_sandbox(root, f"git clean {options} .")
        assert (done.returncode, done.stderr) == (0, "")
        assert "new.txt" in done.stdout
        assert not [name for name in GUARDED if name in done.stdout]
    assert not (root / "new.txt").exists()
    assert (root / "x.o").exists()


def test_status_lists_ignored_files_and_no_placeholder(root: Path) -> None:
    shown = in_sandbox(
        root,
        "git status --porcelain --ignored && git ls-files -o --exclude-standard --directory",
    ).stdout
    assert "x.o" in shown
    assert "new.txt" in shown
    assert not [name for name in GUARDED if name in shown]
    assert git(root, "status", "--porcelain", "--ignored").splitlines() == [
        line for line in shown.splitlines() if line[2:3] == " "
    ]


def test_what_the_user_excludes_stays_excluded(root: Path) -> None:
    excludes = Path(
        git(
            root, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude"
        ).strip()
    )
    excludes.parent.mkdir(exist_ok=True)
    excludes.write_text("*.mine")
    (root / "x.global").write_text("")
    line = "echo '*.global' > /tmp/global; git -c core.excludesFile=/tmp/global status --porcelain --ignored -- ."
    shown = in_sandbox(root, line).stdout
    ignored = (line.strip('"') for line in shown.splitlines() if line.startswith("!!"))
    assert {line.rpartition(".")[2] for line in ignored} == {"o", "mine", "global"}
    assert excludes.read_text() == "*.mine"


def test_a_guarded_folder_of_the_user_s_is_not_hidden(root: Path) -> None:
    (root / ".vscode").mkdir()
    (root / ".vscode" / "tasks.json").write_text("{}")
    done = in_sandbox(
        root,
        "git status --porcelain -uall && git add . && git commit -qm second && git ls-files",
    )
    assert "?? " in done.stdout
    assert done.stdout.count(".vscode/tasks.json") == 2


@pytest.mark.parametrize("name", ["info", "hooks"])
def test_nothing_is_left_of_a_killed_agent_after_the_next_command(
    root: Path, name: str
) -> None:
    common = Path(
        git(root, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()
    )
    subprocess.run(["rm", "-rf", str(common / name)], check=True)
    before = sorted(common.rglob("*")), listed(root)
    script = (
        "import os, pathlib, sys; from acp_agent.sandbox.sandbox import Sandbox\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "Sandbox((root,), ()).wrap(('true',), root, network=False).__enter__(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(root)], check=False)
    assert (sorted(common.rglob("*")), listed(root)) != before
    assert in_sandbox(root, "true").returncode == 0
    assert (sorted(common.rglob("*")), listed(root)) == before


@given(
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]),
        min_size=1,
        max_size=20,
    )
)
@example("!#x")
@example("a\\b")
@example("[a]*?")
@example(" x ")
def test_a_pattern_matches_the_path_that_it_is_for(name: str) -> None:
    if name in (".", "..") or name.lower() == ".git" or len(os.fsencode(name)) > 200:
        return
    with TemporaryDirectory() as folder:
        git(Path(folder), "init", "-q")
        Path(folder, name).mkdir()
        Path(folder, ".git/info/exclude").write_bytes(
            _pattern(Path(name, ".vscode")) + b"\n"
        )
        line = ("git", "check-ignore", "-q", "--", f"./{name}/.vscode")
        assert subprocess.run(line, cwd=folder, check=False).returncode == 0
