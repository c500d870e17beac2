"""Renames files of a command that git would run in a repository below a session's
directories, because a setting names them by a path in the work tree.

If the user's own settings name a relative hooks folder, such as `.githooks`, git looks
for it in every repository. So a command could create a repository that contains such a
folder. In repositories that are protected while a command runs, these paths are watched
instead (see `blocked`).

Source: git-config(1), `core.hooksPath`
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from acp_agent.regular import TooLargeError
from acp_agent.sandbox.aside import rename
from acp_agent.sandbox.changes import changed
from acp_agent.sandbox.git_programs import named_by_the_user, named_in_settings
from acp_agent.sandbox.nested import common_directory, git_directory_of


def block_programs(
    mark: Path,
    root: Path,
    counts: Callable[[int], bool],
    note_stuck: Callable[[Path, OSError], None],
) -> Iterator[str]:
    """Rename the files that git would run in a repository because its own settings or
    the user's name them by a path in its work tree. Yield a text about each for the
    user.

    :param mark: the repository; see `Below.marks`.
    :param root: the session's directory that contains it.
    :param counts: takes the time of a file's last change, and returns whether to rename
        the file.
    :param note_stuck: called with each file that cannot be renamed.
    """
    place = mark.parent if mark.name == ".git" else mark
    for path in dict.fromkeys(_named_in(place, mark)):
        if not os.path.lexists(path) or not counts(_last_change(path, place)):
            continue
        try:
            for line in _rename(root, path.relative_to(root).parts):
                old, _, new = line.partition(" → ")
                name = new.rpartition("/")[2]
                yield f"{root / old} is now called {name}, since a setting of git names it"
        except OSError as error:
            note_stuck(path, error)


def _named_in(place: Path, mark: Path) -> Iterator[Path]:
    # `neutral` has renamed settings of the command that are too large to be read.
    with suppress(TooLargeError):
        for path in _named(place, mark):
            if path != place and path.is_relative_to(place):
                yield path


def _named(place: Path, mark: Path) -> Iterator[Path]:
    yield from named_by_the_user(place)
    git = git_directory_of(mark)
    if git is not None:
        for each in dict.fromkeys((git, common_directory(git))):
            yield from named_in_settings(each, place)


def _last_change(path: Path, place: Path) -> int:
    """Return the latest change time of a path and of the folders between it and the top
    of the work tree. A folder that was just moved there may contain an older file.
    """
    between = [each for each in path.parents if each != place and place in each.parents]
    return max(changed(each) for each in (path, *between))


def _rename(root: Path, path: tuple[str, ...]) -> Iterator[str]:
    """Rename a path. If one of its parent folders is a link, rename the first such link
    instead.
    """
    for length in range(1, len(path)):
        if root.joinpath(*path[:length]).is_symlink():
            yield from rename(root, path[:length])
            return
    yield from rename(root, path)
