"""Pointers: `.git` files, links and `commondir` files that make git use a directory
elsewhere.

With a pointer, a command can make git use an existing directory whose settings run
programs. It can also choose a directory that a later command can fill or change
unnoticed: one outside the session's directories, one that no walk reaches, or one that
does not exist yet. The agent must not change any of these directories. So it renames
the pointer.

The pointers of linked worktrees and submodules of the user's own repositories are kept,
since git's own files in the repository confirm them.

Source: gitrepository-layout(5), "commondir"; `read_gitfile_gently` and
`get_common_dir_noenv` in git's setup.c
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.sandbox.aside import rename
from acp_agent.sandbox.git_settings import RepositorySurroundings
from acp_agent.sandbox.nested import git_directory_of
from acp_agent.sandbox.neutral import programs_of
from acp_agent.sandbox.repositories import confirmed_by
from acp_agent.sandbox.roots import common_of, is_repository, named_by
from acp_agent.sandbox.walk import MARKS, is_walked

_MOST_LINKS = 40
"""How many links the kernel follows in one path."""


@frozen
class PointerSurroundings:
    """The context in which pointers are judged. All paths are absolute and resolved.

    :ivar roots: the session's directories.
    :ivar own: the common directories of the user's own repositories in the roots.
    """

    roots: Sequence[Path]
    own: Collection[Path]

    def is_inside(self, place: Path) -> bool:
        """Return whether a path is in a root or in one of the user's repositories."""
        return any(place.is_relative_to(each) for each in (*self.roots, *self.own))

    def is_hidden(self, git: Path) -> bool:
        """Return whether later commands could change a git directory unnoticed, for
        example commands of a session in a folder below these roots.

        Directories inside the user's own repositories are not hidden, since the agent
        also checks the worktrees and submodules there.
        """
        if any(git.is_relative_to(each) for each in self.own):
            return False
        for root in self.roots:
            if git.is_relative_to(root):
                parts = git.relative_to(root).parts
                end = parts.index(".git") + 1 if ".git" in parts else len(parts)
                if is_walked(root, root.joinpath(*parts[:end])):
                    return False
        return True


def pointer_of(mark: Path) -> Path | None:
    """Return the file or link that makes git use a directory elsewhere for a
    repository; None if there is none.

    :param mark: a `.git` of any kind, or a bare repository.
    """
    if os.path.islink(mark) or os.path.isfile(mark):  # noqa: PTH113, PTH114 - do not fail in another user's folder
        return mark
    file = mark / "commondir"
    is_elsewhere = os.path.lexists(file) and _real(common_of(mark)) != mark
    return file if is_elsewhere else None


def block_pointer(mark: Path, around: PointerSurroundings) -> Iterator[str]:
    """Rename a repository's pointer if it leads out of the session's directories, to a
    git directory that runs programs, or to a place where later commands could add
    programs unnoticed. Yield a text about it for the user.

    :param mark: a `.git` of any kind, or a bare repository, that a command has created.
    :raises OSError: if the pointer cannot be renamed.
    """
    pointer = pointer_of(mark)
    if pointer is None or _names_nothing(pointer) or _is_confirmed(mark, around):
        return
    places = _places(mark)
    outside = [
        place
        for each in places
        for place in _way_to(each)
        if not around.is_inside(place)
    ]
    work_tree = mark.parent if mark.name == ".git" else mark
    git, common = (_real(each) for each in places[-2:])
    programs = _programs_in((git, common), work_tree, around)
    named = f" and has {', '.join(programs)}" if programs else ""
    if outside:
        led = f"{outside[0]}, which is outside the session's directories{named}"
    elif programs:
        led = f"{common}{named}"
    elif git_directory_of(mark) is None:
        led = f"{git}, which is no git directory"
    elif out_of_sight := [each for each in (git, common) if around.is_hidden(each)]:
        led = f"{out_of_sight[0]}, where the agent does not look for repositories"
    else:
        return
    yield from _renamed(pointer, led, around)


def block_link(
    link: Path, marks: Iterable[Path], around: PointerSurroundings
) -> Iterator[str]:
    """Rename a link to a folder if git runs programs there, and yield a text about it
    for the user.

    :param marks: the marks of the repositories that contain the folder, and of those
        that the folder contains; see `Below.marks`.
    :raises OSError: if the link cannot be renamed.
    """
    for mark in marks:
        git = git_directory_of(mark) if mark.name not in MARKS[1:] else None
        if git is None:
            continue
        work_tree = mark.parent if mark.name == ".git" else mark
        programs = _programs_in((git, _real(common_of(git))), work_tree, around)
        if programs:
            led = f"{work_tree}, which is a git repository with {', '.join(programs)}"
            yield from _renamed(link, led, around)
            return


def _programs_in(
    places: Iterable[Path], work_tree: Path, around: PointerSurroundings
) -> list[str]:
    """Return what git would run in some git directories, as texts for the user."""
    programs: list[str] = []
    for each in dict.fromkeys(places):
        try:
            programs += programs_of(
                RepositorySurroundings(each, work_tree, around.roots, around.roots)
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            programs.append(f"settings that cannot be read ({error.strerror})")
    return programs


def _renamed(path: Path, led: str, around: PointerSurroundings) -> Iterator[str]:
    """Rename a pointer or a link in a root, and yield a text about it.

    :param led: the description of the former target, for the user.
    """
    for root in around.roots:
        if path.is_relative_to(root):
            for line in rename(root, path.relative_to(root).parts):
                new = line.rpartition("/")[2].rpartition(" ")[2]
                yield f"{path} led to {led}, and is now called {new}"
            return


def _names_nothing(pointer: Path) -> bool:
    """Return whether a pointer is a `.git` file that names no directory."""
    is_file = pointer.name == ".git" and not pointer.is_symlink()
    return is_file and named_by(pointer) is None


def _is_confirmed(mark: Path, around: PointerSurroundings) -> bool:
    """Return whether git's files in one of the user's repositories confirm that a
    `.git` file belongs to a worktree or submodule of that repository.
    """
    if mark.name != ".git" or mark.is_symlink() or not is_repository(mark.parent):
        return False
    found = confirmed_by(mark)
    return found is not None and any(
        found.common.is_relative_to(each) for each in around.own
    )


def _places(mark: Path) -> list[Path]:
    """Return the paths that a mark leads through, in order. The last two are the git
    directory and its common directory.
    """
    places = [mark]
    if os.path.isfile(mark) and (named := named_by(mark)) is not None:  # noqa: PTH113 - as above
        places.append(named)
    return [*places, common_of(_real(places[-1]))]


def _way_to(path: Path) -> Iterator[Path]:
    """Yield each of the user's links on the way to a path, and then the path with all
    links resolved.

    Links that belong to other users, for example the system's, are left out.
    """
    waiting = [*reversed(path.parts[1:])]
    place = "/"
    links = 0
    while waiting and links < _MOST_LINKS:
        part = waiting.pop()
        if part == "..":
            place = os.path.dirname(place)  # noqa: PTH120 - as text
            continue
        inner = os.path.join(place, part)  # noqa: PTH118 - as text
        if not os.path.islink(inner):  # noqa: PTH114 - does not fail in another user's folder
            place = inner
            continue
        links += 1
        if os.lstat(inner).st_uid == os.geteuid():
            yield Path(inner)
        target = Path(inner).readlink()
        if target.is_absolute():
            place = "/"
        waiting += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    yield Path(place)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
