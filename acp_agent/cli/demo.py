"""`acp-agent demo`: shows the agent at work on a scratch project. Each prompt runs in a
process of its own, and a script plays the model.

The project adds up working hours, with a bug in night shifts. The script, `demo.yaml`,
quotes lines of the project.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from acp_agent import __version__
from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE
from acp_agent.config.load import MODEL_VARIABLE, WINDOW_VARIABLE
from acp_agent.errors import AgentError

_TASK = (
    "The tests of this project fail. Find out why, mend it, and show me that they pass."
)
_LATER = (
    "Good. Later, when I say so, I also want a test for a night shift with a break."
)
_INSTRUCTIONS = "keep the test that I still want"
_NOW = "Now the test that I asked for."
_SCRIPTED_MODEL = "demo/script"
_PACE = 0.006
"""Seconds before each piece of an answer."""
_AGENTS = """\
# For agents

- Run the tests with `python3 -m unittest`, from this folder, without `cd` and without a pipe.
- All times are whole minutes. Never use floats for them.
- The tests are right. Change the program, unless you are asked for a test.
"""

_PROGRAM = '''\
"""Adds up working hours, shift by shift."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

DAY = 24 * 60


@dataclass(frozen=True)
class Shift:
    """One line of a timesheet. Times are minutes since midnight."""

    name: str
    start: int
    end: int
    pause: int = 0

    @property
    def minutes(self) -> int:
        """Minutes worked, without the break."""
        return self.end - self.start - self.pause


def parse(line: str) -> Shift:
    """Read a line such as `2026-03-02 anna 09:00-17:30 break 45`."""
    _, name, times, *pause = line.split()
    start, end = map(clock, times.split("-"))
    return Shift(name, start, end, int(pause[1]) if pause else 0)


def clock(text: str) -> int:
    """Minutes since midnight, of a text such as 09:30."""
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def totals(lines: Iterable[str]) -> Counter[str]:
    """Minutes by name; empty lines do not count."""
    worked: Counter[str] = Counter()
    for line in filter(str.strip, lines):
        shift = parse(line)
        worked[shift.name] += shift.minutes
    return worked


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        for name, minutes in sorted(totals(file).items()):
            print(f"{name:10} {minutes // 60:4} h {minutes % 60:02} min")
'''

_TESTS = '''\
"""Tests of the timesheet."""

import unittest

from timesheet import parse, totals


class TimesheetTest(unittest.TestCase):
    def test_a_shift_lasts_from_its_start_to_its_end(self) -> None:
        self.assertEqual(parse("2026-03-02 anna 09:00-17:30").minutes, 510)

    def test_a_break_is_not_worked(self) -> None:
        self.assertEqual(parse("2026-03-02 anna 09:00-17:30 break 45").minutes, 465)

    def test_a_night_shift_ends_on_the_next_day(self) -> None:
        self.assertEqual(parse("2026-03-02 omar 22:00-06:00").minutes, 480)

    def test_totals_are_by_name(self) -> None:
        lines = ["2026-03-02 anna 09:00-10:00", "", "2026-03-03 anna 09:00-10:30", "2026-03-03 yuki 09:00-09:15"]
        self.assertEqual(totals(lines), {"anna": 150, "yuki": 15})


if __name__ == "__main__":
    unittest.main()
'''


_MARCH = "".join(
    f"2026-03-{day:02} anna 09:{day % 4 * 15:02}-17:30 break 45\n"
    f"2026-03-{day:02} lena 07:{day % 5 * 10:02}-15:00 break 30\n"
    f"2026-03-{day:02} yuki 08:00-16:{day % 3 * 20:02} break 30\n"
    f"2026-03-{day:02} omar 22:00-06:00\n"
    for day in range(2, 28)
)
_FILES = {
    "AGENTS.md": _AGENTS,
    "march.txt": _MARCH,
    "test_timesheet.py": _TESTS,
    "timesheet.py": _PROGRAM,
}


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing: the sub-command has no arguments."""


async def run(_: argparse.Namespace) -> int:
    """Show the agent at work. All processes and files of the demo are removed when it
    ends, even if it fails.

    :returns: 0, or 1 if the demo did not go as announced.
    :raises AgentError: if the demo cannot begin.
    """
    with tempfile.TemporaryDirectory(
        prefix="acp-agent-demo-", ignore_cleanup_errors=True
    ) as folder:
        project, env = _scratch_project(folder)
        before = _run_tests(project)
        _say(
            f"acp-agent {__version__}, a demo. A script plays the model; files, tools, tests and token counts are real."
        )
        _say(f"Project: {project}, a timesheet program; {_result(*before)}.")
        _heading("A failing test")
        await _agent(project, env, "run", "--mode", "full-access", _TASK)
        mended = await anyio.to_thread.run_sync(_run_tests, project)
        await _agent(project, env, "run", "--follow", _LATER)
        _heading("Compaction")
        compacted = (
            await _agent(project, env, "compact", "--follow", _INSTRUCTIONS) == 0
        )
        _heading("Another process continues: the compaction kept what “the test” is")
        await _agent(project, env, "run", "--follow", _NOW)
        after = await anyio.to_thread.run_sync(_run_tests, project)
    promises = {
        f"Tests: {_result(*before)} → {_result(*mended)}": bool(before[1])
        and not mended[1],
        "Compaction": compacted,
        f"The requested test: {_result(*after)}": not after[1] and after[0] > before[0],
    }
    _heading("Result")
    for promise, kept in promises.items():
        _say(f"{'✓' if kept else '✗'} {promise}")
    _say(f"The scratch project {project} is deleted.")
    return 0 if all(promises.values()) else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _heading(text: str) -> None:
    _say(f"\n━━ {text} ━━")


async def _agent(project: Path, env: Mapping[str, str], *words: str) -> int:
    """Run the agent's command line in the project, and return its exit status."""
    _say(f"\n$ acp-agent {' '.join(words[:-1])} {words[-1]!r}")
    command = [sys.executable, "-P", "-m", "acp_agent", *words]
    done = await anyio.run_process(
        command, stdout=None, stderr=None, check=False, cwd=project, env=env
    )
    return done.returncode


def _scratch_project(folder: str) -> tuple[Path, dict[str, str]]:
    """Make the project and a home for the agent.

    :returns: the project, and the environment variables for the agent: the user's own,
        with the new home and this Python.
    """
    project = Path(folder).resolve() / "timesheet"
    home = Path(folder).resolve() / "home"
    project.mkdir()
    home.mkdir(mode=0o700)
    for name, text in _FILES.items():
        (project / name).write_text(text, "utf-8")
    script = home / "demo.yaml"
    script.write_text(_script(sys.stdout.isatty()), "utf-8")
    provider = {"kind": "scripted", "script": str(script)}
    config = {"providers": {_SCRIPTED_MODEL.partition("/")[0]: provider}}
    (home / CONFIG_FILE).write_text(json.dumps(config), "utf-8")  # JSON is YAML
    return project, {
        name: value for name, value in os.environ.items() if name != WINDOW_VARIABLE
    } | {
        HOME_VARIABLE: str(home),
        MODEL_VARIABLE: _SCRIPTED_MODEL,
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        ),
        # A file that is edited within a second may look unchanged to Python.
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _script(watched: bool) -> str:
    """Return the script of the model's answers.

    :param watched: whether someone is watching. If so, the text appears word by word,
        slowly enough to read.
    """
    script = Path(__file__).with_suffix(".yaml").read_text("utf-8")
    return f"delay: {_PACE}\n{script}" if watched else script


def _run_tests(project: Path) -> tuple[int, int]:
    """Run the program's tests, and return the number of tests and of failures.

    :raises AgentError: if the tests did not run.
    """
    command = [sys.executable, "-B", "-m", "unittest"]
    done = subprocess.run(
        command,
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    ran = [
        line.split()[1] for line in done.stderr.splitlines() if line.startswith("Ran ")
    ]
    if not ran:
        raise AgentError(f"The tests in {project} did not run: {done.stderr.strip()}")
    return int(ran[0]), sum(
        map(int, re.findall(r"(?:failures|errors)=(\d+)", done.stderr))
    )


def _result(total: int, failed: int) -> str:
    if not failed:
        return f"all {total} tests pass"
    return f"{failed} of {total} tests fail{'s' if failed == 1 else ''}"
