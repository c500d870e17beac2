"""A repository with guarded files on a branch, and commands in its sandbox.

project = Project(tmp_path)
project.run("git switch -q feat")  # the renamed paths
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from acp_agent.processes import environment_without
from acp_agent.sandbox.sandbox import Sandbox
from support.keeper import Kept

FILES = {
    ".husky/pre-commit": "npm test\n",
    ".devcontainer/devcontainer.json": "{}\n",
    ".mcp.json": "{}\n",
    ".cursor/rules/a.mdc": "rule\n",
    ".tool-versions": "python 3.12\n",
}
NAMES = {
    f"GIT_{who}_{what}": "n@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
PLANT = "mkdir -p .cursor && echo evil > .cursor/mcp.json"
COMMIT = (
    "git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),.cursor/mcp.json && "
    "git commit -qm evil"
)
"""Without a file in the work tree, which would be renamed."""


def run_git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ("git", *words),
        cwd=folder,
        env={**environment_without(()), **NAMES},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def commit(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    run_git(folder, "add", "-f", *files)
    run_git(folder, "commit", "-qm", "x")


@cache
def _made() -> TemporaryDirectory[str]:
    """Make the repository that every project is a copy of: git takes longer for it."""
    made = TemporaryDirectory()
    root = Path(made.name)
    run_git(root, "init", "-qb", "main")
    commit(root, {"a.txt": "one\n"})
    run_git(root, "switch", "-qc", "feat")
    commit(root, FILES)
    run_git(root, "switch", "-q", "main")
    return made


class Project:
    """A repository with a branch `feat` that has guarded files, and the agent's home
    beside it.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.home = folder / "home"
        self.home.mkdir()
        self.keeper = Kept()
        shutil.copytree(_made().name, self.root, symlinks=True)
        # It knows the files that were copied by their inodes.
        self.git("update-index", "-q", "--refresh")

    def git(self, *words: str) -> str:
        return run_git(self.root, *words)

    def commit(self, files: Mapping[str, str]) -> None:
        commit(self.root, files)

    def run(self, line: str, cwd: Path | None = None) -> list[str]:
        """Run a command in the sandbox, and return what was renamed."""
        root = cwd or self.root
        blocked: list[str] = []
        sandbox = Sandbox((root,), (self.home,), keeper=self.keeper)
        with sandbox.wrap(
            ("bash", "-c", line), root, network=False, blocked=blocked
        ) as (_, words):
            env = {**environment_without(()), **NAMES}
            done = subprocess.run(
                words, cwd=root, env=env, capture_output=True, text=True, check=False
            )
        self.output = done.stdout + done.stderr
        return blocked
