"""Repositories, and commands that change them in the sandbox."""

from __future__ import annotations

import subprocess
from pathlib import Path

from acp_agent.sandbox.sandbox import Sandbox
from support.keeper import Kept

IDENTITY = ("-c", "user.name=n", "-c", "user.email=n@example.org")


def git(folder: Path, *words: str) -> None:
    """Run git outside the sandbox; submodules may come from local folders."""
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *IDENTITY, *words],
        cwd=folder,
        capture_output=True,
        check=True,
    )


def make(folder: Path, *settings: str) -> None:
    """Make a repository with an empty commit.

    :param settings: name and value, separated by a blank.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    for setting in settings:
        git(folder, "config", *setting.split(" ", 1))


def run(root: Path, keeper: Kept, line: str) -> None:
    """Run a command in the sandbox of a session."""
    sandbox = Sandbox((root,), (), keeper=keeper)
    with sandbox.wrap(("bash", "-ec", line), root, network=False) as (_, words):
        subprocess.run(words, capture_output=True, text=True, check=True)
