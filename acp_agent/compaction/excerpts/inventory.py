"""The inventory of a conversation: files with their state, commands with their last result, branch and commit.

Calls are recognised by the names of their arguments, which agents share, and not by the name of the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN
from acp_agent.compaction.state import Workspace
from acp_agent.conversation.messages import AssistantMessage, Entry, JsonValue, ToolCall, ToolResult
from acp_agent.frozen import frozen

Change: TypeAlias = Literal["read", "created", "edited"]

LONGEST_COMMAND = 160
LONGEST_RESULT = 100

_COMMAND = ("command", "cmd", "script")
_PATH = ("path", "file_path", "filePath", "filename", "notebook_path")
_SEARCH = frozenset(("pattern", "query", "glob", "regex"))
_WHOLE_TEXT = frozenset(("content", "contents", "file_text"))
_PIECE = frozenset(("old_string", "old_str", "old_text", "edits", "insert_line", "new_str", "new_string", "new_source"))
_PIPES = "|<>"
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*['\"]?(\w+)")
_STATUS = re.compile(r"(?:exit(?:ed)?(?: with)?(?: status| code)?|return ?code)\W{0,3}(-?\d{1,5})(?!\d)", re.IGNORECASE)
_STATUS_WITHIN = 300
"""Characters at both ends of a result in which its status is looked for."""
_COUNTS = re.compile(
    r"\b\d+[ \t]+(?:tests?|passed|failed|passing|failing|failures?|errors?|skipped|xfailed|assertions?|ok)\b",
    re.IGNORECASE,
)
_TELLS_ERROR = re.compile(r"\b(?:error|\w*Error|\w*Exception|failed|FAILED|fatal|cannot|not found)\b")
_LAST_LINES = 60


@frozen
class _Inventory:
    """Files and commands, each in the order in which they came up last, with the seq of the entry.

    :ivar files: seq and change, by path.
    :ivar runs: command line, seq, and result: the last line of counts; of a failed command its exit status, or a line
        that tells of an error.
    :ivar failures: seq and first line of each call on a file that failed, unless one succeeded later.
    """

    files: dict[str, tuple[int, Change]]
    runs: tuple[tuple[str, int, str], ...]
    failures: tuple[tuple[int, str], ...]
    workspace: Workspace


def inventory(entries: Iterable[Entry], workspace: Workspace) -> _Inventory:
    """Read the calls and results of a conversation."""
    files: dict[str, tuple[int, Change]] = {}
    runs: dict[str, tuple[str, int, str]] = {}
    failures: dict[str, tuple[int, str]] = {}
    for seq, call, result in _calls(entries):
        path = next((said for key in _PATH if isinstance(said := call.arguments.get(key), str) and said), "")
        text, failed = result.text, result.is_error
        if path:
            failures.pop(path, None)
            if failed:
                first_line = text.strip().partition("\n")[0]
                failures[path] = (seq, _brief(f"{call.name} of {path}: {first_line}", LONGEST_COMMAND))
            elif change := _change(call, files[path][1] if path in files else None):
                files.pop(path, None)
                files[path] = seq, change
        elif line := command_line(call):
            subject = " ".join(word for word in line.split() if not word.startswith("-"))
            runs.pop(subject, None)
            runs[subject] = line, seq, _outcome(text, failed)
    return _Inventory(files, tuple(runs.values()), tuple(failures.values()), workspace)


def render(found: _Inventory, room: int, *, kept: Iterable[int] = ()) -> str:
    """Return the list as the model reads it; where room is short, commands likely to be run again are preferred.

    :param room: tokens, estimated.
    :param kept: entries that stay in the new context; their commands are not listed.
    """
    there = set(kept)
    left = room * CHARACTERS_PER_TOKEN
    sections: dict[str, list[tuple[int, str]]] = {}
    for heading, seq, line in _lines(found, there):
        cost = len(line) + 1 + (0 if heading in sections else len(heading) + 2)
        if cost <= left:
            left -= cost
            sections.setdefault(heading, []).append((seq, line))
    return "\n".join(
        "\n".join((f"{heading}:", *(line for _, line in sorted(lines)))) for heading, lines in sections.items()
    )


def command_line(call: ToolCall) -> str:
    """Return the command line of a call in one line, without the texts of here-documents; empty where it has none."""
    value: JsonValue = next((call.arguments[key] for key in _COMMAND if key in call.arguments), None)
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        value = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    if not isinstance(value, str):
        return ""
    lines: list[str] = []
    end = ""
    for line in map(str.strip, value.splitlines()):
        if end:
            end = "" if line == end else end
        elif line:
            lines.append(line)
            opened = _HERE_DOCUMENT.search(line)
            end = opened[1] if opened else ""
    return _brief("; ".join(lines), LONGEST_COMMAND)


def _lines(found: _Inventory, there: set[int]) -> Iterator[tuple[str, int, str]]:
    """Yield heading, seq and text of each line, the most useful first."""
    branch, head = found.workspace.branch, found.workspace.head
    if branch or head:
        yield "Repository", 0, f"branch {branch or '(none)'} at {head or '(no commit)'}"
    for path, (seq, change) in found.files.items():
        if change != "read":
            yield "Files", seq, f"[#{seq}] {change} {_brief(path, LONGEST_COMMAND)}"
    for line, seq, result in sorted(found.runs, key=lambda run: (any(sign in run[0] for sign in _PIPES), len(run[0]))):
        if seq not in there:
            yield "Commands, last run", seq, f"[#{seq}] {line}{f' → {result}' if result else ''}"
    for seq, text in found.failures:
        yield "Calls that failed", seq, f"[#{seq}] {text}"


def _calls(entries: Iterable[Entry]) -> Iterator[tuple[int, ToolCall, ToolResult]]:
    """Yield each call with its result and the seq of its entry."""
    waiting: dict[str, tuple[int, ToolCall]] = {}
    for entry in entries:
        if isinstance(entry.message, AssistantMessage):
            waiting |= {call.id: (entry.seq, call) for call in entry.message.tool_calls}
        elif isinstance(entry.message, ToolResult) and entry.message.call_id in waiting:
            yield (*waiting.pop(entry.message.call_id), entry.message)


def _change(call: ToolCall, before: Change | None) -> Change | None:
    """Return what a call made of its file; None where it only searches."""
    names = call.arguments.keys()
    if names & _PIECE:
        return "created" if before == "created" else "edited"
    if names & _WHOLE_TEXT:
        return "created" if before in (None, "created") else "edited"
    return None if names & _SEARCH else before or "read"


def _outcome(text: str, is_error: bool) -> str:
    """Return the outcome of a command in one line; empty if its output shows none."""
    found = _STATUS.search(f"{text[:_STATUS_WITHIN]}\n{text[-_STATUS_WITHIN:]}")
    failed = is_error or bool(found and int(found[1]))
    said = [f"exit {found[1]}" if found else "failed"] if failed else []
    lines = text[-LONGEST_RESULT * _LAST_LINES :].splitlines()[-_LAST_LINES:]
    telling = [line for line in lines if _COUNTS.search(line)]
    if failed and not telling:
        telling = [line for line in lines if _TELLS_ERROR.search(line)]
    return ": ".join([*said, *(_brief(line.strip(" \t=-"), LONGEST_RESULT) for line in telling[-1:])])


def _brief(text: str, limit: int) -> str:
    """Return one line with single spaces, its middle left out where it is longer than so many characters."""
    line = " ".join(text[: 20 * limit].split())
    return line if len(line) <= limit else f"{line[: limit - limit // 3 - 3]} … {line[-(limit // 3) :]}"
