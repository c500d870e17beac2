"""The program in the scratch repository, as text: a timesheet that is wrong about night shifts, with a test that fails.

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

_README = """\
# timesheet

Adds up who worked how long: `python3 timesheet.py march.txt`.

A line is a shift: the date on which it begins, a name, from-to, and the break in minutes if there was one.

    2026-03-02 anna 09:00-17:30 break 45
"""

_PROGRAM = '''\
"""Adds up working hours, shift by shift."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

DAY = 24 * 60

DATE, CLOCK = r"\\d{4}-\\d\\d-\\d\\d", r"\\d\\d:\\d\\d"
SHIFT = re.compile(rf"(?P<date>{DATE}) (?P<name>\\w+) (?P<start>{CLOCK})-(?P<end>{CLOCK})( break (?P<pause>\\d+))?")


@dataclass(frozen=True)
class Shift:
    """One line of a timesheet. Times are minutes since midnight."""

    date: str
    name: str
    start: int
    end: int
    pause: int = 0

    @property
    def minutes(self) -> int:
        """Minutes worked, without the break."""
        return self.end - self.start - self.pause


def parse(line: str) -> Shift:
    """Read one line.

    :raises ValueError: it is no shift.
    """
    found = SHIFT.fullmatch(line.strip())
    if found is None:
        raise ValueError(f"not a shift: {line.strip()!r}")
    start, end = clock(found["start"]), clock(found["end"])
    return Shift(found["date"], found["name"], start, end, int(found["pause"] or 0))


def clock(text: str) -> int:
    """Minutes since midnight, of a text such as 09:30."""
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def totals(lines: Iterable[str]) -> Counter[str]:
    """Minutes by name; empty lines do not count."""
    worked: Counter[str] = Counter()
    for line in lines:
        if line.strip():
            shift = parse(line)
            worked[shift.name] += shift.minutes
    return worked


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        for name, minutes in sorted(totals(file).items()):
            print(f"{name:10} {minutes // 60:4} h {minutes % 60:02} min")


if __name__ == "__main__":
    main()
'''

_TESTS = '''\
"""Tests of the timesheet."""

from __future__ import annotations

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
        if day % 7 not in (0, 1):  # the weekends of March 2026
            lines.append(f"2026-03-{day:02} anna 09:{day % 4 * 15:02}-17:30 break 45")
            lines.append(f"2026-03-{day:02} lena 07:{day % 5 * 10:02}-15:00 break 30")
            lines.append(f"2026-03-{day:02} tomi 13:30-18:{day % 6 * 10:02}")
            lines.append(f"2026-03-{day:02} yuki 08:00-16:{day % 3 * 20:02} break 30")
        if day % 3 == 0:
            lines.append(f"2026-03-{day:02} omar 22:00-06:00")
    return "\n".join(lines) + "\n"


FILES: Final[dict[str, str]] = {
    ".gitignore": "__pycache__/\n",
    "AGENTS.md": _AGENTS,
    "README.md": _README,
    "march.txt": _march(),
    "test_timesheet.py": _TESTS,
    "timesheet.py": _PROGRAM,
}
