"""The `recall` tool: searches and reads entries that are no longer in the context, through the `Archive`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import Field

from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextSwapped,
    Event,
    NoteAdded,
    TextPinned,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantPart,
    Audio,
    Image,
    JsonObject,
    JsonValue,
    Resource,
    ResourceLink,
    Text,
    ToolCall,
)
from acp_agent.errors import ToolError
from acp_agent.storage.store import Found
from acp_agent.tools.arguments import Arguments, BuiltIn, text_argument
from acp_agent.tools.environment import Archive, Environment
from acp_agent.tools.text import clean, counted, fitting, one_line
from acp_agent.tools.tool import Access, Outcome, PreparedCall, Report

_MAX_HITS = 10
MAX_LINES = 2000
MAX_CHARACTERS = 50_000
MAX_LINE = 2000


class _RecallArguments(Arguments):
    query: str | None = Field(
        None, min_length=1, max_length=1000, description='Words to look for; "in quotes" as a phrase.'
    )
    entry: int | None = Field(None, ge=1, description="Number of an entry to read.")
    offset: int = Field(1, ge=1, description="First line of the entry to read, from 1.")
    limit: int = Field(MAX_LINES, ge=1, description="How many lines at most.")


class RecallTool(BuiltIn):
    """Finds and shows entries of the session's log."""

    name = "recall"
    description = (
        "Search and read, word for word, what was said and returned earlier in this session and then compacted away. "
        "`query` searches and answers with the numbers of entries; `entry` reads one of them, or one that a summary "
        "cites: [#12] is entry 12. At most "
        f"{MAX_LINES} lines or {MAX_CHARACTERS // 1000} KB come at once; read on with `offset`."
    )
    arguments = _RecallArguments

    def preview(self, arguments: JsonObject) -> CallView:
        """Title and kind for the announcement."""
        entry = arguments.get("entry")
        return _view(entry if isinstance(entry, int) else None, text_argument(arguments, "query"))

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Check that there is something to look for, and something to look in; see `Tool.prepare`."""
        asked = _RecallArguments.read(self.name, arguments)
        archive = environment.archive
        if archive is None:
            raise ToolError("recall: no log is kept of this conversation, so there is nothing to recall.")
        if asked.entry is None and asked.query is None:
            raise ToolError("recall: give `query` to search, or `entry` to read one.")
        view = _view(asked.entry, asked.query or "")

        async def run(report: Report) -> Outcome:
            del report
            text = await (_found(asked, archive) if asked.entry is None else _read(asked, asked.entry, archive))
            return Outcome((Text(text),), view)

        return PreparedCall(view, Access("none"), run)


def _view(entry: int | None, query: str) -> CallView:
    what = f"Recall entry {entry}" if entry is not None else f"Recall {query}".rstrip()
    return CallView(one_line(what), "search")


async def _found(asked: _RecallArguments, archive: Archive) -> str:
    query = asked.query or ""
    hits = await archive.search(query, _MAX_HITS)
    if not hits:
        return (
            f"No earlier message that left your context holds {one_line(query)}. Try fewer or other words: a name, a "
            "path, or a piece of an error message as it stood there."
        )
    lines = [f"#{hit.seq} {_when(hit.at)} {_whose(hit)}: {one_line(hit.snippet, 300)}" for hit in hits]
    more = " or more; other words narrow it down" if len(hits) == _MAX_HITS else ""
    return "\n".join((f"{counted(len(hits), 'entry')}{more}, best first; read one with `entry`:", *lines))


def _whose(hit: Found) -> str:
    match hit.role:
        case "assistant":
            return "you"
        case "tool":
            return f"result of {one_line(hit.title, 80)}"
        case role:
            return role


async def _read(asked: _RecallArguments, number: int, archive: Archive) -> str:
    around = _around(*await archive.neighbours(number))
    entries = await archive.read((number,))
    if not entries:
        raise ToolError(f"recall: there is no entry {number}. {around}")
    (logged,) = entries
    content = _content(logged.event)
    if content is None:
        raise ToolError(f"recall: entry {number} is no message. {around}")
    what, pieces = content
    lines = [line for piece in pieces for line in _lines(piece)]
    heading = f"Entry {number}, {_when(logged.at)}, {what}"
    if not lines:
        return f"{heading}: it is empty. {around}"
    first = asked.offset
    if first > len(lines):
        raise ToolError(f"recall: entry {number} has only {counted(len(lines), 'line')}; there is no line {first}.")
    page = fitting(lines[first - 1 : first - 1 + min(asked.limit, MAX_LINES)], MAX_CHARACTERS)
    last = first + len(page) - 1
    if first > 1 or last < len(lines):
        heading += f", lines {first} to {last} of {len(lines)}"
    if last < len(lines):
        heading += f" (read on with offset {last + 1})"
    return "\n".join((f"{heading}. {around}", "", *page))


def _around(before: int | None, after: int | None) -> str:
    places = [f"{side} #{seq}" for side, seq in (("before it", before), ("after it", after)) if seq is not None]
    return f"Messages {' and '.join(places)}." if places else "There are no other messages."


def _content(event: Event) -> tuple[str, list[str]] | None:
    """Return what an entry is, and its whole text in pieces that begin on a new line each; None where it is no
    message."""
    match event:
        case UserPrompted(sent=()):
            return "a command of the user, which you were not shown", [*map(_part, event.shown)]
        case UserPrompted():
            sent = ["[sent to you as:]", *map(_part, event.sent)] if event.sent else []
            return "message of the user", [*map(_part, event.shown), *sent]
        case TextPinned():
            return "text that the user pinned", [event.text]
        case AssistantAnswered():
            return "your answer", [piece for part in event.message.parts for piece in _answer_part(part)]
        case ToolReturned():
            failed = ", which failed" if event.result.is_error else ""
            return f"result of {one_line(event.view.title)}{failed}", [*map(_part, event.result.parts)]
        case NoteAdded():
            return "note to the user, which you were not shown", [event.text]
        case ContextSwapped() if event.summary:
            return "summary of what was before it", [event.summary]
        case _:
            return None


def _part(part: object) -> str:
    match part:
        case Text():
            return part.text
        case ResourceLink():
            return f"[link to {part.name}: {part.uri}]"
        case Resource():
            return f"[{part.uri}]\n{part.text or '(no text)'}"
        case Audio():
            return "[sound]"
        case Image():
            return f"[image {part.uri}]" if part.uri else "[image]"
        case _:
            return ""


def _answer_part(part: AssistantPart) -> Iterator[str]:
    if isinstance(part, Text):
        yield part.text
    elif isinstance(part, ToolCall):
        yield f"[call of {part.name}]"
        if part.invalid is not None:
            yield part.invalid
        for name, value in part.arguments.items():
            yield f"{name}: {_value(value)}"


def _value(value: JsonValue) -> str:
    if isinstance(value, str):
        return f"\n{value}" if "\n" in value else value
    return json.dumps(value, ensure_ascii=False)


def _lines(piece: str) -> Iterator[str]:
    """Yield the lines of a text; one that is too long for a page goes on in further ones."""
    lines = piece.split("\n")
    if not lines[-1]:
        lines.pop()
    for line in lines:
        plain = clean(line.removesuffix("\r"))
        yield plain[:MAX_LINE]
        for start in range(MAX_LINE, len(plain), MAX_LINE):
            yield plain[start : start + MAX_LINE]


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
