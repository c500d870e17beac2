"""Programs that a repository, a command or another session has put where PATH leads:
the agent starts none of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from acp_agent import programs as known
from acp_agent.session.workspace import git_place
from support.checkout import environment
from support.client import AgentError
from support.editors import AVANTE
from support.memory import stage
from support.models import KEY
from support.replies import Reply, ToolCall
from support.repo import Repo
from support.stage import results

NAMES = (
    "git",
    "bwrap",
    "prlimit",
    "bash",
    "sh",
    "env",
    "python3",
    "tool",
    "lsb_release",
    "ldconfig",
    "gcc",
    "uname",
)
_started: list[tuple[str, dict[str, str]]] = []
_watching = threading.Event()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching.is_set() and event in (
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "os.system",
    ):
        env = os.environ if arguments[-1] is None else arguments[-1]
        _started.append(
            (
                str(arguments[0]),
                {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()},
            )
        )


@cache
def _start_auditing() -> None:
    sys.addaudithook(_audit)  # which can never be removed


@contextmanager
def started() -> Generator[list[tuple[str, dict[str, str]]]]:
    """Yield the programs that this process starts in the body, each with its
    environment.
    """
    _start_auditing()
    _started.clear()
    _watching.set()
    try:
        yield _started
    finally:
        _watching.clear()


def plant(folder: Path, ran: Path) -> str:
    """Put programs into a folder, each of which leaves a trace, and does nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    ran.mkdir(exist_ok=True)
    for name in NAMES:
        program = folder / name
        program.write_text(f"#!/bin/sh\n/bin/mkdir -p '{ran}/{name}'\n")
        program.chmod(0o755)
    return str(folder)


def made(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Repo(folder).git("init", "-q")


HOOKS = {
    "session_start": [{"command": "true"}, {"command": ["sh", "-c", "true"]}],
    "before_tool_call": [{"command": "env git --version; tool || true"}],
    "turn_end": [{"command": ["python3", "-c", "import json"]}],
}
CALLS = (
    ToolCall("glob", {"pattern": "*", "path": "nested"}),
    ToolCall("grep", {"pattern": "x", "path": "nested/deep"}),
    ToolCall("list", {"path": "nested"}),
    ToolCall("list", {}),
    ToolCall("shell", {"command": "echo hi"}),
)


@pytest.mark.parametrize("mode", ["plan", "accept-edits"])
async def test_no_program_of_the_project_is_started_by_the_agent_whatever_its_path_names(
    tmp_path: Path, mode: str
) -> None:
    project = tmp_path.resolve() / "project"
    ran = tmp_path / "ran"
    for place in ("", "nested", "nested/deep"):
        made(project / place)
    folders = [
        project / place
        for place in (".venv/bin", "node_modules/.bin", "nested/bin", "nested/deep/bin")
    ]
    path = os.pathsep.join(
        (*(plant(folder, ran) for folder in folders), "", os.environ["PATH"])
    )
    replies = [Reply(tool_calls=[call]) for call in CALLS]
    with started() as programs:
        async with stage(
            tmp_path,
            *replies,
            *(Reply("Done."),) * 3,
            env={"PATH": path},
            mode=mode,
            config={"hooks": HOOKS},
        ) as it:
            assert it.folder.resolve() == project
            await it.prompt()
            # In the sandbox, the recipe's text finds the planted git, which prints
            # nothing.
            with pytest.raises(AgentError, match="nothing to review"):
                await it.prompt("/review")
    assert list(ran.iterdir()) == []
    assert [
        program
        for program, _ in programs
        if not program.startswith("/") or program.startswith(str(project))
    ] == []
    # The user's own hooks have the agent's whole environment, keys included; nothing
    # else has.
    with_key = {
        program
        for program, env in programs
        if KEY in env.values() and "ACP_AGENT_PROJECT_DIR" not in env
    }
    assert with_key == set()


async def test_a_program_that_a_session_left_in_its_project_is_not_started_in_another_one(
    tmp_path: Path,
) -> None:
    first = tmp_path / "project"
    ran = tmp_path / "ran"
    async with stage(tmp_path, Reply("Hi.")) as it:
        made(tmp_path / "second")
        path = os.pathsep.join((plant(first / "tools", ran), os.environ["PATH"]))
        known._projects.clear()  # as in a process of its own
        known._own_folders.cache_clear()
        async with it.restarted(env={**it.options["env"], "PATH": path}) as later:
            session = await later.agent.new_session(tmp_path / "second")
            await later.agent.prompt(session, "Hi")
    assert list(ran.iterdir()) == []


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap")
@pytest.mark.parametrize("value", ["", ":/nowhere", "{}"])
async def test_a_library_of_the_project_is_not_loaded_outside_of_the_sandbox(
    tmp_path: Path, value: str
) -> None:
    """An empty entry means the working directory, and comes about where a profile
    appends to an unset variable.
    """
    project = tmp_path.resolve() / "project"
    made(project)
    for name in ("libcap.so.2", "libselinux.so.1", "libpcre2-8.so.0", "libz.so.1"):
        (project / name).write_text(
            "no library, so that a program which loads it fails"
        )
    variable = value.format(project) or f"{os.environ.get('LD_LIBRARY_PATH', '')}:"
    calls = [
        ToolCall("shell", {"command": "echo reached $LD_LIBRARY_PATH"}),
        ToolCall("glob", {"pattern": "*.kept"}),
    ]
    (project / "a.kept").touch()
    async with stage(
        tmp_path, *(Reply(tool_calls=[call]) for call in calls), *(Reply("Done."),) * 2,
        env={"LD_LIBRARY_PATH": variable}, mode="accept-edits", editor=AVANTE,
    ) as it:  # fmt: skip
        await it.prompt()
        [shown] = results(it.server.calls[1].body)
        assert f"reached {variable}" in shown.text
        assert git_place(str(project))[0] == str(project)
        assert it.agent.desk.permissions == []


COMMANDS = (
    ("doctor", "--offline"),
    ("doctor", "--json", "--offline"),
    ("doctor", "--report", "--offline"),
    ("setup",),
    ("models",),
    ("hooks",),
    ("sessions",),
    ("trust", "--list"),
    ("help", "hooks"),
)


def called(home: Path, cwd: Path, *words: str, **env: str) -> str:
    """Run a sub-command in a folder, and return what it printed."""
    done = subprocess.run(
        (sys.executable, "-P", "-m", "acp_agent", *words),
        cwd=cwd,
        env={**environment(home), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.process
def test_no_sub_command_starts_a_program_of_the_project_that_it_is_called_in(
    tmp_path: Path,
) -> None:
    home = tmp_path.resolve() / "home"
    project = tmp_path.resolve() / "project"
    ran = tmp_path / "ran"
    home.mkdir()
    made(project)
    (project / "src").mkdir()
    places = (
        project / ".venv" / "bin",
        project / "node_modules" / ".bin",
        home / ".cache" / "bin",
    )
    folders = [plant(folder, ran) for folder in places]
    path = os.pathsep.join((*folders, os.environ["PATH"]))
    for words in COMMANDS:
        said = called(home, project, *words, PATH=path)
        assert "Traceback" not in said
        assert list(ran.iterdir()) == [], words
    called(home, project / "src", "doctor", "--offline", PATH=path)
    assert list(ran.iterdir()) == []


@pytest.mark.process
async def test_doctor_starts_no_program_that_a_session_left_in_its_project(
    tmp_path: Path,
) -> None:
    ran = tmp_path / "ran"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with stage(tmp_path, Reply("Hi.")) as it:
        await it.prompt()
        path = os.pathsep.join((plant(it.folder / "tools", ran), os.environ["PATH"]))
        said = called(it.home, elsewhere, "doctor", "--offline", PATH=path)
    assert "sessions.db can be opened" in said
    assert list(ran.iterdir()) == []
