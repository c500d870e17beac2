"""A folder that the demo may do anything with: the repository with its program, the agent's home, and a `python3`.

Owns making it, running the program's tests from outside of the agent, and removing it. Knows no protocol.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from acp_agent.commands.demo import program
from acp_agent.config import home_dir
from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE
from acp_agent.config.load import MODEL_VARIABLE, WINDOW_VARIABLE
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

SCRIPT = Path(__file__).with_name("script.yaml")
SCRIPTED_MODEL = "demo/script"
COMMAND_SECONDS = 60.0


@frozen
class TestRun:
    """What the program's tests say."""

    total: int
    failed: int

    def __str__(self) -> str:
        if not self.failed:
            return f"all {self.total} tests pass"
        return f"{self.failed} of {self.total} tests fail{'s' if self.failed == 1 else ''}"


@frozen
class Scratch:
    """The folder.

    :ivar root: absolute, without symbolic links.
    """

    root: Path

    @property
    def repository(self) -> Path:
        """Where the program is, the session's working directory."""
        return self.root / program.NAME

    @property
    def stderr_file(self) -> Path:
        """What the agent writes to its stderr."""
        return self.root / "stderr.txt"

    def environment(self, env: Mapping[str, str], model: str | None) -> dict[str, str]:
        """What the agent is started with: the user's environment, with a home and a `python3` of its own.

        :param env: the user's environment variables.
        :param model: `provider/model`; None for the script.
        """
        kept = {name: value for name, value in _without_git(env).items() if name != WINDOW_VARIABLE or model}
        return kept | {
            HOME_VARIABLE: str(self.root / "home"),
            MODEL_VARIABLE: model or SCRIPTED_MODEL,
            "PATH": os.pathsep.join([str(self.root / "bin"), env.get("PATH", os.defpath)]),
        }

    def configure(self, env: Mapping[str, str], model: str | None) -> None:
        """Write the agent's `config.yaml`: the user's own for a real model, which may need a provider from there.

        :raises AgentError: the user's cannot be read.
        """
        home = self.root / "home"
        home.mkdir(mode=0o700)
        if model is None:
            provider = {"kind": "scripted", "script": str(SCRIPT)}
            text = json.dumps({"providers": {SCRIPTED_MODEL.partition("/")[0]: provider}})  # JSON is YAML
        else:
            users = home_dir(env) / CONFIG_FILE
            try:
                text = users.read_text("utf-8") if users.exists() else ""
            except OSError as error:
                raise AgentError(f"{users} cannot be read: {error.strerror or error}.") from error
        (home / CONFIG_FILE).write_text(text, "utf-8")

    def run_tests(self) -> TestRun:
        """Run the program's tests.

        :raises AgentError: they did not run.
        """
        done = _run([sys.executable, "-B", "-m", "unittest"], self.repository)
        found = re.search(r"^Ran (\d+) tests?", done.stderr, re.MULTILINE)
        if found is None:
            raise AgentError(f"The tests in {self.repository} did not run: {_last_line(done.stderr)}")
        return TestRun(int(found[1]), sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", done.stderr))))


@contextmanager
def scratch() -> Generator[Scratch]:
    """Make the folder, and remove it with everything in it in the end.

    :raises AgentError: there is no git, or no room.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="acp-agent-demo-", ignore_cleanup_errors=True)
    except OSError as error:
        raise AgentError(
            f"No scratch folder can be made: {error}. Set TMPDIR to a folder that you can write to."
        ) from error
    with folder as path:
        made = Scratch(Path(path).resolve())
        try:
            _fill(made)
        except OSError as error:
            raise AgentError(f"The scratch folder {made.root} cannot be filled: {error}.") from error
        yield made


def _fill(made: Scratch) -> None:
    # Under the name that models type; -B since a file that is edited within a second may look unchanged to Python.
    python = made.root / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -B "$@"\n')
    python.chmod(0o700)
    made.repository.mkdir()
    for name, text in program.FILES.items():
        (made.repository / name).write_text(text, "utf-8")
    _git(made, "init", "--quiet", "--initial-branch=main")
    _git(made, "config", "user.name", "acp-agent demo")
    _git(made, "config", "user.email", "demo@example.org")
    _git(made, "add", "--all")
    _git(made, "commit", "--quiet", "--message", "A timesheet")


def _git(made: Scratch, *arguments: str) -> None:
    try:
        done = _run(["git", *arguments], made.repository)
    except FileNotFoundError as error:
        raise AgentError("The demo makes a git repository, but there is no git on the PATH. Install it.") from error
    if done.returncode:
        raise AgentError(f"git {arguments[0]} failed in {made.repository}: {_last_line(done.stderr)}")


def _run(argv: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    # The user's own settings of git (signing, hooks, templates) are none of this repository's business.
    env = _without_git(os.environ) | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AgentError(f"`{shlex.join(argv)}` did not end within {COMMAND_SECONDS:.0f} s.") from error


def _without_git(env: Mapping[str, str]) -> dict[str, str]:
    """Without the variables that would lead git to another repository."""
    return {name: value for name, value in env.items() if not name.startswith("GIT_")}


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing.")
