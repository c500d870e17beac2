"""A repository with guarded files on a branch, and commands in its sandbox.

project = Project(tmp_path)
project.run("git switch -q feat")  # the renamed paths
"""

from __future__ import annotations

import subprocess
from pathlib import Path

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


class Project:
    """A repository with a branch `feat` that has guarded files, and the agent's home
    beside it.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.home = folder / "home"
        self.home.mkdir()
        self.keeper = Kept()
        self.root.mkdir()
        self.git("init", "-qb", "main")
        self.commit({"a.txt": "one\n"})
        self.git("switch", "-qc", "feat")
        self.commit(FILES)
        self.git("switch", "-q", "main")

    def git(self, *words: str) -> str:
        env = {**environment_without(()), **NAMES}
        done = subprocess.run(
            ("git", *words),
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def commit(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        self.git("add", "-f", *files)
        self.git("commit", "-qm", "x")

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
