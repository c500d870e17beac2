"""The `glob` tool: files by name."""

from __future__ import annotations

import heapq
from pathlib import Path

from pydantic import Field

from acp_agent.nofollow import status_of
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import Target, shown
from acp_agent.tools.search.named import NamedFiles
from acp_agent.tools.search.wildcards import matcher
from acp_agent.tools.text import counted, fitting
from acp_agent.tools.tool import PreparedCall

MAX_FILES = 200
MAX_CHARACTERS = 30_000


class _Glob(Arguments):
    pattern: str = Field(
        description="Such as `*.py` (at any depth), `src/**/*.{ts,tsx}`."
    )
    path: str = Field(".", description="The pattern is relative to it.")


async def _prepare(asked: _Glob, environment: Environment) -> PreparedCall:
    target = Target.of(asked.path, environment)
    matches = matcher(asked.pattern, target.path)
    named = NamedFiles(target, matches, with_links=True)
    words = f"Find {asked.pattern}{target.where}"
    sought = f"files named {asked.pattern}"
    return target.search("glob", words, "search", lambda: _found(named), sought)


def _found(named: NamedFiles) -> str:
    named.find()
    target = named.target
    found = named.files
    newest = heapq.nsmallest(
        MAX_FILES, found, key=lambda path: (-_changed(target.real_of(path)), path)
    )
    lines = fitting(
        (shown(path, target.environment.cwd) for path in newest), MAX_CHARACTERS
    )
    if not found:
        lines.append("No file matches.")
    if len(lines) < len(found):
        total = counted(len(found), "file")
        lines.append(
            f"({len(lines)} of {total}; narrow the pattern or the directory for the rest)"
        )
    lines += (f"({note})" for note in named.notes)
    if named.cut:
        lines.append(f"(the search stopped {named.cut}; search a subdirectory)")
    return "\n".join(lines)


def _changed(real: Path) -> float:
    try:
        return status_of(real).st_mtime
    except OSError:
        return 0.0


GLOB = BuiltIn(
    "glob",
    f"Find files by name, most recently changed first, at most {MAX_FILES}. Skips files that git ignores.",
    _Glob,
    _prepare,
    title=titled("Find", "pattern"),
    kind="search",
)
