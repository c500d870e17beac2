"""The `recall` tool: searches and reads log entries that are no longer in the context,
through the `Archive`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import Field

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.errors import ToolError
from acp_agent.storage.search import FoundMessage, Neighbour
from acp_agent.storage.texts import Role, role_of, searchable_text, title_of
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Archive, Environment, Report
from acp_agent.tools.text import (
    MAX_CHARACTERS,
    MAX_LINE,
    MAX_LINES,
    clean,
    counted,
    fitting,
    one_line,
    page_of,
)
from acp_agent.tools.tool import Access, CallResult, PreparedCall

_MAX_HITS = 10


class _Recall(Arguments):
    query: str = Field(
        "",
        min_length=1,
        max_length=1000,
        description='A question or words; a phrase "in quotes".',
    )
    entry: int = Field(0, ge=1)
    offset: int = Field(1, ge=1)
    limit: int = Field(MAX_LINES, ge=1)


def _title(arguments: JsonObject) -> str:
    entry = arguments.get("entry")
    return (
        f"Recall entry {entry}"
        if isinstance(entry, int)
        else titled("Recall", "query")(arguments)
    )


async def _prepare(asked: _Recall, environment: Environment) -> PreparedCall:
    archive = environment.archive
    if archive is None:
        raise ToolError(
            "recall: this conversation has no log, so there is nothing to recall."
        )
    if not asked.entry and not asked.query:
        raise ToolError("recall: give `query` to search, or `entry` to read one.")
    view = CallView(_title(asked.model_dump(exclude_unset=True)), "search")

    async def run(report: Report) -> CallResult:
        return CallResult(
            (Text(await (_read if asked.entry else _found)(asked, archive)),), view
        )

    return PreparedCall(view, Access("none"), run)


async def _found(asked: _Recall, archive: Archive) -> str:
    hits = await archive.search(asked.query, _MAX_HITS)
    if not hits:
        return (
            f"No earlier message outside your context contains {one_line(asked.query)}. Try fewer or other words: a "
            "name, a path, or the exact words of an error message."
        )
    lines = [line for hit in hits for line in _shown(hit)]
    more = " or more; add words to narrow the search" if len(hits) == _MAX_HITS else ""
    return "\n".join(
        (
            f"{counted(len(hits), 'entry')}{more}, best first; read one with `entry`:",
            *lines,
        )
    )


def _shown(hit: FoundMessage) -> Iterator[str]:
    yield f"#{hit.seq} {_when(hit.at)} {_whose(hit.role, hit.title)}: {one_line(hit.snippet, 300)}"
    if hit.before is not None:
        yield f"  before it {_beside(hit.before)}"
    if hit.after is not None:
        yield f"  after it {_beside(hit.after)}"


def _beside(neighbour: Neighbour) -> str:
    return f"#{neighbour.seq} {_whose(neighbour.role, neighbour.title)}: {one_line(neighbour.line, 150)}"


def _whose(role: Role, title: str) -> str:
    return {"assistant": "you", "tool": f"result of {one_line(title, 80)}"}.get(
        role, role
    )


async def _read(asked: _Recall, archive: Archive) -> str:
    number = asked.entry
    entries = await archive.read((number,))
    if not entries:
        raise ToolError(f"recall: there is no entry {number}.")
    (logged,) = entries
    text = searchable_text(logged.event)
    lines = list(_lines(text))
    if not text:
        raise ToolError(f"recall: entry {number} has no text.")
    first = asked.offset
    page = fitting(
        page_of(lines, first, asked.limit, f"recall: entry {number}"), MAX_CHARACTERS
    )
    whose = _whose(role_of(logged.event), title_of(logged.event))
    heading = f"Entry {number}, {_when(logged.at)}, {whose}"
    last = first + len(page) - 1
    if first > 1 or last < len(lines):
        heading += f", lines {first} to {last} of {len(lines)}"
    if last < len(lines):
        heading += f" (read on with offset {last + 1})"
    return "\n".join((f"{heading}.", "", *page))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, splitting lines that are longer than `MAX_LINE`."""
    for line in clean(text.replace("\r\n", "\n").removesuffix("\n")).split("\n"):
        for start in range(0, len(line) or 1, MAX_LINE):
            yield line[start : start + MAX_LINE]


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


RECALL = BuiltIn(
    "recall",
    "Search or read the original messages and tool results of this session that a compaction has removed from your "
    "context. Use it before you ask the user again, repeat work, or guess. `query` takes a question, identifier, path "
    "or error message and finds entries; `entry` reads one by its number, which a summary cites as [#12]. `offset` and "
    "`limit` are as in `read`.",
    _Recall,
    _prepare,
    title=_title,
    kind="search",
)
