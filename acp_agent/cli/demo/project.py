"""The folder that the demo may do anything with: a program with a failing test, and the agent's home.

The program adds up working hours, and is wrong about night shifts. `script.yaml` quotes lines of it, exactly.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE
from acp_agent.config.load import MODEL_VARIABLE, WINDOW_VARIABLE
from acp_agent.config.permission_rules import PermissionRules
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

_TEST_COMMAND = "python3 -m unittest"
_SCRIPTED_MODEL = "demo/script"
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


def _march() -> str:
    lines: list[str] = []
    for day in range(2, 28):
        lines += [
            f"2026-03-{day:02} anna 09:{day % 4 * 15:02}-17:30 break 45",
            f"2026-03-{day:02} lena 07:{day % 5 * 10:02}-15:00 break 30",
            f"2026-03-{day:02} yuki 08:00-16:{day % 3 * 20:02} break 30",
            f"2026-03-{day:02} omar 22:00-06:00",
        ]
    return "\n".join(lines) + "\n"


_FILES = {
    "AGENTS.md": _AGENTS,
    "march.txt": _march(),
    "test_timesheet.py": _TESTS,
    "timesheet.py": _PROGRAM,
}


@frozen
class _TestRun:
    """What the program's tests say."""

    total: int
    failed: int

    def __str__(self) -> str:
        if not self.failed:
            return f"all {self.total} tests pass"
        return f"{self.failed} of {self.total} tests fail{'s' if self.failed == 1 else ''}"


@contextmanager
def scratch_folder() -> Generator[Path]:
    """Make the folder, and remove it with everything in it in the end.

    :raises OSError: there is no room.
    """
    with tempfile.TemporaryDirectory(prefix="acp-agent-demo-", ignore_cleanup_errors=True) as path:
        root = Path(path).resolve()
        (root / "timesheet").mkdir()
        (root / "home").mkdir(mode=0o700)
        for name, text in _FILES.items():
            (root / "timesheet" / name).write_text(text, "utf-8")
        yield root


def agent_environment(root: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return what the agent is started with: the user's environment, with a home of its own and this Python.

    :param env: the user's environment variables.
    """
    home = root / "home"
    provider = {"kind": "scripted", "script": str(Path(__file__).with_name("script.yaml"))}
    config = {"providers": {_SCRIPTED_MODEL.partition("/")[0]: provider}}
    (home / CONFIG_FILE).write_text(json.dumps(config), "utf-8")  # JSON is YAML
    PermissionRules(home).allow(root / "timesheet", f"shell: {_TEST_COMMAND}")
    return {name: value for name, value in env.items() if name != WINDOW_VARIABLE} | {
        HOME_VARIABLE: str(home),
        MODEL_VARIABLE: _SCRIPTED_MODEL,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)]),
        # A file that is edited within a second may look unchanged to Python.
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run_tests(project: Path) -> _TestRun:
    """Run the program's tests.

    :raises AgentError: they did not run.
    """
    command = [sys.executable, "-B", "-m", "unittest"]
    done = subprocess.run(command, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    ran = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("Ran ")]
    if not ran:
        raise AgentError(f"The tests in {project} did not run: {done.stderr.strip()}")
    return _TestRun(int(ran[0]), sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", done.stderr))))
