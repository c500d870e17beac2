"""What belongs to a session's project: its root, and its `.acp-agent` and `.claude` folders.

A command in the sandbox may make a repository or such a folder below a session's directory. Sessions that are opened
there later would take it for the project's own, and so lose the guards of the folders above. What commands made is kept
in the home, and does not count until the user trusts the folder.
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
    """What commands made that would change which folder is a project's root, or where its settings are; by path.

    :param home: the folder of all state.
    """

    def __init__(self, home: Path) -> None:
        advice = "what commands made counts as the project's own; remove the file"
        super().__init__(home / _MADE_FILE, "paths", advice)

    def read(self) -> Entries:
        """Return the entries; none if the file cannot be read."""
        with suppress(ConfigError):
            return super().read()
        return {}

    def add(self, paths: Iterable[Path]) -> None:
        """Remember what a command made, and forget what does not exist any more.

        :raises ConfigError: the file cannot be written.
        """
        with self.update() as entries:
            for path in paths:
                entries[str(path.parent.resolve() / path.name)] = {"inode": _inode(path)}
            for name in [*entries]:
                if not _inode(Path(name)):
                    del entries[name]

    def has(self, path: Path) -> bool:
        """Return whether a command has made this very file or folder."""
        entry = self.read().get(str(path.parent.resolve() / path.name))
        return entry is not None and entry.get("inode") == _inode(path)

    def accept(self, folder: Path) -> tuple[Path, ...]:
        """Let what is in a folder, and in those below it, count from now on, and return it.

        :raises ConfigError: the file cannot be written.
        """
        within = [name for name in self.read() if Path(name).is_relative_to(folder.resolve())]
        if within:
            with self.update() as entries:
                for name in within:
                    entries.pop(name, None)
        return tuple(map(Path, within))


class Project:
    """A directory's project, as it is found on the disk now.

    :param cwd: absolute path of the directory.
    :param home: the folder of all state; None counts everything.
    :param root: its root, where that is known already.
    """

    def __init__(self, cwd: Path, home: Path | None = None, root: Path | None = None) -> None:
        self._cwd = cwd
        self._made = MadeStore(home).read() if home is not None else {}
        self.root = root if root is not None else repository_root(cwd, self._counts) or cwd

    def folder(self, name: str = PROJECT_FOLDER) -> Path | None:
        """Return the nearest `.acp-agent` folder, or one of another name, from the directory up to the root.

        Outside of a repository only the directory itself counts, since a folder further up, such as `/tmp`, may be
        anybody's. An empty folder says nothing, and may be a placeholder of the sandbox.
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


def project_dir(cwd: Path, name: str = PROJECT_FOLDER, *, home: Path | None = None) -> Path | None:
    """Return a directory's `.acp-agent` folder, or one of another name; see `Project`."""
    return Project(cwd, home).folder(name)


def _inode(path: Path) -> str:
    """Return the device and the number of a file; empty if it does not exist."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _is_filled(folder: Path) -> bool:
    """Return whether a folder exists and is not empty. One that cannot be read may hold anything."""
    try:
        return any(folder.iterdir())
    except OSError:
        return folder.is_dir()
