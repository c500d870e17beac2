"""Reads the code that a project could run, and stores the user's decisions to trust it.

`read_project_code` reads the files of a project's hooks and recipes. They are
untrusted, so their number and size are limited. `TrustStore` keeps a digest of the
trusted content in the agent's home, so that the user is asked again when the content
changes. A store that cannot be read allows nothing.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeAlias, cast

from acp_agent.config.home import CLAUDE_FOLDER, PROJECT_FOLDER
from acp_agent.config.settings import HookCommand
from acp_agent.config.state_file import StateFile
from acp_agent.frozen import frozen
from acp_agent.regular import NotRegularError, open_regular

_TRUST_FILE = "trust.json"
_HOOKS = "hooks"
MAX_FILES = 1_000
MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of all files together."""
MAX_DEPTH = 8

_PARTS = {PROJECT_FOLDER: (_HOOKS, "recipes"), CLAUDE_FOLDER: ("commands",)}
"""For each folder of a project, the subfolders whose files could run."""
_ALL_PARTS = {part for parts in _PARTS.values() for part in parts}
_BIG = 1024 * 1024
"""Size in bytes. If a file that hooks run is larger, only its size and change time are
compared, not its content.
"""
_SETTLED_NS = 50_000_000
"""A file that changed less than this long before it was read may change again without a
new change time.
"""
_Signature: TypeAlias = tuple[int, int, int, int, int]
_EXISTS = "a module that could be imported"
_BOM = b"\xef\xbb\xbf"


@frozen
class _CodeFile:
    """One file of a project.

    :ivar name: its path relative to the folder, such as `hooks/check`, or
        `../scripts/check.py` if the hooks run it.
    :ivar content: hexadecimal SHA-256 of its bytes, without a byte order mark if
        readers of the file skip it; or a description if it is not a readable regular
        file.
    :ivar executable: whether the file is executable.
    :ivar link: the link's target, if the file is a link.
    """

    name: str
    content: str
    executable: bool = False
    link: str = ""

    @property
    def is_hook(self) -> bool:
        """Return whether the file is in `hooks/`, or is elsewhere and run by hooks."""
        return self.name.startswith(f"{_HOOKS}/") or self.is_called

    @property
    def is_called(self) -> bool:
        """Return whether the file is code elsewhere in the project that hooks run."""
        return (
            self.name.startswith("../") or self.name.partition("/")[0] not in _ALL_PARTS
        )


@frozen
class ProjectCode:
    """The code that one folder of a project could run, as of when it was read.

    :ivar place: `<project>/.acp-agent` or `<project>/.claude`, with symbolic links not
        resolved.
    :ivar files: the files in the folder, and files elsewhere in the project that the
        hooks run.
    :ivar commands: the commands that the project's configuration names as hooks.
    :ivar problem: why the code cannot be read; empty if it was read.
    :ivar cwd: where the hooks run; None for the project's folder.
    :ivar seen: the files and folders elsewhere in the project that were read to find
        `files`, with their signatures.
    """

    place: Path
    files: tuple[_CodeFile, ...] = ()
    commands: tuple[HookCommand, ...] = ()
    problem: str = ""
    cwd: Path | None = None
    seen: tuple[tuple[Path, _Signature], ...] = field(default=(), compare=False)

    @property
    def is_empty(self) -> bool:
        """Return True if the folder was read without an error and contains no code."""
        return not (self.files or self.commands or self.problem)

    @property
    def has_hooks(self) -> bool:
        """Return whether the code includes hooks, or may include them."""
        return bool(
            self.commands or self.problem or any(file.is_hook for file in self.files)
        )

    @property
    def digest(self) -> str:
        """Return a digest of everything that could run."""
        return _digest(self.files, self.commands)

    @property
    def hooks_digest(self) -> str:
        """Return a digest of the hooks."""
        return _digest((file for file in self.files if file.is_hook), self.commands)

    def file_digest(self, path: Path) -> str | None:
        """Return the hex SHA-256 of one of the files; None for any other path."""
        return next(
            (file.content for file in self.files if self.place / file.name == path),
            None,
        )

    @property
    def sources(self) -> dict[str, str]:
        """Return the hex SHA-256 of each file, by its path without links."""
        return {
            os.path.realpath(self.place / file.name): file.content
            for file in self.files
        }

    @property
    def bytecode(self) -> tuple[str, ...]:
        """Return the folders in which Python would look for bytecode of the files. They
        may not exist.
        """
        sources = (path for path in self.sources if path.endswith(".py"))
        folders = (os.path.dirname(path) for path in sources)  # noqa: PTH120 - a string
        return tuple(dict.fromkeys(f"{folder}/__pycache__" for folder in folders))

    def without_called(self) -> Self:
        """Return a copy without the files elsewhere in the project that hooks run."""
        return replace(
            self, files=tuple(file for file in self.files if not file.is_called)
        )

    def hooks_are_same(self) -> bool:
        """Read the hooks' files again, and return whether they are unchanged."""
        now = read_project_code(self.place, self.commands, self.cwd, before=self)
        return not now.problem and now.hooks_digest == self.hooks_digest


def read_project_code(
    place: Path,
    commands: Sequence[HookCommand] = (),
    cwd: Path | None = None,
    *,
    before: ProjectCode | None = None,
) -> ProjectCode:
    """Read the code that one folder could run, and the code elsewhere in the project
    that the folder's hooks run.

    This reads many files, so call it in a worker thread.

    :param place: `<project>/.acp-agent` or `<project>/.claude`; need not exist.
    :param commands: the hook commands that the project's configuration names.
    :param cwd: where the hooks run; None for the project's folder.
    :param before: an earlier result for the same folder. It is returned if nothing has
        changed, which avoids another search for the code that hooks run.
    """
    files: list[_CodeFile] = []
    hooks: list[tuple[Path, bytes]] = []
    problem = ""
    remaining = MAX_BYTES
    try:
        for path in _paths(place):
            file, content = _read(place, path, remaining)
            files.append(file)
            remaining -= len(content)
            if file.is_hook:
                hooks.append((path, content))
            if len(files) > MAX_FILES or remaining < 0:
                problem = f"it has more than {MAX_FILES:,} files or {MAX_BYTES // 1024 // 1024} MiB"
                break
    except OSError as error:
        problem = (
            f"{error.filename or place} cannot be read ({error.strerror or error})"
        )
    if problem:
        return ProjectCode(place, (), tuple(commands), problem)
    own = tuple(files)
    now = ProjectCode(place, own, tuple(commands), cwd=cwd)
    if (
        before is not None
        and now == before.without_called()
        and _are_unchanged(before.seen)
    ):
        return before
    if not hooks and not commands:
        return now
    called, seen = _read_called(place, own, commands, hooks, cwd)
    return replace(now, files=(*own, *called), seen=seen)


def _line(command: HookCommand) -> str:
    return (
        command.command
        if isinstance(command.command, str)
        else "\n".join(command.command)
    )


def _read_called(
    place: Path,
    own: Iterable[_CodeFile],
    commands: Iterable[HookCommand],
    hooks: Iterable[tuple[Path, bytes]],
    cwd: Path | None,
) -> tuple[tuple[_CodeFile, ...], tuple[tuple[Path, _Signature], ...]]:
    """Read the code elsewhere in the project that hooks run.

    :param own: the files of the folder itself.
    :param hooks: the path and the content of each hook in the folder.
    :returns: the code, and each path that was read with its signature.
    """
    # Imported here, because it takes some milliseconds and few projects have hooks.
    from acp_agent.config.called_files import MAX_TEXT, ProgramText, called_files

    texts = [ProgramText(_line(command)) for command in commands]
    for path, content in hooks:
        text = content[:MAX_TEXT].decode("utf-8", "replace")
        texts.append(ProgramText(text, path.parent, path))
    now = time.time_ns()
    called = called_files(place.parent, texts, cwd)
    known = {place / file.name for file in own}
    files = tuple(
        _called_file(place, path) for path in called.files if path not in known
    )
    files += tuple(
        _CodeFile(Path(os.path.relpath(path, place)).as_posix(), _EXISTS)
        for path in called.beside
        if path not in known and path not in called.files
    )
    looked_at = dict.fromkeys((*called.folders, *called.files))
    # If a path changed too recently, its signature matches no other, and everything is
    # read again next time.
    seen = tuple((path, _signature(path, settled_by=now)) for path in looked_at)
    return files, seen


def _are_unchanged(seen: Sequence[tuple[Path, _Signature]]) -> bool:
    return bool(seen) and all(
        signature[0] >= 0 and _signature(path) == signature for path, signature in seen
    )


def _signature(path: Path, settled_by: int | None = None) -> _Signature:
    """Return a value that changes whenever the content of a file or the list of names
    in a folder changes. Programs cannot set the third part, the change time.

    :param settled_by: a time in nanoseconds. If the path changed shortly before or
        after this time, the signature matches no other.
    """
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0, 0, 0)
    if settled_by is not None and found.st_ctime_ns > settled_by - _SETTLED_NS:
        return (-1, 0, 0, 0, 0)
    return (
        found.st_ino,
        found.st_size,
        found.st_ctime_ns,
        found.st_mtime_ns,
        found.st_mode,
    )


def _called_file(place: Path, path: Path) -> _CodeFile:
    """Return a file elsewhere in the project that hooks run."""
    import hashlib  # loads OpenSSL

    name = Path(os.path.relpath(path, place)).as_posix()
    link = str(path.readlink()) if path.is_symlink() else ""
    try:
        if not path.resolve().is_relative_to(place.parent.resolve()):
            return _CodeFile(name, "outside of the project", link=link)
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            is_executable = bool(status.st_mode & 0o111)
            if status.st_size > _BIG:
                return _CodeFile(
                    name,
                    f"{status.st_size} bytes of {status.st_ctime_ns}",
                    is_executable,
                    link,
                )
            content = file.read(_BIG)
    except (OSError, RuntimeError) as error:
        return _CodeFile(name, f"unreadable: {type(error).__name__}", link=link)
    if path.name == "package.json":
        content = _scripts_of(content)
    return _CodeFile(name, hashlib.sha256(content).hexdigest(), is_executable, link)


def _scripts_of(package: bytes) -> bytes:
    """Return only the parts of a `package.json` that run something, so that a new
    dependency does not revoke the trust.
    """
    try:
        parsed: object = json.loads(package)
    except (ValueError, RecursionError):
        return package
    if not isinstance(parsed, dict):
        return package
    found = cast("dict[str, object]", parsed)
    return json.dumps(
        [found.get("scripts"), found.get("type"), found.get("main")], sort_keys=True
    ).encode()


def project_of(path: Path) -> Path | None:
    """Return the project that a file of hooks or recipes belongs to."""
    return next(
        (place.parent for place in (path, *path.parents) if place.name in _PARTS), None
    )


class TrustStore(StateFile):
    """Stores the code that the user has allowed.

    Each entry belongs to a folder, by its path with the project's path resolved. The
    entry contains the `digest` of the `ProjectCode`, and as `since` the time when the
    user allowed the code, in ISO 8601 and UTC.

    :param home: the folder of all state.
    """

    def __init__(self, home: Path) -> None:
        advice = "no hooks and recipes of projects are allowed; remove the file, and allow them again"
        super().__init__(home / _TRUST_FILE, "folders", advice)

    def digest(self, place: Path) -> str | None:
        """Return the digest of the code that was allowed in a folder, even if the
        folder has changed; None if nothing was allowed.

        :raises ConfigError: see `read`.
        """
        return self.read().get(_key(place), {}).get("digest")

    def trusts(self, code: ProjectCode) -> bool:
        """Return whether exactly this code was allowed.

        :raises ConfigError: see `read`.
        """
        return not code.problem and self.digest(code.place) == code.digest

    def trust(self, codes: Iterable[ProjectCode]) -> None:
        """Allow exactly this code. It replaces what was allowed in its folders before.

        :raises ConfigError: see `read`; also if the file cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self.update() as trusted:
            trusted.update(
                {
                    _key(code.place): {"digest": code.digest, "since": now}
                    for code in codes
                }
            )

    def revoke(self, project: Path, places: Iterable[Path] = ()) -> tuple[str, ...]:
        """Revoke everything that was allowed in a project.

        :param project: the project's folder, which may no longer exist.
        :param places: further folders that were allowed.
        :returns: the folders that were allowed until now.
        :raises ConfigError: see `trust`.
        """
        above = project.resolve()
        keys = {_key(place) for place in places}
        with self.update() as trusted:
            revoked = [
                key
                for key in trusted
                if key in keys or above in (Path(key), Path(key).parent)
            ]
            for key in revoked:
                del trusted[key]
        return tuple(revoked)


def _paths(place: Path) -> Iterator[Path]:
    """Yield the path of every file whose code could run, in a fixed order. Symbolic
    links are followed.
    """

    def fail(error: OSError) -> None:
        raise error

    for folder in (
        place / part for part in _PARTS.get(place.name, ()) if (place / part).is_dir()
    ):
        for at, inner, names in os.walk(folder, onerror=fail, followlinks=True):
            if len(Path(at).relative_to(place).parts) > MAX_DEPTH:
                raise OSError(
                    errno.EMLINK, f"it is more than {MAX_DEPTH} folders deep", at
                )
            inner.sort()
            yield from (Path(at, name) for name in sorted(names))


def _read(place: Path, path: Path, limit: int) -> tuple[_CodeFile, bytes]:
    """Return a file and its content. From a larger file, only `limit + 1` bytes are
    read.
    """
    name = path.relative_to(place).as_posix()
    link = str(path.readlink()) if path.is_symlink() else ""
    try:
        with open_regular(path) as file:
            content = file.read(limit + 1)
            executable = bool(os.fstat(file.fileno()).st_mode & 0o111)
    except (NotRegularError, FileNotFoundError):
        return _CodeFile(name, "no file", link=link), b""
    except OSError as error:
        return _CodeFile(name, f"unreadable: {error.errno}", link=link), b""
    import hashlib  # loads OpenSSL

    code = content if name.startswith(f"{_HOOKS}/") else content.removeprefix(_BOM)
    return _CodeFile(name, hashlib.sha256(code).hexdigest(), executable, link), content


def _digest(files: Iterable[_CodeFile], commands: Sequence[HookCommand]) -> str:
    """Return the hex SHA-256 of files and commands. The order of the files does not
    matter; the order of the commands does.
    """
    import hashlib  # loads OpenSSL

    listed = sorted(
        [file.name, file.content, file.executable, file.link] for file in files
    )
    # `source` depends on the path that was used for the folder. `ask` counts as `allow`,
    # as in digests of version 0.1.0, in which `on_error` had only two values. Neither
    # difference changes what runs.
    encoded = [
        {
            **asdict(command),
            "source": "",
            "on_error": "block" if command.on_error == "block" else "allow",
        }
        for command in commands
    ]
    return hashlib.sha256(json.dumps([listed, encoded]).encode()).hexdigest()


def _key(place: Path) -> str:
    # The folder itself is not resolved, so that a link to a folder that is trusted
    # elsewhere is not trusted here.
    return str(place.parent.resolve() / place.name)
