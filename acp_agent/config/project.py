"""Finds a session's project: its root, and its `.acp-agent` and `.claude` folders.

A command in the sandbox may create a repository or such a folder below a session's
directory. A session that is opened there later would mistake that place for the root of
its project, and would no longer find the project folders above it. So the agent records
the paths that commands created, and this module ignores them until the user trusts the
folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from acp_agent.config.home import PROJECT_FOLDER
from acp_agent.config.state_file import Entries, StateFile
from acp_agent.errors import ConfigError
from acp_agent.sandbox.ownership import is_foreign
from acp_agent.sandbox.roots import repository_root

_MADE_FILE = "made.json"


class MadeStore(StateFile):
    """Paths created by commands that would change a project's root or the location of
    its settings.

    :param home: the folder of all state.
    """

    def __init__(self, home: Path) -> None:
        advice = "paths that commands created are treated like the project's own; remove the file"
        super().__init__(home / _MADE_FILE, "paths", advice)

    def read(self) -> Entries:
        """Return the entries, or nothing if the file cannot be read."""
        with suppress(ConfigError):
            return super().read()
        return {}

    def add(self, paths: Iterable[Path]) -> None:
        """Record paths that a command created, and remove paths that no longer exist.

        :raises ConfigError: if the file cannot be written.
        """
        with self.update() as entries:
            for path in paths:
                entries[str(path.parent.resolve() / path.name)] = {
                    "inode": _inode(path)
                }
            for name in [*entries]:
                if not _inode(Path(name)):
                    del entries[name]

    def has(self, path: Path) -> bool:
        """Return whether a command created exactly this file or folder."""
        entry = self.read().get(str(path.parent.resolve() / path.name))
        return entry is not None and entry.get("inode") == _inode(path)

    def accept(self, folder: Path) -> tuple[Path, ...]:
        """Forget the recorded paths at and below a folder, so that `Project` no longer
        ignores them, and return them.

        :raises ConfigError: if the file cannot be written.
        """
        within = [
            name for name in self.read() if Path(name).is_relative_to(folder.resolve())
        ]
        if within:
            with self.update() as entries:
                for name in within:
                    entries.pop(name, None)
        return tuple(map(Path, within))


class Project:
    """The project of a directory, as currently found on disk.

    :param cwd: absolute path of the directory.
    :param home: the folder of all state, which contains the record of paths that
        commands created. If it is None, such paths are not ignored.
    :param root: the project's root, if already known.
    """

    def __init__(
        self, cwd: Path, home: Path | None = None, root: Path | None = None
    ) -> None:
        self._cwd = cwd
        self._made = MadeStore(home).read() if home is not None else {}
        self.root = (
            root if root is not None else repository_root(cwd, self._counts) or cwd
        )

    def folder(self, name: str = PROJECT_FOLDER) -> Path | None:
        """Return the nearest folder with this name, searching from the directory up to
        the project's root; None if there is none.

        Outside a repository, the root is the directory itself, since a parent folder
        such as `/tmp` may belong to anyone. Empty folders are skipped, since they may
        be placeholders of the sandbox.
        """
        for parent in (self._cwd, *self._cwd.parents):
            place = parent / name
            if _is_filled(place) and not is_foreign(place) and self._counts(place):
                return place
            if parent == self.root:
                return None
        return None

    def _counts(self, path: Path) -> bool:
        if not self._made:
            return True
        entry = self._made.get(str(path.parent.resolve() / path.name))
        return entry is None or entry.get("inode") != _inode(path)


def project_dir(
    cwd: Path, name: str = PROJECT_FOLDER, *, home: Path | None = None
) -> Path | None:
    """Return the `.acp-agent` folder of a directory's project, or the folder with
    another name; see `Project.folder`.
    """
    return Project(cwd, home).folder(name)


def _inode(path: Path) -> str:
    """Return the device and inode number of a file, or an empty string if it does not
    exist.
    """
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _is_filled(folder: Path) -> bool:
    """Return whether a folder exists and is not empty. An unreadable folder counts as
    not empty.
    """
    try:
        return any(folder.iterdir())
    except OSError:
        return folder.is_dir()
