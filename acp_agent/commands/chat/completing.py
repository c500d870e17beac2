"""What may be meant by what has been typed so far: slash commands, and paths of the project.

Paths that git ignores are left out, and hidden ones that nobody has begun to name. Knows nothing of keys and menus.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.walk import Found, Walk
from acp_agent.turn.updates import Command

MOST = 200
"""Paths that are offered."""

_COMMAND = re.compile(r"/\S*\Z")
_MENTION = re.compile(r'(?:(?<=\s)|^)@(?P<quote>")?(?P<path>(?(quote)[^"\n]*|[^\s"]*))\Z')
_WORD = re.compile(r"[^\s\"'`(]+\Z")


@frozen
class Candidate:
    """One of the possible texts.

    :ivar text: what takes the place of what has been typed.
    :ivar length: characters before the cursor whose place it takes.
    :ivar shown: in a menu.
    :ivar about: what it is, in a few words.
    """

    text: str
    length: int
    shown: str
    about: str = ""


@frozen
class PathBegun:
    """The beginning of a path.

    :ivar typed: what has been typed of it, with the mark of a mention.
    :ivar folder: its directory as it was typed, with a slash at its end, or empty.
    :ivar name: what has been typed of its name.
    :ivar mention: whether `@` stands before it.
    """

    typed: str
    folder: str
    name: str
    mention: bool


def commands_for(before: str, commands: Sequence[Command]) -> list[Candidate]:
    """The slash commands that may be meant.

    :param before: all that stands before the cursor.
    """
    if not _COMMAND.match(before):
        return []
    typed = before[1:]
    first = [command for command in commands if command.name.startswith(typed)]
    others = [command for command in commands if typed in command.name[1:] and command not in first]
    return [
        Candidate(f"/{command.name}", len(before), f"/{command.name}{f' [{command.hint}]' if command.hint else ''}",
                  command.description)
        for command in (*first, *others)
    ]  # fmt: skip


def path_begun(before: str, *, asked: bool) -> PathBegun | None:
    """The path that may be meant.

    :param before: all that stands before the cursor.
    :param asked: whether the person wants to know; otherwise only a mention is one.
    """
    found = _MENTION.search(before)
    if found is not None:
        folder, slash, name = found["path"].rpartition("/")
        return PathBegun(found[0], folder + slash, name, mention=True)
    word = _WORD.search(before) if asked else None
    if word is None:
        return None
    folder, slash, name = word[0].rpartition("/")
    return PathBegun(word[0], folder + slash, name, mention=False)


def paths_for(begun: PathBegun, cwd: Path) -> list[Candidate]:
    """The paths that may be meant; reads a directory, so call it in a worker thread of anyio only.

    :param cwd: absolute path that others are relative to.
    """
    try:
        base = cwd / Path(begun.folder).expanduser()
        found = list(islice((each for each in Walk(base, depth=1) if _fits(each, begun.name)), MOST))
    except (ToolError, OSError, RuntimeError, ValueError):
        return []
    candidates: list[Candidate] = []
    for each in found:
        # A folder that is linked to is one for whoever types.
        name = f"{each.path.name}/" if each.is_directory or each.path.is_dir() else each.path.name
        candidates.append(Candidate(_written(begun, f"{begun.folder}{name}"), len(begun.typed), name))
    return sorted(candidates, key=lambda candidate: (not candidate.shown.endswith("/"), candidate.shown))


def _fits(found: Found, begun: str) -> bool:
    name = found.path.name
    if name.startswith(".") and not begun.startswith("."):
        return False
    if begun == begun.lower():
        name = name.lower()
    return name.startswith(begun) and name.isprintable()


def _written(begun: PathBegun, path: str) -> str:
    """A path as it is typed: a mention with a space in it stands in quotes, which a folder leaves open."""
    if not begun.mention:
        return path
    if " " not in path and not begun.typed.startswith('@"'):
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'
