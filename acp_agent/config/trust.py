"""The code of a project that could run, and the user's decisions to trust it.

`read_project_code` reads the files of a project's hooks and recipes within limits, since they are untrusted.
`TrustStore` keeps a digest of the trusted content in the agent's home, so that the user is asked again when it changes.
A store that cannot be read allows nothing.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from acp_agent.config.home import CLAUDE_FOLDER, PROJECT_FOLDER
from acp_agent.config.settings import HookCommand
from acp_agent.config.state_file import StateFile
from acp_agent.frozen import frozen
from acp_agent.regular import NotRegularError, open_regular

_TRUST_FILE = "trust.json"
_HOOKS = "hooks"
MAX_FILES = 1_000
MAX_BYTES = 64 * 1024 * 1024
"""Of all files together."""
MAX_DEPTH = 8

_PARTS = {PROJECT_FOLDER: (_HOOKS, "recipes"), CLAUDE_FOLDER: ("commands",)}
"""The folders in such a folder whose files could run."""
_BOM = b"\xef\xbb\xbf"


@frozen
class _CodeFile:
    """One file of a project.

    :ivar name: relative to the folder, such as `hooks/check`.
    :ivar content: SHA-256 of its bytes in hex, of a text without the byte order mark that its readers leave out; what
        it is instead, where it is no regular file that can be read.
    :ivar executable: whether it may be executed.
    :ivar link: where it points to, if it is a link.
    """

    name: str
    content: str
    executable: bool = False
    link: str = ""

    @property
    def is_hook(self) -> bool:
        """Return whether it is below `hooks/`."""
        return self.name.startswith(f"{_HOOKS}/")


@frozen
class ProjectCode:
    """What one folder of a project could run, as it was when it was read.

    :ivar place: `<project>/.acp-agent` or `<project>/.claude`, as it was reached.
    :ivar commands: those that the project's configuration names as hooks.
    :ivar problem: why it cannot be read; empty where it was.
    """

    place: Path
    files: tuple[_CodeFile, ...] = ()
    commands: tuple[HookCommand, ...] = ()
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing could run."""
        return not (self.files or self.commands or self.problem)

    @property
    def has_hooks(self) -> bool:
        """Return whether hooks are among it, or may be."""
        return bool(self.commands or self.problem or any(file.is_hook for file in self.files))

    @property
    def digest(self) -> str:
        """Return a digest of everything that could run."""
        return _digest(self.files, self.commands)

    @property
    def hooks_digest(self) -> str:
        """Return a digest of the hooks."""
        return _digest((file for file in self.files if file.is_hook), self.commands)

    def text_of(self, path: Path) -> str | None:
        """Return the SHA-256, in hex, of the text of one of the files; None for any other path."""
        return next((file.content for file in self.files if self.place / file.name == path), None)

    def hooks_are_same(self) -> bool:
        """Read the files of the hooks again, and return whether they are what they were."""
        now = read_project_code(self.place, self.commands)
        return not now.problem and now.hooks_digest == self.hooks_digest


def read_project_code(place: Path, commands: Sequence[HookCommand] = ()) -> ProjectCode:
    """Read what one folder could run; for a worker thread.

    :param place: `<project>/.acp-agent` or `<project>/.claude`; need not exist.
    :param commands: those that the project's configuration names.
    """
    files: list[_CodeFile] = []
    problem, left = "", MAX_BYTES
    try:
        for path in _paths(place):
            file, size = _read(place, path, left)
            files.append(file)
            left -= size
            if len(files) > MAX_FILES or left < 0:
                problem = f"it has more than {MAX_FILES:,} files, or {MAX_BYTES // 1024 // 1024} MiB"
                break
    except OSError as error:
        problem = f"{error.filename or place} cannot be read ({error.strerror or error})"
    return ProjectCode(place, () if problem else tuple(files), tuple(commands), problem)


def project_of(path: Path) -> Path | None:
    """Return the project that a file of hooks or recipes belongs to."""
    return next((place.parent for place in (path, *path.parents) if place.name in _PARTS), None)


class TrustStore(StateFile):
    """What the user has allowed, by folder, with the project's path resolved: the `digest` of the `ProjectCode`, and
    `since` when, in ISO 8601 and UTC.

    :param home: the folder of all state.
    """

    def __init__(self, home: Path) -> None:
        advice = "no project's hooks and recipes are allowed; remove the file, and allow them anew"
        super().__init__(home / _TRUST_FILE, "folders", advice)

    def digest(self, place: Path) -> str | None:
        """Return the digest of what was allowed of a folder, whatever is in it by now.

        :raises ConfigError: see `read`.
        """
        return self.read().get(_key(place), {}).get("digest")

    def trusts(self, code: ProjectCode) -> bool:
        """Return whether this was allowed just as it is.

        :raises ConfigError: see `read`.
        """
        return not code.problem and self.digest(code.place) == code.digest

    def trust(self, codes: Iterable[ProjectCode]) -> None:
        """Allow these as they are, and nothing else in their folders.

        :raises ConfigError: see `read`; or the file cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self.update() as trusted:
            trusted.update({_key(code.place): {"digest": code.digest, "since": now} for code in codes})

    def revoke(self, project: Path, places: Iterable[Path] = ()) -> tuple[str, ...]:
        """Allow nothing any more of a project.

        :param project: its folder, which need not exist any more.
        :param places: further folders that were allowed.
        :returns: the folders that had been allowed.
        :raises ConfigError: see `trust`.
        """
        above, keys = project.resolve(), {_key(place) for place in places}
        with self.update() as trusted:
            revoked = [key for key in trusted if key in keys or above in (Path(key), Path(key).parent)]
            for key in revoked:
                del trusted[key]
        return tuple(revoked)


def _paths(place: Path) -> Iterator[Path]:
    """Yield everything that is no folder, in the folders whose files could run; links are followed."""

    def fail(error: OSError) -> None:
        raise error

    for folder in (place / part for part in _PARTS.get(place.name, ()) if (place / part).is_dir()):
        for at, inner, names in os.walk(folder, onerror=fail, followlinks=True):
            if len(Path(at).relative_to(place).parts) > MAX_DEPTH:
                raise OSError(errno.EMLINK, f"it is more than {MAX_DEPTH} folders deep", at)
            inner.sort()
            yield from (Path(at, name) for name in sorted(names))


def _read(place: Path, path: Path, limit: int) -> tuple[_CodeFile, int]:
    """Return a file, and how many bytes of it were read: one more than the limit where there are more."""
    name = path.relative_to(place).as_posix()
    link = str(path.readlink()) if path.is_symlink() else ""
    try:
        with open_regular(path) as file:
            content = file.read(limit + 1)
            executable = bool(os.fstat(file.fileno()).st_mode & 0o111)
    except (NotRegularError, FileNotFoundError):
        return _CodeFile(name, "no file", link=link), 0
    except OSError as error:
        return _CodeFile(name, f"unreadable: {error.errno}", link=link), 0
    import hashlib  # loads OpenSSL

    code = content if name.startswith(f"{_HOOKS}/") else content.removeprefix(_BOM)
    return _CodeFile(name, hashlib.sha256(code).hexdigest(), executable, link), len(content)


def _digest(files: Iterable[_CodeFile], commands: Sequence[HookCommand]) -> str:
    """Return the SHA-256, in hex, of files in whatever order and of commands in theirs."""
    import hashlib  # as above

    listed = sorted([file.name, file.content, file.executable, file.link] for file in files)
    # `source` names the folder by the path that it was reached by. `ask` counts as `allow`, as in digests of version
    # 0.1.0, which had two values of `on_error`: neither lets anything else run.
    said = [
        {**asdict(command), "source": "", "on_error": "block" if command.on_error == "block" else "allow"}
        for command in commands
    ]
    return hashlib.sha256(json.dumps([listed, said]).encode()).hexdigest()


def _key(place: Path) -> str:
    # The folder itself is not resolved: an untrusted link to what is allowed elsewhere is not allowed here.
    return str(place.parent.resolve() / place.name)
