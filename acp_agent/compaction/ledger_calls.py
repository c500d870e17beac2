"""What one call and its result come to: which files it touched, what it ran, and what failed.

A table from tool names to readers: this agent's tools, Claude Code's, Codex's, and the shells and editors of
SWE-agent and mini-swe-agent. A tool that stands in no table is only known by its failures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from acp_agent.compaction.ledger_outcome import (
    Outcome,
    counts,
    printed_failure,
    read_outcome,
    telling_line,
    tells_failure,
)
from acp_agent.compaction.ledger_programs import runs_tests
from acp_agent.compaction.ledger_shell import Part, ShellLine, command_line, read_shell
from acp_agent.compaction.ledger_touch import Touch, joined, patched
from acp_agent.conversation.memory import Change, CommandFact
from acp_agent.conversation.messages import ToolCall
from acp_agent.frozen import frozen

LONGEST_COMMAND = 300
"""Characters of a command line; the middle of a longer one is left out."""
LONGEST_ERROR = 300
_LONGEST_RESULT: Final = 200
_LONGEST_SUBJECT: Final = 160

# Their status 1 is an answer and no failure.
_ANSWERING: Final = frozenset(
    ("grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp", "test", "[", "[[", "which", "pgrep")
)
_NUMBERED: Final = re.compile(r"[ ]{0,12}(\d{1,9})(?:\t|→|: )")
_MISSING: Final = re.compile(r"([^\s'\"`:‘’]+)['’]?(?: for reading)?: No such file")


@frozen
class Happening:
    """A call that ran.

    :ivar subject: what a later success of has to cure the error.
    :ivar error: the line that says most; empty where the call did not fail.
    :ivar touches: those that took effect, in order.
    """

    subject: str
    error: str = ""
    touches: tuple[Touch, ...] = ()
    command: CommandFact | None = None


Reader: TypeAlias = Callable[[ToolCall, str, bool, str], Happening | None]


def read_call(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    """What a call came to; None where it never ran.

    :param result: text of its result.
    :param cwd: the session's working directory, absolute or empty.
    """
    reader = _READERS.get(call.name.lower().rpartition(".")[2], _other)
    return reader(call, result, is_error or result.startswith("<tool_use_error>"), cwd)


def brief(text: str, limit: int) -> str:
    """One line with single spaces, its middle left out where it is longer than `limit` characters."""
    line = " ".join((text if len(text) <= 4 * limit else f"{text[: 2 * limit]} {text[-2 * limit :]}").split())
    if len(line) <= limit:
        return line
    last = limit // 3
    return f"{line[: limit - last - 3]} … {line[-last:]}"


# ------------------------------------------------------------------------------------------------- files


def _read(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    return _on_file(call, result, is_error, cwd, lambda path: Touch("read", path, _lines(call, result), recorded=True))


def _write(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    made: Change | None = None
    if "already has exactly this text" in result[-80:]:
        return _read(call, "", is_error, cwd)
    if result.startswith(("Made ", "File created successfully", "New file created")):
        made = "created"
    elif result.startswith(("Wrote ", "The file ")):
        made = "edited"
    return _on_file(call, result, is_error, cwd, lambda path: Touch("write", path, made=made, recorded=True))


def _edit(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    made: Change = "created" if call.arguments.get("old_string") == "" else "edited"
    return _on_file(call, result, is_error, cwd, lambda path: Touch("write", path, made=made, recorded=True))


def _editor(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    """SWE-agent's and Anthropic's editor, one tool with a `command`."""
    match call.arguments.get("command"):
        case "view":
            return _read(call, result, is_error, cwd)
        case "create":
            return _write(call, result, is_error, cwd)
        case _:
            return _edit(call, result, is_error, cwd)


def _on_file(call: ToolCall, result: str, is_error: bool, cwd: str, touch: Callable[[str], Touch]) -> Happening | None:
    names = ("path", "file_path", "notebook_path", "target_file", "filename", "file")
    named = next((value for name in names if isinstance(value := call.arguments.get(name), str)), "")
    path = joined(named.strip(), cwd)
    if path is None:
        return _other(call, result, is_error, cwd)
    outcome = read_outcome(result, is_error, whole=False)
    if not outcome.ran:
        return None
    done = touch(path)
    subject = subject_of(done)
    if outcome.is_error:
        return Happening(subject, _said(outcome))
    return Happening(subject, touches=(done,))


def subject_of(touch: Touch) -> str:
    """What has to succeed for an error about this file to be cured."""
    return f"{'read' if touch.kind == 'read' else 'edit'} {touch.path}"


def _lines(call: ToolCall, result: str) -> tuple[int, int] | None:
    """The range that was shown, by the numbers in the result, or else by what was asked for."""
    first = _NUMBERED.match(result)
    if first:
        numbers = (_NUMBERED.match(line) for line in reversed(result[-8_000:].rstrip().rsplit("\n", 4)[1:]))
        last = next((found for found in numbers if found), first)
        return int(first[1]), max(int(first[1]), int(last[1]))
    asked = call.arguments.get("view_range")
    if isinstance(asked, list) and len(asked) == 2:
        start, end = asked
        if isinstance(start, int) and isinstance(end, int) and 0 < start <= end:
            return start, end
    offset, limit = call.arguments.get("offset", 1), call.arguments.get("limit")
    if isinstance(offset, int) and isinstance(limit, int) and limit > 0:
        return max(1, offset), max(1, offset) + limit - 1
    return None


def _patch(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    texts = [call.invalid or "", *(value for value in call.arguments.values() if isinstance(value, str))]
    touches = [touch for text in texts for touch in patched(text, cwd)]
    outcome = read_outcome(result, is_error)
    if not outcome.ran:
        return None
    if not touches:
        return _other(call, result, is_error, cwd)
    if outcome.is_error or outcome.status:
        return Happening(subject_of(touches[0]), _said(outcome))
    return Happening(subject_of(touches[0]), touches=tuple(touches))


def _other(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    del cwd
    outcome = read_outcome(result, is_error, whole=False)
    if not outcome.ran:
        return None
    arguments = call.invalid if call.invalid is not None else json.dumps(call.arguments, ensure_ascii=False)
    subject = brief(f"{call.name} {'' if arguments == '{}' else arguments}", _LONGEST_SUBJECT)
    return Happening(subject, _said(outcome) if outcome.is_error else "")


def _said(outcome: Outcome, counted: str | None = None) -> str:
    line = telling_line(outcome.lines, counted)
    return brief(line, LONGEST_ERROR) or ("failed" if not outcome.status else f"exit status {outcome.status}")


# ---------------------------------------------------------------------------------------------- commands


def _shell(call: ToolCall, result: str, is_error: bool, cwd: str) -> Happening | None:
    command = next((call.arguments[name] for name in ("command", "cmd", "script") if name in call.arguments), None)
    text = command_line(command)
    if not text.strip():
        return _other(call, result, is_error, cwd)
    named = next((call.arguments[name] for name in ("cwd", "workdir") if name in call.arguments), None)
    base = (joined(named, cwd) or cwd) if isinstance(named, str) else cwd
    line = read_shell(text, base)
    outcome = read_outcome(result, is_error, whole=not line.looks)
    if not outcome.ran:
        return None
    tests = any(runs_tests(part.words) for part in line.parts)
    counted = counts(outcome.lines) if tests else ""
    by_status = _failed_by_status(line, outcome)
    failed = by_status or (tests and tells_failure(counted)) or (not line.looks and printed_failure(outcome.lines))
    fact = CommandFact(
        brief(line.shown, LONGEST_COMMAND),
        outcome.status,
        tests,
        brief(counted, _LONGEST_RESULT),
        failed=failed,
    )
    touches = _doubtless(line, result, failed=by_status)
    return Happening(fact.command, _said(outcome, counted if tests else None) if failed else "", touches, fact)


def _failed_by_status(line: ShellLine, outcome: Outcome) -> bool:
    if outcome.status is None:
        return outcome.is_error
    if outcome.status == 0:
        return False
    if outcome.status == 1 and line.parts:
        answering = [_answers(part) for part in line.parts]
        if (answering[-1] and not printed_failure(outcome.lines)) or (any(answering) and not outcome.lines):
            return False
        if line.parts[-1].program == "rm" and outcome.lines and all("No such file" in each for each in outcome.lines):
            return False
    return True


def _answers(part: Part) -> bool:
    return part.program in _ANSWERING or (part.program == "git" and part.words[1:2] in (("grep",), ("diff",)))


def _doubtless(line: ShellLine, result: str, *, failed: bool) -> tuple[Touch, ...]:
    """The touches that took effect.

    Without those of a file that the output calls missing; after a failure also without those of a command that
    stands alone, or behind `&&` and something else that may have been what failed.
    """
    if not any(part.touches for part in line.parts):
        return ()
    missing = _missing(result)
    kept: list[Touch] = []
    doing = [part for part in line.parts if part.program not in ("cd", "set", "export", "")] if failed else []
    doubtful = len(doing) == 1
    for part in line.parts:
        if failed and len(doing) > 1:
            if part.before != "&&":
                doubtful = False
            last_of_all = part is doing[-1] and all(each.touches for each in doing)
            if last_of_all and not missing:
                doubtful = True
        if not doubtful or (missing and len(part.touches) > 1):
            kept += [touch for touch in part.touches if not _is_named(touch.path, missing)]
        if failed and len(doing) > 1 and not part.touches and part in doing and not part.looks:
            doubtful = True
    return tuple(kept)


def _missing(result: str) -> list[str]:
    parts = (result,) if len(result) <= 8_000 else (result[:4_000], result[-4_000:])
    return [name for part in parts if "No such file" in part for name in _MISSING.findall(part[:9_000])]


def _is_named(path: str, names: list[str]) -> bool:
    return any(path == name or path.endswith(f"/{name.removeprefix('./')}") for name in names)


_READERS: Final[dict[str, Reader]] = {
    **dict.fromkeys(("read", "read_file", "view", "notebookread", "view_file"), _read),
    **dict.fromkeys(("write", "write_file", "create_file"), _write),
    **dict.fromkeys(("edit", "multiedit", "notebookedit", "edit_file", "str_replace", "search_replace"), _edit),
    **dict.fromkeys(("str_replace_editor", "str_replace_based_edit_tool"), _editor),
    **dict.fromkeys(("apply_patch", "applypatch"), _patch),
    **dict.fromkeys(
        ("shell", "bash", "exec", "exec_command", "shell_command", "local_shell", "local_shell_call"), _shell
    ),
    **dict.fromkeys(
        ("execute_bash", "run_shell_command", "run_command", "execute_command", "run_terminal_cmd"), _shell
    ),
}
