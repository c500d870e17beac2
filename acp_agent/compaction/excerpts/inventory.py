"""The inventory of a conversation: files with their state, commands with their last result, branch and commit.

Calls are recognised by the names of their arguments, which agents share, and not by the name of the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN
from acp_agent.compaction.state import Workspace
from acp_agent.conversation.messages import AssistantMessage, Entry, JsonValue, ToolCall, ToolResult
from acp_agent.frozen import frozen

Change: TypeAlias = Literal["read", "created", "edited", "deleted"]

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
class FileState:
    """A file that was read or changed."""

    path: str
    change: Change
    seq: int
    stale: bool = False  # it has changed on disk since the model saw it last


@frozen
class Run:
    """The last run of a command line."""

    line: str
    seq: int
    result: str  # the last line of counts; of a failed command its exit status, or a line that tells of an error


@frozen
class _Inventory:
    """Files and commands, each in the order in which they came up last."""

    files: tuple[FileState, ...]
    runs: tuple[Run, ...]
    failures: tuple[tuple[int, str], ...]
    """Seq and first line of each call on a file that failed, unless one succeeded later."""
    branch: str = ""
    head: str = ""


def inventory(
    entries: Iterable[Entry], workspace: Workspace | None = None, seen: Mapping[str, str | None] | None = None
) -> _Inventory:
    """Read the calls and results of a conversation.

    :param seen: digests of the file versions that the model has seen, by path.
    """
    workspace, seen = workspace or Workspace(), seen or {}
    files: dict[str, FileState] = {}
    runs: dict[str, Run] = {}
    failures: dict[str, tuple[int, str]] = {}
    for seq, call, result in _calls(entries):
        path = next((said for key in _PATH if isinstance(said := call.arguments.get(key), str) and said), "")
        text, failed = result.text, result.is_error
        if path:
            failures.pop(path, None)
            if failed:
                first_line = text.strip().partition("\n")[0]
                failures[path] = (seq, _brief(f"{call.name} of {path}: {first_line}", LONGEST_COMMAND))
            elif change := _change(call, files.get(path)):
                files.pop(path, None)
                files[path] = FileState(path, change, seq)
        elif line := command_line(call):
            subject = " ".join(word for word in line.split() if not word.startswith("-"))
            runs.pop(subject, None)
            runs[subject] = Run(line, seq, _outcome(text, failed))
    marked = (_on_disk(each, workspace, seen) for each in files.values())
    return _Inventory(tuple(marked), tuple(runs.values()), tuple(failures.values()), workspace.branch, workspace.head)


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
    if found.branch or found.head:
        yield "Repository", 0, f"branch {found.branch or '(none)'} at {found.head or '(no commit)'}"
    for each in found.files:
        if each.change != "read" or each.stale:
            stale = ", changed on disk since" if each.stale and each.change != "deleted" else ""
            yield "Files", each.seq, f"[#{each.seq}] {each.change} {_brief(each.path, LONGEST_COMMAND)}{stale}"
    for run in sorted(found.runs, key=lambda run: (any(sign in run.line for sign in _PIPES), len(run.line))):
        if run.seq not in there:
            result = f" → {run.result}" if run.result else ""
            yield "Commands, last run", run.seq, f"[#{run.seq}] {run.line}{result}"
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


def _change(call: ToolCall, before: FileState | None) -> Change | None:
    """Return what a call made of its file; None where it only searches."""
    names = call.arguments.keys()
    if names & _PIECE:
        return "created" if before and before.change == "created" else "edited"
    if names & _WHOLE_TEXT:
        return "edited" if before and before.change != "created" else "created"
    if names & _SEARCH:
        return None
    return before.change if before else "read"


def _on_disk(file: FileState, workspace: Workspace, seen: Mapping[str, str | None]) -> FileState:
    """Return the file's state with what the disk says."""
    path = file.path if file.path.startswith("/") else f"{workspace.cwd}/{file.path}"
    if path not in workspace.digests or path not in seen:
        return file
    now = workspace.digests[path]
    return FileState(file.path, "deleted" if now is None else file.change, file.seq, now != seen[path])


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
