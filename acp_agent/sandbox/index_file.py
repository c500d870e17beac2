"""Reads and changes a repository's index with git's plumbing commands, but without the
repository's settings and hooks.

An index has four versions, may refer to a second file, and may hold whole folders as
one entry. So git itself reads it. Git gets a private copy in a private git directory,
which shares only the objects with the repository. To change an index, git changes the
copy, which then replaces the index under the lock that all git processes use: the file
`index.lock`.

Source: gitformat-index(5); git-ls-files(1); git-update-index(1), `--index-info` and
"SPLIT INDEX"; git's read-cache.c (`write_locked_index`) and lockfile.h
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from acp_agent.frozen import frozen
from acp_agent.nofollow import folder_at
from acp_agent.regular import read_resolved
from acp_agent.sandbox.config_syntax import settings_in
from acp_agent.sandbox.listing import changing, entries
from acp_agent.sandbox.tracked import private_repository

_MOST_SETTINGS = 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
_SECONDS = 10.0
_LOCK_SECONDS = 1.0
_POLL_SECONDS = 0.02
_NEITHER_SPLIT_NOR_WATCHED = "[core]\n\tsplitIndex = false\n\tfsmonitor = false\n"
"""Otherwise, git would write the second file of a split index into the private
directory, where it would be lost.
"""
_SPLIT = b"link"
_SPARSE = b"sdir"

Version: TypeAlias = tuple[tuple[str, int, int, int], ...]


@frozen
class IndexEntry:
    """An entry of an index.

    :ivar path: relative to the work tree.
    :ivar mode: in octal digits, as git writes it.
    :ivar blob: git's name for the content, in hex.
    :ivar stage: 0; or 1 to 3 if the path has a conflict.
    """

    path: bytes
    mode: str
    blob: str
    stage: int = 0


@frozen
class IndexFile:
    """The content of an index, and of the files that a split index refers to.

    :ivar git: the git directory that it was read from.
    :ivar version: see `version_of`.
    :ivar files: the contents, keyed by name.
    """

    git: Path
    version: Version
    files: Mapping[str, bytes]

    @property
    def is_plain(self) -> bool:
        """Return whether the file contains each path verbatim: not compressed, not in
        another file, and not as part of a folder entry.
        """
        data = self.files["index"]
        return (
            data[4:8] in (b"\0\0\0\2", b"\0\0\0\3")
            and _SPLIT not in data
            and _SPARSE not in data
        )


def version_of(git: Path) -> Version:
    """Return a value that changes whenever the index of a git directory does; empty if
    there is no index.
    """
    found: list[tuple[str, int, int, int]] = []
    for name in ("index", *_shared(git)):
        with suppress(OSError):
            status = os.lstat(f"{git}/{name}")
            found.append((name, status.st_ino, status.st_ctime_ns, status.st_size))
    return tuple(found) if found and found[0][0] == "index" else ()


def read_index(git: Path) -> IndexFile:
    """Return the index of a git directory.

    :raises OSError: if the index cannot be read.
    :raises ValueError: if the index is too large.
    """
    version = version_of(git)
    if sum(size for *_, size in version) > MOST_BYTES:
        raise ValueError("it is too large")
    return IndexFile(
        git,
        version,
        {name: read_resolved(git / name, MOST_BYTES) for name, *_ in version}
        or {"index": b""},
    )


def lines_of(index: IndexFile, common: Path) -> bytes:
    """Return the output of `git ls-files --stage -z` for an index.

    :param common: the directory with the repository's objects.
    :raises OSError: if git is not installed.
    :raises ValueError: if git cannot read the index.
    """
    return (
        _run(index, common, ("ls-files", "--stage", "-z"))[0]
        if index.files["index"]
        else b""
    )


def entry_in(line: bytes) -> IndexEntry:
    """Return the entry that a line of `git ls-files --stage -z` describes."""
    head, _, path = line.partition(b"\t")
    mode, blob, stage = head.decode("ascii").split(" ")
    return IndexEntry(path, mode, blob, int(stage))


def replace_entries(
    index: IndexFile, common: Path, changes: Mapping[bytes, IndexEntry | None]
) -> None:
    """Change some paths of an index. Other entries, flags and the format version are
    unchanged.

    :param index: the current index.
    :param changes: the new entry of each path; None to remove it.
    :raises BlockingIOError: if another git process holds the lock, or the index has
        changed.
    :raises OSError: if git is not installed, or the index cannot be written.
    :raises ValueError: if git cannot change the index.
    """
    lines: list[bytes] = []
    for path, entry in changes.items():
        lines.append(b"0 %s\t%s\0" % (b"0" * _width(common), path))
        if entry is not None:
            lines.append(f"{entry.mode} {entry.blob} 0\t".encode() + path + b"\0")
    _, changed = _run(
        index, common, ("update-index", "-z", "--index-info"), b"".join(lines)
    )
    with folder_at(index.git) as folder, changing(folder):
        lock = _locked(folder)
        try:
            with os.fdopen(lock, "wb") as file:
                if version_of(index.git) != index.version:
                    raise BlockingIOError("the index has changed")
                file.write(changed)
                os.fchmod(
                    file.fileno(),
                    stat.S_IMODE(os.lstat("index", dir_fd=folder).st_mode),
                )
            os.rename("index.lock", "index", src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink("index.lock", dir_fd=folder)
            raise


def algorithm_of(common: Path) -> str:
    """Return the algorithm of a repository's hashes: `sha1` or `sha256`."""
    found = "sha1"
    with suppress(OSError, ValueError):
        for name, value in settings_in(
            read_resolved(common / "config", _MOST_SETTINGS)
        ):
            if name == b"extensions.objectformat" and value == b"sha256":
                found = "sha256"
    return found


def _width(common: Path) -> int:
    return 64 if algorithm_of(common) == "sha256" else 40


def _shared(git: Path) -> Iterator[str]:
    """Yield the names of the files that a split index may refer to."""
    for each in entries(git):
        if each.name.startswith("sharedindex."):
            yield each.name


def _locked(folder: int) -> int:
    """Create the lock file of an index, waiting briefly for another git process to
    finish, and return its descriptor.
    """
    end = time.monotonic() + _LOCK_SECONDS
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        try:
            return os.open("index.lock", flags, 0o600, dir_fd=folder)
        except FileExistsError as error:
            if time.monotonic() > end:
                raise BlockingIOError("there is an index.lock") from error
            time.sleep(_POLL_SECONDS)


def _run(
    index: IndexFile, common: Path, words: tuple[str, ...], data: bytes = b""
) -> tuple[bytes, bytes]:
    """Run git on a copy of an index, and return git's output and the copy's content
    afterwards.
    """
    settings = _NEITHER_SPLIT_NOR_WATCHED
    with private_repository(common, algorithm_of(common), settings) as (
        git,
        folder,
        env,
    ):
        for name, content in index.files.items():
            (folder / name).write_bytes(content)
        try:
            done = subprocess.run(
                (git, *words),
                cwd="/",
                env={**env, "GIT_INDEX_FILE": str(folder / "index")},
                input=data,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ValueError("git took too long") from error
        if done.returncode:
            raise ValueError(done.stderr.decode(errors="replace").strip()[-200:])
        return done.stdout, (folder / "index").read_bytes()
