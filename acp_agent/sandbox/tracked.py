"""Reads the content of a repository's own commits at a path, in a way that a command
cannot fake.

A command may write to the repository's objects, and may create an object that claims to
be another one. So the hash of each object is checked, from a commit that was known
before the command down to the file. Git gets only the objects, without the repository's
settings, which may name programs, for example to fetch missing objects.

Source: git-cat-file(1), "BATCH OUTPUT"; git(1), `GIT_OBJECT_DIRECTORY`;
gitformat-pack(5); git-hash-object(1)
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import IO, TypeAlias

from acp_agent.frozen import frozen
from acp_agent.nofollow import temporary_folder
from acp_agent.programs import find_program, own_environment
from acp_agent.sandbox.references import STASHES
from acp_agent.sandbox.tips import Tips, fetched_from_elsewhere

_SECONDS = 5.0
_MOST_COMMITS = 1_000
_MOST_OBJECT = 4 * 1024 * 1024
_MOST_TAGS = 5
"""Maximum length of a chain of nested tags that is followed."""
_MOST_FILES = 5_000
"""Maximum number of files and folders at one path of one commit."""
_MODES = {b"100644": "file", b"100664": "file", b"100755": "program", b"120000": "link"}

Part: TypeAlias = tuple[str, ...]


@frozen
class Content:
    """The kind and content of a file or link.

    :ivar kind: `file`, `program` if it is executable, or `link`.
    :ivar blob: git's object name for the content, in hex.
    """

    kind: str
    blob: str


def blob_of(data: bytes, algorithm: str = "sha1") -> str:
    """Return git's object name for some content, in hex.

    :param algorithm: `sha1` or `sha256`, whichever the repository uses.
    """
    return hashlib.new(
        algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False
    ).hexdigest()


class Tracked:
    """The contents of a repository's own commits. They are read from git on demand,
    once for each path.

    :param tips: the commits.
    """

    def __init__(self, tips: Tips) -> None:
        self._tips = tips
        self._known: dict[Part, Mapping[Part, frozenset[Content]]] = {}

    @property
    def algorithm(self) -> str:
        """Return the algorithm of the repository's hashes."""
        return _algorithm(next(iter(self._tips.commits), ""))

    def at(self, path: Path) -> Mapping[Part, frozenset[Content]]:
        """Return the content of the commits at a path.

        The keys are the parts of paths below the given path. The key of a file at the
        path itself is empty.

        :param path: absolute. Nothing is found outside the work tree.
        """
        tree = self._tips.repository.work_tree
        if not self._tips.commits or path == tree or not path.is_relative_to(tree):
            return {}
        parts = path.relative_to(tree).parts
        if parts not in self._known:
            self._known[parts] = self._read(parts)
        return self._known[parts]

    def _read(self, parts: Part) -> Mapping[Part, frozenset[Content]]:
        found: dict[Part, set[Content]] = {}
        strange = fetched_from_elsewhere(self._tips.repository.common)
        tips = {
            each: name
            for each, name in self._tips.commits.items()
            if not (name and name.startswith(strange))
        }
        with (
            suppress(OSError, ValueError),
            _objects(self._tips.repository.common, self.algorithm) as objects,
        ):
            roots: dict[str, None] = {}
            for commit, name in islice(tips.items(), _MOST_COMMITS):
                roots.update(
                    dict.fromkeys(
                        _trees_of(
                            objects,
                            commit,
                            with_parents=name in ("refs/stash", STASHES),
                        )
                    )
                )
            places = dict.fromkeys(_entry(objects, root, parts) for root in roots)
            for mode, name in filter(None, places):
                for below, content in _files(objects, mode, name):
                    found.setdefault(below, set()).add(content)
            return {below: frozenset(contents) for below, contents in found.items()}
        return {}

    def content(self, whole: Path, below: Part) -> frozenset[Content]:
        """Return the content of the commits at one path, except for contents that a
        command has staged or committed.

        :param whole: see `at`.
        :param below: the parts of the path below `whole`.
        """
        found = self.at(whole).get(below, frozenset())
        strange = self._tips.strange
        if not found or not strange:
            return found
        path = whole.joinpath(*below).relative_to(self._tips.repository.work_tree)
        return frozenset(each for each in found if label_of(each, path) not in strange)


def label_of(content: Content, path: Path) -> str:
    """Return a text without blanks that identifies a content at a path.

    :param path: relative to the work tree.
    """
    return f"{content.kind}:{content.blob}:{os.fsencode(path).hex()}"


class _Objects:
    """Reads objects from one git process, and checks the hash of each."""

    def __init__(self, process: subprocess.Popen[bytes], algorithm: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout
        self._algorithm = algorithm
        self._read: dict[str, tuple[bytes, bytes]] = {}

    def read(self, name: str) -> tuple[bytes, bytes]:
        """Return the type and content of an object; both are empty if no object has
        this name and hash.

        :raises ValueError: if git has exited, or the object is too large.
        """
        if name not in self._read:
            self._read[name] = self._asked(name)
        return self._read[name]

    def _asked(self, name: str) -> tuple[bytes, bytes]:
        self._in.write(name.encode() + b"\n")
        self._in.flush()
        words = self._out.readline().split()
        if len(words) != 3:
            if words[1:] == [b"missing"]:
                return b"", b""
            raise ValueError("git ended")
        size = int(words[2])
        if size > _MOST_OBJECT:
            raise ValueError("the object is too large")
        data = self._out.read(size + 1)[:-1]
        header = b"%s %d\0" % (words[1], size)
        real = hashlib.new(
            self._algorithm, header + data, usedforsecurity=False
        ).hexdigest()
        return (words[1], data) if real == name else (b"", b"")


@contextmanager
def private_repository(
    common: Path, algorithm: str, settings: str = ""
) -> Generator[tuple[str, Path, dict[str, str]]]:
    """Create a git directory that shares only the objects with a repository, and remove
    it after the `with` block.

    Yields git's path, the directory, and the environment with which git uses that
    directory, without the user's settings.

    :param algorithm: see `blob_of`.
    :param settings: further settings of the directory, in git's syntax.
    :raises OSError: if git is not installed.
    """
    git = find_program("git")
    if git is None:
        raise FileNotFoundError("git")
    with temporary_folder() as folder:
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "refs").mkdir()
        version = f"[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = {algorithm}\n"
        (folder / "config").write_text(version + settings)
        places = {
            "GIT_DIR": str(folder),
            "GIT_OBJECT_DIRECTORY": str(common / "objects"),
        }
        nothing = {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }
        yield git, folder, {**own_environment(), **places, **nothing}


@contextmanager
def _objects(common: Path, algorithm: str) -> Generator[_Objects]:
    """Run git for a repository's objects inside the `with` block. Git is killed after
    some seconds.

    :raises OSError: if git is not installed.
    """
    with private_repository(common, algorithm) as (git, _, env):
        process = subprocess.Popen(
            (git, "cat-file", "--batch"),
            cwd="/",
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        timer = Timer(_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield _Objects(process, algorithm)
        finally:
            timer.cancel()
            process.kill()
            process.communicate()


def _trees_of(
    objects: _Objects, name: str, *, with_parents: bool = False
) -> Iterator[str]:
    """Yield the tree of a commit, or of the commit that a tag points to.

    :param with_parents: whether to yield the trees of its parents too. One parent of a
        stash holds the untracked files.
    """
    for _ in range(_MOST_TAGS):
        kind, data = objects.read(name)
        head = [
            line.decode("ascii", "replace").partition(" ")
            for line in data.partition(b"\n\n")[0].split(b"\n")
        ]
        if kind == b"commit":
            yield from (value for word, _, value in head if word == "tree")
            for word, _, value in head if with_parents else ():
                if word == "parent":
                    yield from _trees_of(objects, value)
            return
        if kind != b"tag" or head[0][0] != "object":
            return
        name = head[0][2]


def _entry(
    objects: _Objects, tree: str, parts: Sequence[str]
) -> tuple[bytes, str] | None:
    """Return the mode and object name of a tree's entry at a path; None if there is
    none.
    """
    mode = b"40000"
    name = tree
    for part in parts:
        if mode != b"40000" or not name:
            return None
        inside = {
            entry: (its_mode, its_name)
            for its_mode, entry, its_name in _entries(objects, name)
        }
        found = inside.get(os.fsencode(part))
        if found is None:
            return None
        mode, name = found
    return mode, name


def _files(objects: _Objects, mode: bytes, name: str) -> Iterator[tuple[Part, Content]]:
    """Yield the files and links of a tree, or the file or link itself if the object is
    one.

    :raises ValueError: if there are too many files.
    """
    waiting = deque[tuple[Part, bytes, str]]([((), mode, name)])
    for _ in range(_MOST_FILES):
        if not waiting:
            return
        below, each, its_name = waiting.popleft()
        if each in _MODES:
            yield below, Content(_MODES[each], its_name)
        elif each == b"40000":
            for inner, entry, inner_name in _entries(objects, its_name):
                waiting.append(((*below, os.fsdecode(entry)), inner, inner_name))
    raise ValueError("there are too many files")


def _entries(objects: _Objects, tree: str) -> Iterator[tuple[bytes, bytes, str]]:
    """Yield the mode, name and object name of each entry of a tree."""
    kind, data = objects.read(tree)
    width = len(tree) // 2
    at = 0
    while kind == b"tree" and at < len(data):
        space = data.find(b" ", at)
        end = data.find(b"\0", at)
        if not at < space < end or end + 1 + width > len(data):
            return
        yield (
            data[at:space],
            data[space + 1 : end],
            data[end + 1 : end + 1 + width].hex(),
        )
        at = end + 1 + width


def _algorithm(name: str) -> str:
    return "sha256" if len(name) == 64 else "sha1"
