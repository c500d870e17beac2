"""A command that removes permissions hides nothing from the agent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.listing import entries, is_empty, open_up, restoring

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
AS_ROOT = os.geteuid() == 0
OBEDIENT = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-all",
)
"""Runs a program that obeys permissions even if it is root's."""
AGENT = """
import subprocess, sys
from pathlib import Path
from acp_agent.sandbox.sandbox import Sandbox

class Keeper:
    made = set()
    def is_made(self, path):
        return path in self.made
    def keep(self, found):
        self.made |= {each.mark for each in found.planted}
        print("kept", *found.blocked, *(line for each in found.planted for line in each.done), sep="\\n")

root, home = Path(sys.argv[1]), Path(sys.argv[2])
sandbox = Sandbox((root,), (home,), keeper=Keeper())
for line in sys.argv[3:]:
    with sandbox.wrap(("bash", "-c", line), root, network=False) as (_, words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr)
"""
SETUP = """
git init -q .. && git init -q .
git config user.name n && git config user.email n@x && git commit -q --allow-empty -m x
git init -q n && git -C n -c user.name=n -c user.email=n@x commit -q --allow-empty -m x
git clone -q n ../module && git -c protocol.file.allow=always submodule --quiet add "$PWD/../module" sub
git worktree add -q ../tree && git commit -q -m sub && mkdir ordinary && ln -s precious ../free && echo x > ../precious
"""
EVIL = "git init -q z && git -C z config core.fsmonitor 'touch ran;:'"
HOOK = "&& printf '#!/bin/sh\\n' > {0}/hooks/post-commit; chmod +x {0}/hooks/post-commit; echo '[evil]' >> {0}/config"
GUARDED = """
mkdir -p .config .github/hooks .hg .repo/repo
echo x > .config/mise.toml; echo x > .github/hooks/h.json; echo x > .hg/hgrc; echo x > .repo/repo/main.py
"""
ATTACKS = {
    "a folder of settings": (
        EVIL + "; mkdir -p y/.claude; echo x > y/.claude/x; chmod 0 y/.claude",
    ),
    "a folder that nobody may enter": (
        EVIL + "; mkdir -p ordinary/.claude/x; chmod 0400 ordinary",
    ),
    "the git directory": ("chmod 0311 .git", "true " + HOOK.format(".git")),
    "the submodules": (
        "chmod 0311 .git/modules",
        "true " + HOOK.format(".git/modules/sub"),
    ),
    "the logs": (
        "rm .git/logs/HEAD; ln -s ../../../precious .git/logs/HEAD; chmod 0311 .git/logs",
    ),
    "parents of guarded paths": (
        f"{GUARDED}; chmod 0111 .config .github .repo; chmod 0311 .hg",
    ),
    "the worktrees": (
        "chmod 0311 .git/worktrees",
        "echo x > .git/worktrees/tree/config.worktree",
    ),
    "a parent of a repository": (
        "mkdir p; git init -q p/z; git -C p/z config core.fsmonitor x; chmod 0311 p",
    ),
    "read-only folders": (
        f"{EVIL}; chmod 0555 z z/.git; {GUARDED}; chmod 0555 .config .github/hooks .github .hg .repo .",
    ),
    "a nested repository": (
        "chmod 0 n/.git",
        "chmod 0755 n/.git " + HOOK.format("n/.git"),
    ),
}
AS_BEFORE: list[str] = []
OBEYED = ("mise.toml", "h.json", "hgrc", "main.py", "post-commit", "config.worktree")


def state(root: Path) -> list[str]:
    """Return what a command planted in a project, and each folder there that its owner
    may not list and enter.
    """
    found: list[str] = []
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if (
            path.is_dir()
            and not path.is_symlink()
            and path.stat().st_mode & 0o500 != 0o500
        ):
            found.append(f"closed: {name}")
        if any(part.endswith((".blocked", ".off")) for part in path.parts):
            continue
        if path.name in OBEYED or (path.name == "HEAD" and path.is_symlink()):
            found.append(name)
        if path.name == "config" and path.is_file():
            lines = map(str.strip, path.read_text().splitlines())
            found += [
                f"{name}: {line}"
                for line in lines
                if line.startswith(("fsmonitor", "[evil"))
            ]
    return found


def obey(folder: Path, lines: tuple[str, ...]) -> tuple[Path, Path, str]:
    """Run commands in the sandbox of an agent that obeys permissions.

    :returns: the project, the agent's home, and what the agent printed.
    """
    root = folder.resolve() / "project"
    home = folder.resolve() / "home"
    root.mkdir()
    home.mkdir(exist_ok=True)
    subprocess.run(["bash", "-ec", SETUP], cwd=root, check=True, capture_output=True)
    assert state(root) == AS_BEFORE
    words = [
        *(OBEDIENT if AS_ROOT else ()),
        sys.executable,
        "-c",
        AGENT,
        str(root),
        str(home),
        *lines,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return root, home, done.stdout


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.skipif(
    AS_ROOT and shutil.which("setpriv") is None, reason="root does not obey permissions"
)
@pytest.mark.parametrize("lines", ATTACKS.values(), ids=ATTACKS)
def test_a_command_that_removes_permissions_hides_nothing_from_the_agent(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    root, _, printed = obey(tmp_path, lines)
    assert state(root) == AS_BEFORE, printed


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.skipif(
    AS_ROOT and shutil.which("setpriv") is None, reason="root does not obey permissions"
)
def test_a_commit_of_a_command_does_not_become_the_user_s_when_its_branch_cannot_be_listed(
    tmp_path: Path,
) -> None:
    line = "git branch evil $(git commit-tree -m x HEAD^{tree}); git rev-parse evil; chmod 0311 .git/refs/heads"
    root, home, printed = obey(tmp_path, (line,))
    commit = subprocess.run(
        ["git", "rev-parse", "evil"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    kept = "".join(file.read_text() for file in (home / "tips").iterdir())
    assert f"command {commit}" in kept, printed


@pytest.mark.process
@needs_bubblewrap
def test_the_user_is_told_what_a_command_made_even_if_its_commits_cannot_be_recorded(
    tmp_path: Path,
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "tips").write_text("this should be a folder")
    _, _, printed = obey(tmp_path, (f"{EVIL}; git commit -q --allow-empty -m theirs",))
    assert "kept" in printed.splitlines(), printed


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.skipif(
    AS_ROOT and shutil.which("setpriv") is None, reason="root does not obey permissions"
)
def test_a_read_only_folder_stays_read_only_and_its_missing_paths_are_covered(
    tmp_path: Path,
) -> None:
    root, home, _ = obey(tmp_path, ("chmod 0555 .git/refs ordinary n sub .",))
    folders = [root / name for name in (".git/refs", "ordinary", "n", "sub", ".")]
    words = [
        *(OBEDIENT if AS_ROOT else ()),
        sys.executable,
        "-c",
        AGENT,
        str(root),
        str(home),
    ]
    lines = (
        "ls -d .vscode",
        "chmod u+w .; mkdir .vscode/x || echo covered; mkdir .cursor; chmod u-w .",
    )
    done = subprocess.run([*words, *lines], capture_output=True, text=True, check=True)
    assert "covered" in done.stdout
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o555] * 5
    assert sorted(
        each.name
        for each in root.iterdir()
        if each.name[1:] in ("vscode", "cursor", "cursor.blocked")
    ) == [".cursor.blocked"]


def test_permissions_are_restored_only_in_the_given_folders_and_through_no_link(
    tmp_path: Path,
) -> None:
    inside = tmp_path.resolve() / "inside"
    outside = tmp_path.resolve() / "outside"
    for folder in (inside / "a" / "b", outside):
        folder.mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    (inside / "a" / "b").chmod(0)
    (inside / "a").chmod(0o311)
    outside.chmod(0o500)
    open_up(inside / "a" / "b")
    assert (inside / "a").stat().st_mode & 0o777 == 0o311
    with restoring((inside,)):
        for folder in (
            inside / "link",
            outside,
            inside / "a" / "b",
            inside / "missing",
        ):
            open_up(folder)
    modes = [
        folder.stat().st_mode & 0o777
        for folder in (outside, inside / "a", inside / "a" / "b")
    ]
    assert modes == [0o500, 0o711, 0o700]


@pytest.mark.skipif(not AS_ROOT, reason="only root gives folders away")
def test_another_user_s_folder_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    folder.chmod(0)
    with restoring((tmp_path,)):
        assert entries(folder) == []
    assert folder.stat().st_mode & 0o777 == 0


def test_a_missing_folder_is_empty_and_lists_nothing(tmp_path: Path) -> None:
    with restoring((tmp_path,)):
        assert is_empty(tmp_path / "missing")
        assert entries(tmp_path / "missing") == []
