"""Lists what has happened since a summary was written. The model reads the list after
the summary.

A summary that is prepared in the background is used later. By then, its next step may
be done, and the model would repeat it. So this module finds in the log which requests
were answered, which steps of the plan are done, which files were changed, which
commands ran, and which values were replaced. The messages themselves stay in the
conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.excerpts.inventory import read_inventory
from acp_agent.compaction.state import ConversationState
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    JsonObject,
    JsonValue,
    RecipePrompt,
    Text,
    ToolResult,
    UserMessage,
)
from acp_agent.frozen import frozen

MOST_TOKENS = 1_000
"""Maximum size of the whole text."""
LINES = (8, 4, 2, 1)
"""Maximum numbers of lines below each heading. The first one with which the text fits
is used. The newest lines are listed, and the others are only counted.
"""
MOST_CHARACTERS = 120
"""Maximum length of a line."""
_SEARCHED = 20_000
"""Number of characters of a text that are searched for values."""
_MOST_PAIRS = 1_000
_RUN = re.compile(r"[\w./@%+~-]++")
_PUNCTUATION = "./@%+~-"
_PAIR = re.compile(
    r"(?<![\w.-])([A-Za-z_][\w.-]{1,40})[`'\"]?[ \t]*(?::=|=|:)[ \t]*[`'\"]?(-?[\w.@%+~-][\w./@%+~-]*)"
)
_WORDS = ("true", "false", "on", "off", "yes", "no")
"""Words that count as values."""
_OLD_TEXTS = ("old_string", "old_str", "old_text", "oldText", "oldString")
_NEW_TEXTS = ("new_string", "new_str", "new_text", "newText", "newString")
"""Argument names for the text before and after an edit, in the edit tools of this agent
and of MCP servers.
"""
_UNDONE = "The user took back"
"""The first words of the note about edits that the user undid."""


def since(before: ConversationState, now: ConversationState, summary: str) -> str:
    """Return what has happened since a summary was written, or an empty string if the
    summary is still correct.

    :param before: the conversation that was summarised.
    :param now: the same conversation now.
    """
    last = max((entry.seq for entry in before.entries), default=0)
    entries = [entry for entry in now.entries if entry.seq > last and not entry.summary]
    inventory = read_inventory(entries, now.workspace)
    undone = list(_undone(entries))
    changed = [
        (seq, f"{change} {path}")
        for path, (seq, change) in inventory.files.items()
        if change != "read"
        and not any(at > seq and path.endswith(name) for at, name in undone)
    ]
    sections = {
        "Requests that were answered": _numbered(_answered(before, now, last)),
        "Steps of the plan that are done": _done(before.plan, now.plan),
        "Files that were changed": _numbered(changed),
        "Files whose changes the user took back": _numbered(undone),
        "Commands that ran": _numbered(
            (seq, _command(line, outcome)) for line, seq, outcome in inventory.commands
        ),
        "Calls that failed": _numbered(inventory.failures),
        "Values that were replaced": _replaced(entries, summary),
        "Repository": _moved(before, now),
    }
    text = ""
    for most in LINES:
        text = "\n".join(
            _section(heading, lines, most)
            for heading, lines in sections.items()
            if lines
        )
        if estimate_text(text) <= MOST_TOKENS:
            break
    return text


def _section(heading: str, lines: Sequence[str], most: int) -> str:
    newest = [f"- {_one_line(line)}" for line in lines[-most:]]
    earlier = len(lines) - len(newest)
    counted = f" (the newest of {len(lines)})" if earlier else ""
    return "\n".join((f"{heading}{counted}:", *newest))


def _numbered(items: Iterable[tuple[int, str]]) -> list[str]:
    return [f"[#{seq}] {text}" for seq, text in sorted(items)]


def _command(line: str, outcome: str) -> str:
    return f"{line} → {outcome}" if outcome else line


def _answered(
    before: ConversationState, now: ConversationState, last: int
) -> list[tuple[int, str]]:
    """Return the prompts that have been answered since the summary, each with its
    number and first words.

    :param last: sequence number of the last summarised entry.
    """
    first = last + 1 if before.turn_from is None else before.turn_from
    waiting: list[Entry] = []
    answered: list[tuple[int, str]] = []
    for entry in now.entries:
        message = entry.message
        if entry.seq < first or entry.summary or entry.note:
            continue
        if isinstance(message, UserMessage):
            waiting.append(entry)
        elif (
            isinstance(message, AssistantMessage)
            and message.stop_reason == "end_turn"
            and not message.tool_calls
        ):
            answered += [
                (prompt.seq, f"“{_words_of(prompt)}”")
                for prompt in waiting
                if prompt.seq != now.turn_from
            ]
            waiting = [prompt for prompt in waiting if prompt.seq == now.turn_from]
    return answered


def _words_of(prompt: Entry) -> str:
    message = prompt.message
    parts = message.typed if isinstance(message, RecipePrompt) else message.parts
    return _one_line(" ".join(part.text for part in parts if isinstance(part, Text)))


def _done(before: Sequence[PlanEntry], now: Sequence[PlanEntry]) -> list[str]:
    """Return the steps of the plan that were completed or dropped since the summary."""
    known = {entry.content: entry.status for entry in before}
    ended = [entry for entry in now if entry.status in ("completed", "cancelled")]
    new = [entry for entry in ended if known.get(entry.content) != entry.status]
    return [
        f"{entry.content} (dropped)" if entry.status == "cancelled" else entry.content
        for entry in new
    ]


def _undone(entries: Iterable[Entry]) -> Iterator[tuple[int, str]]:
    """Yield the files whose edits the user has undone, each with the number of the note
    that reports it.
    """
    for entry in entries:
        if _is_undo(entry):
            for line in _text(entry).splitlines():
                if line.startswith("- `"):
                    yield entry.seq, line[3:].partition("`")[0]


def _is_undo(entry: Entry) -> bool:
    return entry.note and _text(entry).startswith(_UNDONE)


def _text(entry: Entry) -> str:
    return "\n".join(
        part.text for part in entry.message.parts if isinstance(part, Text)
    )


# --- values ---


@frozen
class _Value:
    """The replacement of a value.

    :ivar seq: number of the entry that replaced the value.
    :ivar of: the name of the value, or of the file in which the value was edited.
    :ivar now: the new value.
    """

    seq: int
    of: str
    now: str


def _replaced(entries: Sequence[Entry], summary: str) -> list[str]:
    """Return a line for each value in the summary that an edit or a prompt of the user
    has replaced.
    """
    stated = _pairs(summary)
    words = {*_tokens(summary)}
    failed = {
        entry.message.call_id
        for entry in entries
        if isinstance(entry.message, ToolResult) and entry.message.is_error
    }
    values: dict[str, _Value] = {}
    for entry in entries:
        if _is_undo(entry):
            values.clear()
        for path, old, new in _edited_words(entry, failed):
            for value, found in [*values.items()]:
                if found.now == old:
                    values[value] = _Value(entry.seq, path, new)
            if old in words:
                values[old] = _Value(entry.seq, path, new)
        if isinstance(entry.message, UserMessage) and not entry.note:
            for name, said in _pairs(_text(entry)).items():
                for old in stated.get(name, ()):
                    if said[-1] not in stated[name]:
                        values[old] = _Value(entry.seq, name, said[-1])
    return _numbered(
        (found.seq, f"{found.of}: {old} is {found.now} now")
        for old, found in values.items()
        if old != found.now
    )


def _edited_words(entry: Entry, failed: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield single words that edits have replaced, as file name, old word and new word.

    :param failed: ids of failed calls.
    """
    calls = (
        entry.message.tool_calls if isinstance(entry.message, AssistantMessage) else ()
    )
    for call in calls:
        if call.id in failed:
            continue
        path = str(
            call.arguments.get("path") or call.arguments.get("file_path") or call.name
        )
        for old_text, new_text in _edits(call.arguments):
            old_lines = old_text[:_SEARCHED].splitlines()
            new_lines = new_text[:_SEARCHED].splitlines()
            if len(old_lines) != len(new_lines):
                continue
            for old_line, new_line in zip(old_lines, new_lines, strict=True):
                old = _tokens(old_line)
                new = _tokens(new_line)
                pairs = [
                    pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]
                ]
                if len(old) == len(new) and len(pairs) == 1:
                    yield (path.rpartition("/")[2], *pairs[0])


def _tokens(text: str) -> list[str]:
    """Return the words, numbers and paths of a text, without the punctuation at their
    ends.
    """
    runs = (run.rstrip(_PUNCTUATION) for run in _RUN.findall(text))
    return [run for run in runs if run]


def _edits(arguments: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the old and new text of each edit in a call's arguments."""
    more: JsonValue = arguments.get("edits")
    for each in (arguments, *(more if isinstance(more, list) else ())):
        if isinstance(each, dict):
            old = next((each[key] for key in _OLD_TEXTS if key in each), None)
            new = next((each[key] for key in _NEW_TEXTS if key in each), None)
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


def _pairs(text: str) -> dict[str, list[str]]:
    """Return the values that a text assigns to names, as in `timeout = 30` or `PORT:
    8080`, by lower-case name.
    """
    found: dict[str, list[str]] = {}
    for match in islice(_PAIR.finditer(text[:_SEARCHED]), _MOST_PAIRS):
        value = match[2].rstrip(".")
        if (
            any(character.isdigit() for character in value)
            or value.lower() in _WORDS
            or "/" in value
            or "_" in value
        ):
            found.setdefault(match[1].lower(), []).append(value)
    return found


def _moved(before: ConversationState, now: ConversationState) -> list[str]:
    """Return a line with the branch and the commit if either has changed."""
    old = before.workspace
    new = now.workspace
    if not new.head or (old.branch, old.head) == (new.branch, new.head):
        return []
    return [
        f"branch {new.branch or '(none)'} at {new.head}; it was {old.branch or '(none)'} at {old.head or '(none)'}"
    ]


def _one_line(text: str) -> str:
    line = " ".join(text[: 20 * MOST_CHARACTERS].split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"
