"""Numbers of a summary in the forms in which they are written: with slashes, signs, exponents, as dates and in hex."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.provenance import Source, check
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import Text, ToolResult

OUTPUT = """\
12 passed, 3 failed in 1.52s; shard [437/440] done
COPY src/2024/report.py logs/2023/app; merged feature/123
listening on 5432; started at 2026-05-01T10:00:00Z, tagged on 7/3/2025
 4 files changed, 58 insertions(+), 17 deletions(-)
1284 of 1300 rows, 1500000000 in all, epsilon 1e-9, mask 0x1f at 0xDEADBEEF, timeout=30, killed: exit status -9
subnet 10.20.0.0/16
"""


def _flags(summary: str, source: str = OUTPUT) -> list[str]:
    return [flag.text for flag in check(summary, Source.of([Entry(1, ToolResult("c", (Text(source),)))]))]


@pytest.mark.parametrize(
    ("summary", "flags"),
    [
        ("37/37 tests pass.", ["37/37"]),
        ("**447/447** tests passed, __447/447__ too", ["447/447", "447/447"]),
        ("Tests: 12/15 passed", ["12/15"]),
        ("9/9 tests pass, 3/3 passed", ["9/9", "3/3"]),
        ("Progress 137/440, pages 437/438, (17/9, 21/9)", ["137/440", "437/438", "21/9"]),
        ("1,284/1,301 rows, 999/1,300 rows", ["1,284/1,301", "999/1,300"]),
        ("5433/tcp is open, 100/min, feature/124, reports/2022", ["5433", "100", "124", "2022"]),
        ("Due 2026/05/02, 05/02/2026, 2.5.2026", ["2026/05/02", "05/02/2026", "2.5.2026"]),
        ("The offset is -18; +58/-19 lines; exit code -8", ["18", "58/-19", "8"]),
        ("a 31-second timeout", ["31"]),
        ("1e9 rows, 2e-9", ["1e9", "2e-9"]),
        ("0xDEADBEEE, 0x2f, 0o755", ["0xDEADBEEE", "0x2f", "0o755"]),
        ("`37/37` `5433/tcp` `1e7` `0x2f`", ["37/37", "5433/tcp", "1e7", "0x2f"]),
        ("10.20.0.0/24", ["10.20.0.0/24"]),
    ],
)
def test_a_number_that_is_not_in_the_source_is_flagged_in_whatever_form(summary: str, flags: list[str]) -> None:
    assert _flags(summary) == flags


@pytest.mark.parametrize(
    "summary",
    [
        "437/440, `437/440`, **437/440** and 440; 12/440 tests passed; 3/12 tests failed",
        "src/2024/report.py is a path, `src/2024/report.py` as well, and so is logs/2023/app",
        "feature/123, 5432/tcp, tcp/5432, `10.20.0.0/16`, 10.20.0.0/16",
        "2026/05/01, 2026-05-01, 5/1/2026, 01.05.2026, 2025-07-03, 2025-03-07, 7/3/2025",
        "58/-17 lines, -17, +58, exit code -9, a 30-second timeout",
        "1,284/1,300 rows, 1284/1,300 rows, 1.5e9, 1.5E9, 1,500,000,000, 1e-9",
        "0xdeadbeef, 0xDEADBEEF, 0x1F, `0x1f`",
        "24/7, 1/2, 2/3 of it, and/or, 1st/2nd, HTTP/1.1, x86-64, 64-bit, utf-8, ~40 lines, I/O, v1/v2",
    ],
)
def test_a_number_of_the_source_is_not_flagged_in_another_form(summary: str) -> None:
    assert _flags(summary) == []


EXITS = [
    "exit code `{}`",
    "exited with `{}`",
    "exited with **{}**",
    "rc=`{}`",
    "**exit code** {}",
    "**exit code:** {}",
    "**Exit code**: `{}`",
    "exit-code {}",
    "exit code is {}",
    "exit status `-{}`",
    "return code: `{}`",
    "ended with status {}",
    "It finished with a status of `{}`",
]


@pytest.mark.parametrize("form", EXITS)
def test_an_exit_status_is_looked_up_as_one_whatever_marks_stand_around_it(form: str) -> None:
    source = "1 file, 3 passed, exit status: 2"
    for other in ("1", "3", "137"):
        assert _flags(form.format(other), source) == [other]
        assert _flags(form.format(other), f"The process exited with code {other}.") == []
    assert _flags(form.format("2"), source) == []


def test_a_status_of_http_is_none_of_a_process() -> None:
    said = "The request ended with status 404, another one finished with status `200`."
    assert _flags(said, "GET /cart HTTP/1.1 404, and 200 OK") == []


LOG = """\
2026-05-01T10:37:55.123Z GET /cart 200, p99=12.50ms, load 98.6%, 98,76 EUR, 12.00ms, peak 40,25 %
2026-05-02T23:41:07Z node v18.17.0, ruff-22.16.4, 10.20.30.40, 27.05.2026, 64.123.456 rows, Python 3.10, mean 31.5
lr 1e-05 for 3.0e+02 steps, 12.345,67 and 9,876.54, lines 71,85; a #ff00aa b #A1B2C3
"""


@pytest.mark.parametrize(
    "summary",
    [
        "At 10:37:55 and 23:41:07, at 10:37, 10:37:55.123",
        "Node 18, Node 18.17, Node v18.17, ruff 22",
        "p99 12.5 ms, 12.5ms, 12.50 ms, 12 ms",
        "98,6 %, 98.6 %, 98.76 EUR, 98,76 EUR, 40.25 %, `98,6`",
        "1e-5, 1e-05, 1E-5, 0.00001, 300 steps, 3e2",
        "12345.67, 12,345.67, 12.345,67, 12 345,67, 12345,67, 9876.54, 9876,54, 9.876,54, 9'876.54",
        "lines 71,85, lines 85,71, and 1,2",
        "`#FF00AA`, `#a1b2c3`, #FF00AA",
    ],
)
def test_a_number_of_a_log_is_found_in_the_form_that_a_reader_would_give_it(summary: str) -> None:
    assert _flags(summary, LOG) == []


@pytest.mark.parametrize(
    ("summary", "flags"),
    [
        ("At 10:38:56", ["38", "56"]),
        ("Node 17, step 30, 64 rows, day 27", ["17", "30", "64", "27"]),
        ("12.4 ms, 12.05 ms, Python 3.1, mean 31.50", ["12.4", "12.05", "3.1", "31.50"]),
        ("98,7 %, 97.6 %, 40,2 %", ["98,7", "97.6", "40,2"]),
        ("1e-6, 0.0001, 301 steps", ["1e-6", "0.0001", "301"]),
        ("12345.68, 12.345,68, 12346,67", ["12345.68", "12.345,68", "12346,67"]),
        ("lines 71,86", ["71,86"]),
        ("`#FF00AB`, `#a1b2c4`", ["#FF00AB", "#a1b2c4"]),
    ],
)
def test_another_number_than_the_logs_is_flagged_however_near_it_is(summary: str, flags: list[str]) -> None:
    assert _flags(summary, LOG) == flags


@given(st.decimals(1, 10**6, places=3), st.sampled_from(["{:,}", "{}"]), st.booleans())
def test_decimals_are_looked_up_whichever_marks_stand_in_them(number: Decimal, form: str, comma: bool) -> None:
    number = number if number % 1 else number + Decimal("0.125")
    marks = str.maketrans(",.", ".,")
    plain = f"{number:.2f}"
    said = form.format(Decimal(plain))
    assert _flags(f"It is {said.translate(marks) if comma else said}.", f"it is {plain} in all") == []
    assert _flags(f"It is {plain}.", f"it is {said.translate(marks) if comma else said} in all") == []
    assert _flags(f"It is {plain}.", f"it is {Decimal(plain) + 1} in all") == [plain]


@given(st.integers(10, 10**9), st.integers(10, 10**9), st.sampled_from(["{}/{}", "{:,}/{:,}", "{}/-{}", "+{}/-{}"]))
def test_each_number_of_a_ratio_is_looked_up(one: int, other: int, form: str) -> None:
    said = form.format(one, other)
    assert _flags(f"It is {said} now.", f"{one} and {other}") == []
    for known in (one, other):
        flags = _flags(f"It is {said} now.", f"{known}")
        assert flags == ([] if one == other else [said.lstrip("+")])


@given(st.dates(dt.date(1000, 1, 1)), st.dates(dt.date(1000, 1, 1)))
def test_a_date_is_the_same_in_each_notation_and_another_is_flagged(day: dt.date, other: dt.date) -> None:
    for form in ("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y"):
        said = day.strftime(form)
        assert _flags(f"Since {said}.", f"Since {day.isoformat()}T08:00:00.") == []
        if {day.year, day.month, day.day} != {other.year, other.month, other.day}:
            assert _flags(f"Since {said}.", f"Since {other.isoformat()}.") == [said]


@given(st.integers(16, 2**64), st.sampled_from(["{:#x}", "0x{:X}", "{:#b}"]))
def test_a_number_with_a_radix_is_looked_up_whatever_its_case(number: int, form: str) -> None:
    said = form.format(number)
    assert _flags(f"It is {said}.", f"at {number:#x} or 0x{number:X}, {number:#b}") == []
    assert _flags(f"It is {said}.", f"at {number + 1:#x}, {number + 1:#b}") == [said]


@pytest.mark.parametrize("unit", ["1/", "1,", "1,111/", "-1/", "1e", "0x1", "11-", "__1", "1_"])
def test_very_long_words_of_digits_are_checked_in_time(unit: str) -> None:
    _flags(unit * (150_000 // len(unit)))
