"""Pointers: `.git` files, links and `commondir` files that make git use a directory
elsewhere.

A command can name a directory that existed before, with settings that run programs, or
one where a command can fill it or change its settings later without notice: outside of
the session's directories, where no walk looks, or one that does not exist yet. None of
these directories is the agent's to change. So the agent renames the pointer.

A linked worktree and a submodule of a repository that the user has there keep theirs:
git's own files in the repository confirm such a pointer.

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
    :ivar own: the common directories of the repositories that the user has there.
    """

    roots: Sequence[Path]
    own: Collection[Path]

    def is_inside(self, place: Path) -> bool:
        """Return whether a place is in the session's directories or in a repository of
        theirs.
        """
        return any(place.is_relative_to(each) for each in (*self.roots, *self.own))

    def is_hidden(self, git: Path) -> bool:
        """Return whether later commands could change a git directory without notice, for
        example those of a session in a folder below these roots.

        The walk looks at a repository's own worktrees and submodules too.
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
    """Return the file or link through which a repository leads elsewhere; None if there
    is none.

    :param mark: a `.git` of any kind, or a bare repository.
    """
    if os.path.islink(mark) or os.path.isfile(mark):  # noqa: PTH113, PTH114 - do not fail in another user's folder
        return mark
    file = mark / "commondir"
    is_elsewhere = os.path.lexists(file) and _real(common_of(mark)) != mark
    return file if is_elsewhere else None


def block_pointer(mark: Path, around: PointerSurroundings) -> Iterator[str]:
    """Rename a repository's pointer if it leads out of the session's directories, to
    programs, or to a place where a later command could put some without notice. Yield a
    text about it for the user.

    :param mark: a `.git` of any kind, or a bare repository, that a command has made.
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

    :param marks: the repositories that the folder is in or contains; see `Below.marks`.
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

    :param led: where it led, as text for the user.
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
    """Return whether one of the user's repositories says itself that a `.git` file is
    of its worktree or submodule.
    """
    if mark.name != ".git" or mark.is_symlink() or not is_repository(mark.parent):
        return False
    found = confirmed_by(mark)
    return found is not None and any(
        found.common.is_relative_to(each) for each in around.own
    )


def _places(mark: Path) -> list[Path]:
    """Return where a mark leads, step by step. The last two are the git directory and
    its common directory.
    """
    places = [mark]
    if os.path.isfile(mark) and (named := named_by(mark)) is not None:  # noqa: PTH113 - as above
        places.append(named)
    return [*places, common_of(_real(places[-1]))]


def _way_to(path: Path) -> Iterator[Path]:
    """Yield the user's links on the way to a path, and the place at its end.

    Links of other users are left out, for example of the system.
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
