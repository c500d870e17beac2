"""Lists the paths that git runs or obeys in a git directory: one table for all code
that closes, checks or changes such a directory.

- `settings`: lines of the file name programs and other files. A command may not write
  to it.
- `lookup`: names another directory that git reads instead. A command may not write to
  it.
- `hooks`: a folder of programs. A command may not write to it.
- `remote`: a folder of remotes in the format of old git versions, with one file each. A
  command may not add one.
- `unfinished`: the state of an operation that continues later. It may contain command
  lines, options that name programs or files, or the name of a commit that git applies
  to the work tree at the end. A command may leave such an operation behind, but files
  with such contents are renamed.

Git also writes through links at the top of a git directory, in its logs, and in the
state of an unfinished operation.

Source: gitrepository-layout(5); git-rebase(1), "INTERACTIVE MODE" and `--autostash`;
git-merge(1), `--autostash`; githooks(5); git's sequencer.c (`apply_autostash_ref`),
builtin/am.c and remote.c (`read_remotes_file`, `read_branches_file`);
git-bisect.sh before git 2.30, which evaluates `BISECT_NAMES`
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen
from acp_agent.regular import open_regular
from acp_agent.sandbox.config_syntax import settings_in
from acp_agent.sandbox.listing import entries, open_up

_MOST_BYTES = 1024 * 1024
_MOST_ENTRIES = 5_000
"""Maximum number of entries of a git directory that are checked for links."""

_EXEC = re.compile(rb"^[ \t]*(?:exec|x)[ \t]+(.+)$", re.MULTILINE)
_STRATEGIES = frozenset(
    (b"", b"ort", b"recursive", b"resolve", b"octopus", b"ours", b"subtree")
)
"""Strategies that are part of git. For any other, git runs a program named
`git-merge-STRATEGY`.
"""
_SIGNING_OPTION = re.compile(rb"(?:-S[^\0\n]*)?")
_STRATEGY_OPTIONS = re.compile(
    rb"""[ \t\n\r]*+(?:['"]?(?:--)?[a-z][a-z-]*+(?:=[^'"\\\0]*+)?['"]?[ \t\n\r]*+)*+"""
)
"""Options of git's own strategies, such as `--theirs` or `--subtree=folder`, in the way
`git rebase` quotes them.
"""
_QUOTED = re.compile(rb"(?:[ \t\n]*'(?:[^']|'\\[!']')*')*[ \t\n]*")
"""Matches words quoted by git's `sq_quote`."""
_OF_APPLY = re.compile(
    rb"(?:[ \t\n]*'(?:-C\d+|-p\d+|--whitespace=[a-z-]+|--ignore-space-change|--ignore-whitespace|--reject"
    rb"|--(?:directory|exclude|include)=(?:[^']|'\\[!']')*)')*[ \t\n]*"
)
"""The options that `git am` passes on to `git apply`, except for options that name
further files.
"""

How: TypeAlias = Literal["settings", "lookup", "hooks", "remote", "unfinished"]
Part: TypeAlias = tuple[str, ...]
"""The parts of a path inside a git directory."""
State: TypeAlias = frozenset[tuple[Part, bytes]]
"""What git would run in a git directory, as pairs of a path and what that path makes
git run.
"""


@frozen
class Obeyed:
    """One row of the table.

    :ivar path: relative to a git directory.
    :ivar everywhere: whether the path is closed in every git directory. The other paths
        are not closed in submodules and nested repositories: there may be hundreds of
        these, and each closed path is a mount.
    """

    path: str
    how: How
    everywhere: bool = True


TABLE = (
    Obeyed("config", "settings"),
    Obeyed("config.worktree", "settings"),
    Obeyed("commondir", "lookup"),
    Obeyed("objects/info/alternates", "lookup", everywhere=False),
    Obeyed("hooks", "hooks"),
    Obeyed("info", "settings", everywhere=False),
    Obeyed("remotes", "remote"),
    Obeyed("branches", "remote"),
    Obeyed("rebase-merge", "unfinished"),
    Obeyed("rebase-apply", "unfinished"),
    Obeyed("rebase-merge/autostash", "unfinished"),
    Obeyed("rebase-apply/autostash", "unfinished"),
    Obeyed("MERGE_AUTOSTASH", "unfinished"),
    Obeyed("CHECKOUT_AUTOSTASH_HEAD", "unfinished"),
    Obeyed("sequencer", "unfinished"),
    Obeyed("BISECT_NAMES", "unfinished"),
)
FOLDERS = frozenset(("hooks", "info"))
"""The closed paths that are folders."""
OF_A_WORKTREE = ("config.worktree", "commondir")
"""The closed paths in the git directory of a linked worktree, which has no settings or
hooks of its own.
"""
_UNFINISHED = tuple(row.path for row in TABLE if row.how == "unfinished")
_REMOTES = tuple(row.path for row in TABLE if row.how == "remote")


def closed_names(*, wholly: bool) -> tuple[str, ...]:
    """Return the paths in a git directory that commands may not write to.

    :param wholly: whether to include paths that are not closed everywhere.
    """
    rows = (row for row in TABLE if row.how in ("settings", "lookup", "hooks"))
    return tuple(row.path for row in rows if wholly or row.everywhere)


def state_of(git: Path) -> State:
    """Return what git would run in a git directory, apart from its hooks and the
    programs that its settings name.
    """
    found: set[tuple[Part, bytes]] = set()
    open_up(git)
    for name, commands_in in _COMMANDS.items():
        if os.path.lexists(f"{git}/{name}"):  # true for few directories
            open_up(git / name)
            path = tuple(name.split("/"))
            found.update((path, what) for what in commands_in(git / name))
    for name in _REMOTES:
        found.update(
            ((name, each.name), _digest(Path(each))) for each in entries(git / name)
        )
    return frozenset(found)


def links_in(git: Path, since: int) -> Iterator[Part]:
    """Yield the links through which git would write: at the top, in the logs, and in
    unfinished operations.

    :param since: a time in nanoseconds since the epoch. Links that have not changed
        since then are ignored.
    """
    folders: list[tuple[str, Part]] = [(str(git), ())]
    seen = 0
    while folders and seen < _MOST_ENTRIES:
        folder, parts = folders.pop()
        for entry in entries(folder):
            seen += 1
            with suppress(OSError):  # the entry has changed in the meantime
                if entry.is_symlink():
                    if entry.stat(follow_symlinks=False).st_ctime_ns >= since:
                        yield (*parts, entry.name)
                elif (parts or entry.name in ("logs", *_UNFINISHED)) and entry.is_dir(
                    follow_symlinks=False
                ):
                    folders.append((entry.path, (*parts, entry.name)))


def _of_rebase(folder: Path) -> Iterator[bytes]:
    yield from (
        found.strip() for found in _EXEC.findall(_content(folder / "git-rebase-todo"))
    )
    yield from _of_options(folder)
    yield from _unread(folder / "git-rebase-todo")


def _of_patches(folder: Path) -> Iterator[bytes]:
    options = _content(folder / "apply-opt")
    if not _OF_APPLY.fullmatch(options):
        yield b"options " + options
    yield from _of_options(folder)
    yield from _unread(folder / "apply-opt")


def _of_options(folder: Path) -> Iterator[bytes]:
    """Yield the options of a rebase that are not git's own."""
    strategy = _without_line_end(_content(folder / "strategy"))
    if strategy not in _STRATEGIES:
        yield b"strategy " + strategy
    options = _content(folder / "strategy_opts")
    if not _STRATEGY_OPTIONS.fullmatch(options):
        yield b"strategy options " + options
    signing = _without_line_end(_content(folder / "gpg_sign_opt"))
    if not _SIGNING_OPTION.fullmatch(signing):
        yield b"signing option " + signing


def _of_picks(folder: Path) -> Iterator[bytes]:
    try:
        for name, value in settings_in(_content(folder / "opts")):
            option = name.rpartition(b".")[2]
            if option == b"strategy" and value not in _STRATEGIES:
                yield b"strategy " + (value or b"")
            elif option == b"strategy-option" and not _STRATEGY_OPTIONS.fullmatch(
                value or b""
            ):
                yield b"strategy option " + (value or b"")
    except ValueError as error:  # another git version may continue reading
        yield b"options that git does not write: " + str(error).encode()
    yield from _unread(folder / "opts")


def _of_bisection(file: Path) -> Iterator[bytes]:
    names = _content(file)
    if not _QUOTED.fullmatch(names):
        yield b"names " + names
    yield from _unread(file)


def _of_stash(file: Path) -> Iterator[bytes]:
    """Yield the commit that git applies to the work tree with the user's next commit,
    or when the operation ends or is aborted.
    """
    yield b"stash " + _content(file)


_COMMANDS: dict[str, Callable[[Path], Iterator[bytes]]] = {
    "rebase-merge": _of_rebase,
    "rebase-apply": _of_patches,
    "sequencer": _of_picks,
    "BISECT_NAMES": _of_bisection,
    "rebase-merge/autostash": _of_stash,
    "rebase-apply/autostash": _of_stash,
    "MERGE_AUTOSTASH": _of_stash,
    "CHECKOUT_AUTOSTASH_HEAD": _of_stash,
}


def _without_line_end(text: bytes) -> bytes:
    """Return a text without its line end, as git reads one-line files. Blanks are not
    stripped.
    """
    return (
        text.removesuffix(b"\n").removesuffix(b"\r") if text.endswith(b"\n") else text
    )


def _unread(file: Path) -> Iterator[bytes]:
    with suppress(OSError):
        if file.lstat().st_size > _MOST_BYTES:
            yield b"what is behind the part that is read"


def _digest(file: Path) -> bytes:
    import hashlib  # not loaded at startup

    return hashlib.sha256(_content(file)).hexdigest().encode()


def _content(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            return opened.read(_MOST_BYTES)
    except (OSError, ValueError):
        return b""
