"""A folder that the demo may do anything with: a project with a program, the agent's home, and a `python3`."""

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

from acp_agent.commands.demo.program import FILES, NAME
from acp_agent.config import home_dir
from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE
from acp_agent.config.load import MODEL_VARIABLE, WINDOW_VARIABLE
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

SCRIPT = Path(__file__).with_name("script.yaml")
SCRIPTED_MODEL = "demo/script"


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
    def project(self) -> Path:
        """Where the program is, the session's working directory."""
        return self.root / NAME

    @property
    def stderr_file(self) -> Path:
        """What the agent writes to its stderr."""
        return self.root / "stderr.txt"

    def environment(self, env: Mapping[str, str], model: str | None) -> dict[str, str]:
        """Return what the agent is started with: the user's environment, with a home and a `python3` of its own.

        :param env: the user's environment variables.
        :param model: `provider/model`; None for the script.
        """
        kept = {name: value for name, value in env.items() if name != WINDOW_VARIABLE or model}
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
        users = home_dir(env) / CONFIG_FILE
        try:
            if model is None:
                provider = {"kind": "scripted", "script": str(SCRIPT)}
                text = json.dumps({"providers": {SCRIPTED_MODEL.partition("/")[0]: provider}})  # JSON is YAML
            else:
                text = users.read_text("utf-8") if users.exists() else ""
        except OSError as error:
            raise AgentError(f"{users} cannot be read: {error.strerror or error}.") from error
        (home / CONFIG_FILE).write_text(text, "utf-8")


@contextmanager
def scratch() -> Generator[Scratch]:
    """Make the folder, and remove it with everything in it in the end.

    :raises OSError: there is no room.
    """
    with tempfile.TemporaryDirectory(prefix="acp-agent-demo-", ignore_cleanup_errors=True) as path:
        made = Scratch(Path(path).resolve())
        _fill(made)
        yield made


def run_tests(project: Path) -> TestRun:
    """Run the program's tests.

    :raises AgentError: they did not run.
    """
    command = [sys.executable, "-B", "-m", "unittest"]
    done = subprocess.run(command, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = re.search(r"^Ran (\d+) tests?", done.stderr, re.MULTILINE)
    if found is None:
        raise AgentError(f"The tests in {project} did not run: {done.stderr.strip()}")
    return TestRun(int(found[1]), sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", done.stderr))))


def _fill(made: Scratch) -> None:
    # Under the name that models type; -B since a file that is edited within a second may look unchanged to Python.
    python = made.root / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -B "$@"\n')
    python.chmod(0o700)
    made.project.mkdir()
    for name, text in FILES.items():
        (made.project / name).write_text(text, "utf-8")
