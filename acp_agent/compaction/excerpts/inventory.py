"""The inventory of a conversation: files and what was done to them, commands with their
last result, branch and commit.

Calls are recognised by the names of their arguments, since most agents use the same
argument names but different tool names.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Literal, TypeAlias

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN
from acp_agent.compaction.state import Workspace
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    JsonValue,
    ToolCall,
    ToolResult,
)
from acp_agent.frozen import frozen

Change: TypeAlias = Literal["read", "created", "edited"]

LONGEST_COMMAND = 160
LONGEST_RESULT = 100

_COMMAND = ("command", "cmd", "script")
_PATH = ("path", "file_path", "filePath", "filename", "notebook_path")
_SEARCH = frozenset(("pattern", "query", "glob", "regex"))
_WHOLE_TEXT = frozenset(("content", "contents", "file_text"))
_PIECE = frozenset(
    (
        "old_string",
        "old_str",
        "old_text",
        "edits",
        "insert_line",
        "new_str",
        "new_string",
        "new_source",
    )
)
_PIPES = frozenset("|<>")
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*['\"]?(\w+)")
_STATUS = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: status| code)?|return ?code)\W{0,3}(-?\d{1,5})(?!\d)",
    re.IGNORECASE,
)
_STATUS_MARGIN = 300
"""Number of characters at each end of a result that are searched for an exit status."""
_COUNTS = re.compile(
    r"\b\d+[ \t]+(?:tests?|passed|failed|passing|failing|failures?|errors?|skipped|xfailed|assertions?|ok)\b",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(
    r"\b(?:error|\w*Error|\w*Exception|failed|FAILED|fatal|cannot|not found)\b"
)
_LAST_LINES = 60


@frozen
class _Inventory:
    """The files and commands in a conversation, each in the order of their last calls,
    with the sequence number of the call's entry.

    :ivar files: number and change, by path.
    :ivar commands: command line, number and outcome; see `_outcome`.
    :ivar failures: number and description of each failed call on a file, unless a later
        call on the same file succeeded.
    """

    files: dict[str, tuple[int, Change]]
    commands: tuple[tuple[str, int, str], ...]
    failures: tuple[tuple[int, str], ...]
    workspace: Workspace


def read_inventory(entries: Iterable[Entry], workspace: Workspace) -> _Inventory:
    """Return the inventory of a conversation's calls and their results."""
    files: dict[str, tuple[int, Change]] = {}
    commands: dict[str, tuple[str, int, str]] = {}
    failures: dict[str, tuple[int, str]] = {}
    for seq, call, result in _calls(entries):
        path = next(
            (
                value
                for key in _PATH
                if isinstance(value := call.arguments.get(key), str) and value
            ),
            "",
        )
        text = result.text
        failed = result.is_error
        if path:
            failures.pop(path, None)
            if failed:
                first_line = text.strip().partition("\n")[0]
                failures[path] = (
                    seq,
                    _shortened(f"{call.name} of {path}: {first_line}", LONGEST_COMMAND),
                )
            elif change := _change(call, files[path][1] if path in files else None):
                files.pop(path, None)
                files[path] = seq, change
        elif line := command_line(call):
            subject = " ".join(
                word for word in line.split() if not word.startswith("-")
            )
            commands.pop(subject, None)
            commands[subject] = line, seq, _outcome(text, failed)
    return _Inventory(
        files, tuple(commands.values()), tuple(failures.values()), workspace
    )


def render_inventory(
    inventory: _Inventory, max_tokens: int, *, kept: Container[int] = ()
) -> str:
    """Return the inventory as the model reads it. If there is not enough room, commands
    that are less likely to be run again are omitted.

    :param max_tokens: maximum estimated tokens of the returned text.
    :param kept: sequence numbers of entries that stay in the new context. Their
        commands are omitted.
    """
    characters = max_tokens * CHARACTERS_PER_TOKEN
    sections: dict[str, list[tuple[int, str]]] = {}
    for heading, seq, line in _lines(inventory, kept):
        cost = len(line) + 1 + (0 if heading in sections else len(heading) + 2)
        if cost <= characters:
            characters -= cost
            sections.setdefault(heading, []).append((seq, line))
    return "\n".join(
        "\n".join((f"{heading}:", *(line for _, line in sorted(lines))))
        for heading, lines in sections.items()
    )


def command_line(call: ToolCall) -> str:
    """Return the command line of a call, on one line and without here-documents, or an
    empty string if the call has none.
    """
    value: JsonValue = next(
        (call.arguments[key] for key in _COMMAND if key in call.arguments), None
    )
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        value = (
            words[2]
            if len(words) == 3 and words[1] in ("-c", "-lc")
            else " ".join(words)
        )
    if not isinstance(value, str):
        return ""
    lines: list[str] = []
    delimiter = ""
    for line in map(str.strip, value.splitlines()):
        if delimiter:
            delimiter = "" if line == delimiter else delimiter
        elif line:
            lines.append(line)
            here_document = _HERE_DOCUMENT.search(line)
            delimiter = here_document[1] if here_document else ""
    return _shortened("; ".join(lines), LONGEST_COMMAND)


def _lines(
    inventory: _Inventory, kept: Container[int]
) -> Iterator[tuple[str, int, str]]:
    """Yield heading, sequence number and text of each line, the most useful first."""
    branch = inventory.workspace.branch
    head = inventory.workspace.head
    if branch or head:
        yield "Repository", 0, f"branch {branch or '(none)'} at {head or '(no commit)'}"
    for path, (seq, change) in inventory.files.items():
        if change != "read":
            yield "Files", seq, f"[#{seq}] {change} {_shortened(path, LONGEST_COMMAND)}"
    for line, seq, outcome in sorted(
        inventory.commands, key=lambda run: (not _PIPES.isdisjoint(run[0]), len(run[0]))
    ):
        if seq not in kept:
            yield (
                "Commands, last run",
                seq,
                f"[#{seq}] {line}{f' → {outcome}' if outcome else ''}",
            )
    for seq, text in inventory.failures:
        yield "Calls that failed", seq, f"[#{seq}] {text}"


def _calls(entries: Iterable[Entry]) -> Iterator[tuple[int, ToolCall, ToolResult]]:
    """Yield each call that has a result, as sequence number, call and result."""
    pending: dict[str, tuple[int, ToolCall]] = {}
    for entry in entries:
        if isinstance(entry.message, AssistantMessage):
            pending |= {call.id: (entry.seq, call) for call in entry.message.tool_calls}
        elif isinstance(entry.message, ToolResult) and entry.message.call_id in pending:
            yield (*pending.pop(entry.message.call_id), entry.message)


def _change(call: ToolCall, before: Change | None) -> Change | None:
    """Return what has been done to a file, or None if the call only searched it.

    :param before: what earlier calls did to the file.
    """
    names = call.arguments.keys()
    if names & _PIECE:
        return "created" if before == "created" else "edited"
    if names & _WHOLE_TEXT:
        return "created" if before in (None, "created") else "edited"
    return None if names & _SEARCH else before or "read"


def _outcome(text: str, is_error: bool) -> str:
    """Return the outcome of a command: the exit status if it failed, and its last line
    with counts, such as "3 passed". If a failed command printed no counts, its last
    error line is used instead.
    """
    status = _STATUS.search(f"{text[:_STATUS_MARGIN]}\n{text[-_STATUS_MARGIN:]}")
    failed = is_error or bool(status and int(status[1]))
    outcome = [f"exit {status[1]}" if status else "failed"] if failed else []
    lines = text[-LONGEST_RESULT * _LAST_LINES :].splitlines()[-_LAST_LINES:]
    results = [line for line in lines if _COUNTS.search(line)]
    if failed and not results:
        results = [line for line in lines if _ERROR_LINE.search(line)]
    return ": ".join(
        [
            *outcome,
            *(_shortened(line.strip(" \t=-"), LONGEST_RESULT) for line in results[-1:]),
        ]
    )


def _shortened(text: str, limit: int) -> str:
    """Return the text on one line, with single spaces. A line that is longer than the
    limit is cut in the middle.
    """
    line = " ".join(text[: 20 * limit].split())
    return (
        line
        if len(line) <= limit
        else f"{line[: limit - limit // 3 - 3]} … {line[-(limit // 3) :]}"
    )
