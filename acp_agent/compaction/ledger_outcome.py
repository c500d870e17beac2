"""How a call went, by the text of its result: exit status, counts of tests, and the line that says most.

Exit status is not truth: a pipe into `tail` exits 0 whatever failed before it. So what was plainly printed counts as
well. Only bounded parts of a result are looked at, beginning and end, whatever its size; knows no tool's arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, cast

from acp_agent.frozen import frozen

_HEAD: Final = 8_000
_TAIL: Final = 16_000
_LONGEST_LINE: Final = 400
_LAST_LINES: Final = 20

# How results say it at their beginning: this agent's shell, mini-swe-agent, Claude Code, Codex.
_STATUS: Final = re.compile(
    r"(?:[^\n]{0,99}\n){0,3}?(?:exit status: |<returncode>|Exit code:? |Process exited with code )(-?\d{1,9})\b"
)
_STATUS_AT_END: Final = re.compile(r"(?:Command finished|command completed) with exit code (-?\d{1,9})")
# Calls that never ran: refused by the user, or with nobody to ask, cut off, or not understood by the harness.
_NOT_RUN: Final = (
    "The user did not allow this call",
    "The user could not be asked, so nothing was done",
    "Nobody is here to ask, so nothing was done",
    "The user cancelled this call",
    "The agent was interrupted before this call",
    "The user doesn't want to proceed",
    "The user doesn't want to take this action",
    "[Request interrupted by user",
    "exec command rejected by user",
    "Please always provide EXACTLY ONE action",
)
_TIMED_OUT: Final = re.compile(
    r"(?:The last )?[Cc]ommand (?:<command>.{0,2000}?</command> )?(?:has )?timed out", re.DOTALL
)
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_FRAME: Final = re.compile(
    r"</?(?:output|output_head|output_tail|warning|tool_use_error|error|returncode)>|"
    r"(?:stdout|stderr|output \(stdout and stderr together\)): ?(?:\(empty\))?"
)


@frozen
class Outcome:
    """A result, read.

    :ivar ran: whether the call ran at all.
    :ivar status: exit status, where one is named.
    :ivar is_error: what the harness said.
    :ivar lines: of the output's bounded parts, without frames and empty lines.
    """

    ran: bool
    status: int | None
    is_error: bool
    lines: tuple[str, ...]


def read_outcome(text: str, is_error: bool, *, whole: bool = True) -> Outcome:
    """Read the text of a result.

    :param whole: with its lines also where nothing says that it failed.
    """
    if text.startswith(_NOT_RUN):
        return Outcome(False, None, is_error, ())
    status: int | None = None
    if text.startswith("{") and '"exit_code"' in text:
        text, status = _unpacked(text)
    elif (found := _STATUS.match(text)) or (found := _STATUS_AT_END.search(text, max(0, len(text) - 400))):
        status = int(found[1])
    elif _TIMED_OUT.match(text):
        is_error = True
    return Outcome(True, status, is_error, tuple(_lines(text)) if whole or is_error or status else ())


def _unpacked(text: str) -> tuple[str, int | None]:
    """Codex's older form: a JSON object with the output and, in `metadata`, the status."""
    try:
        read: object = json.loads(text)
    except (ValueError, RecursionError):
        return text, None
    if not isinstance(read, dict):
        return text, None
    fields = cast("dict[str, object]", read)
    metadata = fields.get("metadata")
    inner = cast("dict[str, object]", metadata) if isinstance(metadata, dict) else fields
    output, status = fields.get("output"), inner.get("exit_code")
    return output if isinstance(output, str) else text, status if isinstance(status, int) else None


def _lines(text: str) -> list[str]:
    at = text.rfind("\nstderr:") if text.startswith("exit status: ") else -1
    found: list[str] = []
    for section in (text[:at], text[at:]) if at > 0 else (text,):
        parts = (section,) if len(section) <= _HEAD + _TAIL else (section[:_HEAD], section[-_TAIL:])
        for part in parts:
            plain = _ESCAPES.sub("", part) if "\x1b" in part else part
            short = (line[:_LONGEST_LINE].strip() for line in plain.splitlines())
            found += (line for line in short if line and not _FRAME.fullmatch(line))
    return found


# ------------------------------------------------------------------------------------------------ tests

_COUNTS: Final = re.compile(
    r"\b\d+ (?:passed|failed|passing|failing|errors?|exceptions?|skipped|deselected|failures?|xfailed)\b"
    r"|\b\d+ tests? completed\b"
    r"|^Tests:? +\d|\bTests run: ?\d|tests passed, \d+ tests failed|^(?:#|ℹ) (?:pass|fail) \d|\bFailed: +\d"
    r"|^OK \(\d+ tests?\b|no tests ran|collected 0 items"
)
_WORDS: Final = re.compile(r"^(?:OK|FAILED)(?: \([^)]*\))?$|^(?:ok|FAIL|--- FAIL:?)(?:\s|$)|\bBUILD (?:SUCC|FAIL)\w+")
_RAN: Final = re.compile(r"^Ran \d+ tests? in \S+$")
_FAILING: Final = re.compile(
    r"(?<![\d.])[1-9]\d* (?:failed|failing|failures?|errors?|exceptions?|tests failed)\b"
    r"|\b(?:[Ff]ailures?|[Ee]rrors?|Failed)[:=] ?[1-9]|^(?:FAIL|FAILED|--- FAIL:?)(?:\s|$)|test result: FAILED"
    r"|\bBUILD FAIL|^(?:#|ℹ) fail [1-9]"
)
_FAILED_TEST: Final = re.compile(r"^(?:FAILED|ERROR|--- FAIL:|FAIL:|ERROR:|FAIL) +\S|^(?:✕|✗|×|●|not ok) ?\S")


def counts(lines: Sequence[str]) -> str:
    """The runner's last line of counts, or its verdict; empty where there is none.

    A line that tells of failures goes before one that does not: workspaces and packages have a line each.
    """
    last = lines[-80:]
    for pattern in (_COUNTS, _WORDS):
        found = [line for line in last if pattern.search(line)]
        if found:
            line = next((line for line in reversed(found) if _FAILING.search(line)), found[-1])
            ran = next((each for each in reversed(last) if _RAN.match(each)), "") if pattern is _WORDS else ""
            return f"{ran}: {line}" if ran else line.strip("= ")
    return ""


def tells_failure(result: str) -> bool:
    """Whether a line of counts says that something failed."""
    return bool(_FAILING.search(result.rpartition("s: ")[2] if result.startswith("Ran ") else result))


# ----------------------------------------------------------------------------------------------- failures

_TRACEBACK: Final = "Traceback (most recent call last)"
_EXCEPTION: Final = re.compile(r"^(?:E +)?[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit|Failure)(?::|$)")
_PRINTED: Final = re.compile(
    r": (?:command )?not found$|^make(?:\[\d+\])?: \*\*\* |^npm (?:ERR!|error) |^error(?:\[\w+\])?: |^fatal: |^panic: "
    r"|^FAILED \S|^FAIL\b|\bBUILD FAIL|^Segmentation fault|^INTERNALERROR>|error TS\d+: "
)
_ERROR: Final = re.compile(r"\b(?:[Ee]rror|ERROR|fatal|FATAL)(?:\[\w+\])?:|error TS\d+|: (?:fatal )?error\b")
_HINTS: Final = re.compile(
    r"(?:not found|No such file or directory|Permission denied|cannot |can't |\bpanic: |npm ERR!|\*\*\* |Exception\b)"
)


def printed_failure(lines: Sequence[str]) -> bool:
    """Whether the end of an output plainly is a failure, whatever the status: a traceback, `make: ***`, `FAILED …`."""
    last = lines[-_LAST_LINES:]
    if any(_PRINTED.search(line) for line in last):
        return True
    return any(_EXCEPTION.match(line) for line in last[-3:]) and any(_TRACEBACK in line for line in lines[-80:])


def telling_line(lines: Sequence[str], counted: str | None = None) -> str:
    """The line that says most about a failure.

    The first failed test of a test run; the last line of the last traceback; what a test run counted; the first line
    with `error:`; the first that sounds like one; the last line at all.

    :param counted: of a test run, what `counts` found; None for any other command.
    """
    if counted is not None and (found := next((line for line in lines if _FAILED_TEST.match(line)), "")):
        return found
    for at in range(len(lines) - 1, -1, -1):
        if _EXCEPTION.match(lines[at]):
            return lines[at]
        if _TRACEBACK in lines[at]:
            break
    if counted:
        return counted
    for pattern in (_ERROR, _HINTS):
        if found := next((line for line in lines if pattern.search(line)), ""):
            return found
    return lines[-1] if lines else ""
