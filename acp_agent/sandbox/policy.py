"""`Policy`: what a command may read, write and reach in the sandbox, and the paths that
are closed to it by default.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.module_path import python_path, startup_files
from acp_agent.programs import distrust
from acp_agent.sandbox.folders import OF_AGENTS, READ_DENIED, writable_folders
from acp_agent.sandbox.git_programs import named_by_the_user, named_in_settings
from acp_agent.sandbox.guarded_paths import guarded_paths
from acp_agent.sandbox.guarded_patterns import PatternPaths
from acp_agent.sandbox.installation import installed_in
from acp_agent.sandbox.listing import is_empty, open_up, parents_of, restoring
from acp_agent.sandbox.repositories import (
    Closed,
    Repository,
    closed_beside,
    closed_in,
    git_directories,
    repository_of,
    submodules,
)
from acp_agent.sandbox.roots import is_repository

GUARDED = tuple(row.parts[0] for row in guarded_paths("covered", "private"))
"""Names in a root. The placeholder for a missing name is a folder, even for `.envrc`,
since git ignores empty folders.
"""
_MOST_CLOSED_BESIDE = 400
"""Maximum number of closed paths in a git directory outside the roots. If there are
more, the whole directory stays closed.
"""


@frozen
class Policy:
    """The permissions of a command. All paths are absolute and resolved.

    :ivar roots: the session's directories, which the command may write to, except for
        `protected`.
    :ivar write: further folders that the command may write to.
    :ivar read_deny: files and folders that the command may not read.
    :ivar network: whether the command has network access. Without network access, only
        its own 127.0.0.1 is reachable.
    :ivar repositories: the roots' repositories that lie outside the roots. The command
        may write to their common directories, except for the closed paths in them.
    :ivar nested: each `.git` of a repository further down in the roots, and bare
        repositories there.
    """

    roots: tuple[Path, ...]
    write: tuple[Path, ...]
    read_deny: tuple[Path, ...]
    network: bool = False
    repositories: tuple[Repository, ...] = ()
    nested: tuple[Path, ...] = ()
    _closed: list[tuple[Closed, ...]] = field(
        default_factory=list[tuple[Closed, ...]], repr=False, compare=False
    )
    _run_elsewhere: list[tuple[Path, ...]] = field(
        default_factory=list[tuple[Path, ...]], repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        roots: Sequence[Path],
        private: Iterable[Path],
        write: Iterable[str],
        read_deny: Iterable[str],
        *,
        network: bool = False,
        nested: Iterable[Path] = (),
    ) -> Policy:
        """Return the policy of a session's commands.

        :param private: the agent's own folders, which commands may not read.
        :param roots: the session's directories. Relative paths start at the first one.
        :param write: further folders as named by the user, possibly with `~`.
        :param read_deny: further files and folders as named by the user, possibly with
            `~`.
        :param nested: see `Policy.nested`.
        """
        home = Path.home()
        first = roots[0]
        named_denied = (first / Path(each).expanduser() for each in read_deny)
        writable = writable_folders(first, write)
        distrust(roots, writable)
        real_roots, real_writable = _without_planted_links(roots, writable)
        denied = tuple(
            _existing((*(home / each for each in READ_DENIED), *named_denied, *private))
        )
        beside = tuple(_beside(real_roots, denied))
        return cls(
            real_roots,
            real_writable,
            denied,
            network,
            beside,
            _protectable(nested, denied),
        )

    @property
    def protected(self) -> tuple[Path, ...]:
        """Return the paths in writable folders that a command may not write to.

        Other programs run these paths, or run what they name. Some of the paths may not
        exist.
        """
        closed = tuple(
            path for closed in self.closed for path in (*closed.folders, *closed.files)
        )
        return (*closed, *installed_in((*self.write, *self.open)))

    @property
    def closed(self) -> tuple[Closed, ...]:
        """Return the closed paths in each place that a command may write to, determined
        at the first call.
        """
        if not self._closed:
            with restoring(self.open):
                self._closed.append(tuple(self._find_closed()))
        return self._closed[0]

    def _find_closed(self) -> list[Closed]:
        found: list[Closed] = []
        for root in self.roots:
            found += (
                _closed_in_root(root),
                _existing_in_root(root, self.run_elsewhere),
            )
            for git in git_directories(root):
                found.append(closed_in(git, wholly=True))
                found += (
                    closed_in(each, wholly=False)
                    for each in submodules(git / "modules")
                )
        found += map(_closed_of, self.nested)
        for repository in self.repositories:
            found += closed_beside(repository)
        return found

    @property
    def run_elsewhere(self) -> tuple[Path, ...]:
        """Return the paths outside git directories that git runs because its settings
        name them, those of the user included.

        The settings are read at the first call. The paths include the modules that
        Python imports from PYTHONPATH when the agent starts. Some of the paths may not
        exist.
        """
        if not self._run_elsewhere:
            self._run_elsewhere.append(tuple(dict.fromkeys(self._find_run_elsewhere())))
        return self._run_elsewhere[0]

    def _find_run_elsewhere(self) -> list[Path]:
        found: list[Path] = []
        for folder in python_path():
            if any(Path(folder).is_relative_to(root) for root in self.roots):
                found += map(Path, startup_files(folder))
        for root in self.roots:
            found += named_by_the_user(root)
            for git in git_directories(root):
                found += named_in_settings(git, root)
        nested = map(repository_of, {mark.parent for mark in self.nested})
        for repository in (*self.repositories, *filter(None, nested)):
            found += named_by_the_user(repository.work_tree)
            for git in dict.fromkeys((repository.folder, repository.common)):
                found += named_in_settings(git, repository.work_tree)
        return found

    def denying(self, root: Path) -> Path | None:
        """Return the folder with secrets that a root equals or lies in, or None if
        commands may work in the root.

        Other agents keep work trees in their folders, so a root may lie in such a
        folder, but it may not be the folder itself.
        """
        agents = {Path.home().resolve() / name for name in OF_AGENTS}
        denied = {each for each in self.read_deny if each == root or each not in agents}
        return next((each for each in (root, *root.parents) if each in denied), None)

    @property
    def open(self) -> tuple[Path, ...]:
        """Return the roots and the common directories of `repositories`."""
        return (*self.roots, *(repository.common for repository in self.repositories))

    @property
    def holders(self) -> tuple[Path, ...]:
        """Return the subfolders of writable folders that contain protected or denied
        paths.

        Moving such a folder away would move these paths too, and another folder could
        be created in its place.
        """
        return self.holding(self.protected)

    def holding(self, protected: Iterable[Path]) -> tuple[Path, ...]:
        """See `holders`.

        :param protected: the result of `protected`, which takes a while to compute.
        """
        writable = {str(path) for path in (*self.write, *self.open)}
        closed = {str(path) for path in (*protected, *self.read_deny)}
        above = {"/": ""}  # the nearest writable or closed folder above each folder
        for path in closed:
            inner: list[str] = []
            folder = path
            while folder not in above:
                inner.append(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120 - there are hundreds for each command
            for each in reversed(inner):
                above[each] = (
                    folder if folder in writable or folder in closed else above[folder]
                )
                folder = each
        held = (
            folder
            for folder, nearest in above.items()
            if nearest in writable and folder not in closed
        )
        return tuple(Path(folder) for folder in held if os.path.exists(folder))  # noqa: PTH110 - likewise

    @property
    def unprotectable(self) -> Path | None:
        """Return a protected path or a holder that is a symbolic link.

        A link cannot be protected from being replaced.
        """
        return self.link_among(self.protected)

    def link_among(self, protected: Sequence[Path]) -> Path | None:
        """See `unprotectable`.

        :param protected: the result of `protected`, which takes a while to compute.
        """
        return next(
            (
                path
                for path in (*protected, *self.holding(protected))
                if path.is_symlink()
            ),
            None,
        )


def _without_planted_links(*groups: Iterable[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the real paths of each group.

    Links that lead out of a writable folder are left out, since a command could have
    created them.
    """
    real = [
        [(path, found) for path in group for found in _existing((path,))]
        for group in groups
    ]
    folders = [found for group in real for _, found in group]
    for group in real:
        yield tuple(
            found
            for path, found in group
            if not any(
                folder in path.parents and not found.is_relative_to(folder)
                for folder in folders
            )
        )


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if os.path.lexists(path):  # false for nearly all paths, and much cheaper
            with suppress(OSError, RuntimeError):  # a loop of links
                yield path.resolve(strict=True)


def _closed_in_root(root: Path) -> Closed:
    """Return the closed paths of a root, except for those in its git directories."""
    folders = [root / name for name in GUARDED]
    git = root / ".git"
    if git.is_file():  # in a worktree or submodule, where it names the real directory
        return Closed(root, tuple(folders), (git,))
    is_below = any(is_repository(folder) for folder in root.parents)
    if not is_below and is_empty(git):
        folders.append(git)  # otherwise a command could create a repository with hooks
    return Closed(root, tuple(folders), ())


def _existing_in_root(root: Path, more: Iterable[Path]) -> Closed:
    """Return the guarded paths of a root that exist. Missing ones are watched (see
    `blocked`).

    Links are followed. The target is closed, and the link itself is watched.
    """
    names = ("/".join(row.parts) for row in guarded_paths("closed", "kept"))
    paths = [*(f"{root}/{name}" for name in names), *map(str, more)]
    for parent in parents_of(root, paths):
        open_up(parent)
    matching = PatternPaths(root, "closed", "kept").look()
    paths += (f"{root}/{'/'.join(path)}" for path in matching)
    found = [Path(path).resolve() for path in paths if os.path.exists(path)]  # noqa: PTH110 - there are a hundred
    inside = [path for path in found if path != root and path.is_relative_to(root)]
    folders = tuple(path for path in inside if path.is_dir())
    return Closed(root, folders, tuple(path for path in inside if path not in folders))


def _closed_of(mark: Path) -> Closed:
    """Return the closed paths of a nested repository, whose `.git` may also be a file
    that names its directory.
    """
    return (
        closed_in(mark, wholly=False)
        if mark.is_dir()
        else Closed(mark.parent, (), (mark,))
    )


def _protectable(nested: Iterable[Path], denied: Sequence[Path]) -> tuple[Path, ...]:
    """Return the nested repositories that can be protected, since commands see them and
    no closed path is a link.
    """
    found: list[Path] = []
    for mark in nested:
        closed = _closed_of(mark)
        has_links = any(path.is_symlink() for path in (*closed.folders, *closed.files))
        if not has_links and not any(mark.is_relative_to(folder) for folder in denied):
            found.append(mark)
    return tuple(found)


def _beside(roots: Sequence[Path], denied: Sequence[Path]) -> Iterator[Repository]:
    """Yield the roots' repositories that lie outside the roots and can be protected.

    The root is a worktree, a submodule or a folder of such a repository.
    """
    home = Path.home().resolve()
    found = [
        repository for root in roots if (repository := repository_of(root)) is not None
    ]
    for repository in dict.fromkeys(found):
        place = repository.common
        is_elsewhere = not any(
            place.is_relative_to(folder) for folder in (*roots, *denied)
        )
        is_usable = os.access(place, os.W_OK) and not home.is_relative_to(
            repository.work_tree
        )
        if is_elsewhere and is_usable and _is_protectable(repository):
            yield repository


def _is_protectable(repository: Repository) -> bool:
    """Return whether the closed paths of a repository can be protected.

    They cannot be protected if there are too many, or if one of them is a symbolic link
    or leads through one, since a command could replace it.
    """
    paths = [
        path
        for closed in closed_beside(repository)
        for path in (*closed.folders, *closed.files)
    ]
    if len(paths) > _MOST_CLOSED_BESIDE:
        return False
    inside = {
        parent
        for path in paths
        for parent in path.parents
        if repository.common in parent.parents
    }
    return not any(path.is_symlink() for path in (*paths, *inside))
