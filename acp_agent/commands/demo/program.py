"""The program in the scratch project, as text: a timesheet that is wrong about night shifts, with a test that fails.

Knows nothing of the agent. `script.yaml` quotes lines from here, exactly.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "timesheet"

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


FILES: Final[dict[str, str]] = {
    "AGENTS.md": _AGENTS,
    "march.txt": _march(),
    "test_timesheet.py": _TESTS,
    "timesheet.py": _PROGRAM,
}
