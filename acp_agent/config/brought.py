"""What of a project could run: the files of its hooks and recipes, and the commands that its config.yaml names.

Tells whether it is still the same as it was, cheaply by times and sizes, and for certain by digests. Runs nothing, and
decides nothing. The files may be a stranger's, so there are bounds for how many and how large.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from acp_agent.config.home import CLAUDE_FOLDER, PROJECT_FOLDER
from acp_agent.config.settings import HookCommand
from acp_agent.frozen import frozen
from acp_agent.regular import NotRegularError, open_regular

HOOKS = "hooks"
PARTS = {PROJECT_FOLDER: (HOOKS, "recipes"), CLAUDE_FOLDER: ("commands",)}
"""The folders in such a folder whose files could run."""

MAX_FILES = 1_000
MAX_BYTES = 64 * 1024 * 1024
"""Of all files together."""
MAX_DEPTH = 8
SETTLED = 2.0
"""Seconds after which another change of a file has another time, whatever the file system's clock."""

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20

Signs: TypeAlias = tuple[tuple[str, Hashable], ...]


class _TooMuchError(Exception):
    """There is more than can be looked through; says of what."""


@frozen
class BroughtFile:
    """One file.

    :ivar name: relative to the folder, as `hooks/check`.
    :ivar content: SHA-256 of its bytes in hex; what it is instead, where it is no regular file that can be read.
    :ivar text: the same without a byte order mark, as readers of text take it.
    :ivar link: where it points to, if it is a link.
    """

    name: str
    content: str
    text: str = ""
    executable: bool = False
    link: str = ""


@frozen
class Brought:
    """What one folder of a project brings, as it was when it was read.

    :ivar place: `<project>/.acp-agent` or `<project>/.claude`, as it was reached.
    :ivar commands: what the project's configuration names, where the folder has it.
    :ivar problem: why it cannot be looked through; empty where it was.
    :ivar signs: what is another one when a file may have changed.
    :ivar settled: whether equal signs mean equal files; not so shortly after a change.
    """

    place: Path
    files: tuple[BroughtFile, ...] = ()
    commands: tuple[HookCommand, ...] = ()
    problem: str = ""
    signs: Signs = ()
    settled: bool = True

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing that could run."""
        return not (self.files or self.commands or self.problem)

    @property
    def has_hooks(self) -> bool:
        """Whether hooks are among it, or may be."""
        return bool(self.commands or self.problem or any(_is_hook(file.name) for file in self.files))

    @property
    def digest(self) -> str:
        """Another one when anything is."""
        return digest(self.files, self.commands)

    @property
    def parts(self) -> Mapping[str, str]:
        """A digest of each file by its name, and of each command, which has it for a name."""
        files = {file.name: digest((file,), ()) for file in self.files}
        return files | {digest((), (command,)): "" for command in self.commands}

    @property
    def hooks_digest(self) -> str:
        """Another one when anything of the hooks is."""
        return digest((file for file in self.files if _is_hook(file.name)), self.commands)

    def text_of(self, path: Path) -> str | None:
        """SHA-256, in hex, of the text of one of its files; None where it is none of them."""
        try:
            name = path.relative_to(self.place).as_posix()
        except ValueError:
            return None
        return next((file.text for file in self.files if file.name == name), None)

    def hooks_are_same(self) -> bool:
        """Whether the files of the hooks are what they were. Touches the disk, and reads them only where they may have
        changed."""
        try:
            found = _listed(self.place, (HOOKS,))
            if self.settled and _signs(found) == tuple(sign for sign in self.signs if _is_hook(sign[0])):
                return True
            return digest(_hashed(found), self.commands) == self.hooks_digest
        except (_TooMuchError, OSError):
            return False


def project_of(path: Path) -> Path | None:
    """The project that one of its files, or of its folders, came with."""
    return next((place.parent for place in (path, *path.parents) if place.name in PARTS), None)


def digest(files: Iterable[BroughtFile], commands: Sequence[HookCommand]) -> str:
    """SHA-256, in hex, of files in whatever order and of commands in theirs.

    :param commands: their place in the configuration file does not matter.
    """
    listed = sorted([file.name, file.content, file.executable, file.link] for file in files)
    # Where a command stands names the folder by the path that it was reached by.
    # Digests of 0.1.0, which are kept, know two values of `on_error`; neither lets anything else run.
    said = [
        {**asdict(command), "source": "", "on_error": "block" if command.on_error == "block" else "allow"}
        for command in commands
    ]
    return hashlib.sha256(json.dumps([listed, said]).encode()).hexdigest()


def read_brought(place: Path, commands: Sequence[HookCommand] = (), before: Brought | None = None) -> Brought:
    """Look through one folder; for a worker thread.

    :param place: `<project>/.acp-agent` or `<project>/.claude`; need not exist.
    :param before: what was found last; returned where nothing has changed, and then no file is read.
    """
    commands = tuple(commands)
    try:
        now = time.time()
        found = _listed(place, PARTS.get(place.name, ()))
        signs = _signs(found)
        if before is not None and before.settled and (before.place, before.signs) == (place, signs):
            if before.commands == commands:
                return before
            return Brought(place, before.files, commands, before.problem, signs)
        settled = all(_changed_at(entry) < now - SETTLED for entry in found)
        return Brought(place, tuple(_hashed(found)), commands, "", signs, settled)
    except _TooMuchError as error:
        return Brought(place, (), commands, str(error))
    except OSError as error:
        return Brought(place, (), commands, f"{error.filename or place} cannot be read ({error.strerror or error})")


@frozen
class _Entry:
    """:ivar status: of what it leads to, where it is a link; None where that is nothing."""

    name: str
    path: Path
    own: os.stat_result
    status: os.stat_result | None


def _is_hook(name: str) -> bool:
    return name.startswith(f"{HOOKS}/")


def _listed(place: Path, parts: Iterable[str]) -> list[_Entry]:
    """Everything in these folders, those in them included, that is no folder."""
    found: list[_Entry] = []
    for part in parts:
        for entry in _walk(place / part, part, ()):
            found.append(entry)
            if len(found) > MAX_FILES:
                raise _TooMuchError(f"it has more than {MAX_FILES:,} files")
    return found


def _walk(folder: Path, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[_Entry]:
    """:param above: the folders that this one is in, which a link may lead back to."""
    try:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in above:
            return
        names = sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    if len(above) >= MAX_DEPTH:
        raise _TooMuchError(f"{folder} is more than {MAX_DEPTH} folders deep")
    for name in names:
        path, inner = folder / name, f"{prefix}/{name}"
        try:
            own = path.lstat()
        except FileNotFoundError:
            continue
        followed: os.stat_result | None = own
        if stat.S_ISLNK(own.st_mode):
            try:
                followed = path.stat()
            except OSError:
                followed = None
        if followed is not None and stat.S_ISDIR(followed.st_mode):
            yield from _walk(path, inner, (*above, (status.st_dev, status.st_ino)))
        else:
            yield _Entry(inner, path, own, followed)


def _signs(found: Iterable[_Entry]) -> Signs:
    return tuple((entry.name, (_sign(entry.own), entry.status and _sign(entry.status))) for entry in found)


def _sign(status: os.stat_result) -> Hashable:
    # The time of the last change of its state cannot be set, as that of its content can.
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev, status.st_mode


def _changed_at(entry: _Entry) -> float:
    return max(status.st_ctime for status in (entry.own, entry.status) if status is not None)


def _hashed(found: Iterable[_Entry]) -> Iterator[BroughtFile]:
    room = MAX_BYTES
    for entry in found:
        link = str(entry.path.readlink()) if stat.S_ISLNK(entry.own.st_mode) else ""
        if entry.status is None or not stat.S_ISREG(entry.status.st_mode):
            yield BroughtFile(entry.name, "no file", link=link)
            continue
        size, content, text = _hash(entry.path, room)
        room -= size
        yield BroughtFile(entry.name, content, text, bool(entry.status.st_mode & 0o111), link)


def _hash(path: Path, room: int) -> tuple[int, str, str]:
    """Bytes read, and both digests of a file.

    :raises _TooMuchError: there is no room for it.
    """
    try:
        # What was a file a moment ago may be a named pipe now, which nobody writes into.
        file = open_regular(path)
    except NotRegularError:
        return 0, "no file", ""
    except OSError as error:
        return 0, f"unreadable: {error.errno}", ""
    with file:
        size, content, text = 0, hashlib.sha256(), hashlib.sha256()
        while chunk := file.read(_CHUNK):
            text.update(chunk if size else chunk.removeprefix(_BOM))
            content.update(chunk)
            size += len(chunk)
            if size > room:
                raise _TooMuchError(f"its files have more than {MAX_BYTES // 1024 // 1024} MiB")
        return size, content.hexdigest(), text.hexdigest()
