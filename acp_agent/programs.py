"""Finds the programs that the agent itself starts, and builds their environment.

PATH often contains folders that others can write to, such as a project's `.venv/bin`, a
cache or a shared folder. A program planted there would run with the agent's
permissions, outside the sandbox. So the agent does not search these folders for git,
bwrap, shells, the user's hooks and MCP servers. The model's commands keep the agent's
PATH, because they run in the sandbox or need the user's permission.

Source: environ(7), "PATH"; ld.so(8), "LD_LIBRARY_PATH"; credentials(7)
"""

# Functions of `os` are several times faster here than those of `Path`.
# ruff: noqa: PTH113, PTH116, PTH117, PTH120
from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from acp_agent.nofollow import resolved
from acp_agent.processes import git_variables

LOADER_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH")
"""Variables that make the dynamic loader and the C library load other code into every
program.
"""
_LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB")
"""Variables that list folders with programs or code. An empty entry means the working
directory.
"""
_OF_THE_USER = (
    "HOME",
    "LOGNAME",
    "USER",
    "SHELL",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
)
_OF_THE_USER_PREFIXES = ("LC_", "XDG_", "GIT_")

_WRITERS = "projects, commands in the sandbox, or other users of this machine"

_projects: set[str] = set()
_folders: set[str] = set()


def distrust(
    projects: Iterable[Path | str] = (),
    folders: Iterable[Path | str] = (),
    former: Iterable[str] = (),
) -> None:
    """Never run programs from these folders or their subfolders, for the life of this
    process.

    :param projects: directories of sessions. If one is in a repository, the whole
        repository counts, unless it contains the user's home.
    :param folders: other folders that sandboxed commands may write to.
    :param former: directories of earlier sessions, where a command may have left a
        program.
    """
    for place in former:
        if place not in _projects and os.path.isabs(place):
            with suppress(ValueError):  # the text is not a valid path
                _projects.update((place, os.path.realpath(place)))
    _projects.update(
        _with_repositories(
            place for place in map(str, projects) if place not in _projects
        )
    )
    for place in map(str, folders):
        _folders.update((place, os.path.realpath(place)))


def search_path(path: str | None = None, *, holding_home: bool = True) -> str:
    """Return a search path without the folders that others can write to. The remaining
    folders are resolved.

    "Others" are projects, sandboxed commands, and other users of the machine. The
    owners of the system and of the agent's Python interpreter are trusted.

    :param path: folders separated by `:`; the agent's own PATH if None.
    :param holding_home: whether to distrust a project that contains the user's home.
        False for the user's own hooks and MCP servers, which often live in the home.
    """
    listed = os.environ.get("PATH", os.defpath) if path is None else path
    closed = _closed(holding_home)
    checked = dict[str, bool]()
    kept: dict[str, None] = {}
    for place in listed.split(os.pathsep):
        if os.path.isabs(place):
            real = os.path.realpath(place)
            if not any(_is_below(each, closed) for each in (place, real)) and _is_ours(
                real, checked
            ):
                kept[real] = None
    return os.pathsep.join(kept)


def find_program(
    name: str,
    path: str | None = None,
    *,
    holding_home: bool = True,
    projects: Iterable[Path] = (),
) -> str | None:
    """Return the absolute path of a program, or None if it is missing or only in a
    folder that others can write to.

    :param name: a name to look up, or an absolute path, which is returned unchanged. A
        relative path is never found.
    :param path: the folders to search; see `search_path`.
    :param projects: additional directories that only this lookup distrusts; see
        `distrust`.
    """
    if os.path.isabs(name):
        return name
    if not name or "/" in name:
        return None
    closed = _closed(holding_home) | _with_repositories(map(str, projects))
    checked = dict[str, bool]()
    if path is None and holding_home:
        folders = _own_folders(
            os.environ.get("PATH", os.defpath), len(_projects), len(_folders)
        )
    else:
        folders = search_path(path, holding_home=holding_home)
    for folder in folders.split(os.pathsep):
        found = f"{folder}/{name}"
        if (
            folder
            and os.path.isfile(found)
            and os.access(found, os.X_OK)
            and not _is_below(found, closed)
        ):
            # Many programs depend on the name they are called by, so return the link
            # and not its target.
            real = os.path.realpath(found)
            if not _is_below(real, closed) and _is_ours(real, checked):
                return found
    return None


def missing_program(name: str, path: str | None = None) -> str:
    """Return why `find_program` does not find a program and what to do about it,
    without a final full stop.

    :param path: folders separated by `:`; the agent's own PATH if None.
    """
    if name and "/" not in name:
        listed = os.environ.get("PATH", os.defpath) if path is None else path
        if found := shutil.which(name, path=listed):
            return f"{found} is not run, because others can write there: {_WRITERS}; give the program's full path"
        return f"{name} was not found on the PATH"
    return f"{name or 'the empty name'} is neither a program's name nor a full path"


def settle_platform() -> None:
    """Keep the `platform` module from running `uname -p`, which it would look up on the
    agent's unfiltered PATH.

    The providers' SDKs and `doctor --report` ask `platform` for the name of the system.
    """
    import platform

    vars(platform.uname()).setdefault("processor", "")


def shell() -> str:
    """Return the shell that runs command lines: bash, or `/bin/sh` if there is none."""
    return find_program("bash") or "/bin/sh"


def own_environment() -> dict[str, str]:
    """Return the environment for a program that the agent starts for its own purposes,
    such as git.

    It contains only the variables that such a program needs, and no keys.
    """
    named = {name: value for name, value in os.environ.items() if name in _OF_THE_USER}
    named |= {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_OF_THE_USER_PREFIXES)
    }
    # A repository can configure a program that git runs to fetch missing objects.
    offline = {
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    return (
        without_others(named | {"PATH": os.environ.get("PATH", os.defpath)})
        | git_variables()
        | offline
    )


def without_others(
    env: Mapping[str, str], *, holding_home: bool = True
) -> dict[str, str]:
    """Return environment variables after filtering each list of folders with
    `search_path`.
    """
    cleaned = dict(env)
    for name in _LISTS:
        if name in cleaned:
            cleaned[name] = search_path(cleaned[name], holding_home=holding_home)
            # Some programs take an empty list to mean the working directory.
            if not cleaned[name]:
                del cleaned[name]
    cleaned.setdefault("PATH", os.defpath)
    return cleaned


@lru_cache(4)
def _own_folders(path: str, projects: int, folders: int) -> str:
    """Return `search_path(path)`, cached because every command of the model needs it
    twice.

    :param projects: number of distrusted projects, so that a new one changes the
        cache's key.
    :param folders: number of distrusted folders, for the same reason.
    """
    return search_path(path)


def _closed(holding_home: bool) -> set[str]:
    # If `/` is a project, it contains every program of the system, and ordinary users
    # cannot write to those anyway.
    home = {"/"} if holding_home else {*_upwards(os.path.realpath(Path.home()))}
    return _folders | (_projects - home)


def _with_repositories(projects: Iterable[str]) -> set[str]:
    """Return the directories, their real paths, and the repositories that contain them."""
    places = set[str]()
    for place in projects:
        places.update((place, str(resolved(Path(place)))))
    return places.union(*map(_repositories_around, places))


def _repositories_around(folder: str) -> list[str]:
    """Return the repositories that contain a folder, except those that contain the
    user's home.
    """
    home = {*_upwards(os.path.realpath(Path.home()))}
    return [
        place
        for place in _upwards(folder)
        if place not in home and os.path.lexists(f"{place}/.git")
    ]


def _is_below(path: str, folders: set[str]) -> bool:
    return any(place in folders for place in _upwards(path))


def _upwards(path: str) -> Iterator[str]:
    """Yield an absolute path and every folder above it."""
    yield path
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        yield path


def _is_ours(path: str, checked: dict[str, bool]) -> bool:
    """Return whether no other user can change or replace the file at a path.

    :param path: without symbolic links.
    :param checked: results for folders checked earlier; this function updates it.
    """
    for place in _upwards(path):
        is_last = place == path
        key = f"{place}/" if is_last else place
        if key not in checked:
            checked[key] = _is_closed_to_others(place, is_last=is_last)
        if not checked[key]:
            return False
    return True


def _is_closed_to_others(place: str, *, is_last: bool) -> bool:
    try:
        found = os.stat(place)
    except OSError:
        return False
    if found.st_uid not in _owners():
        return False
    # In a sticky folder nobody can rename or remove another user's entries, but anybody
    # can add entries.
    if found.st_mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode) and not is_last:
        return True
    if found.st_mode & stat.S_IWOTH:
        return False
    return not found.st_mode & stat.S_IWGRP or _is_own_group(found.st_gid)


@cache
def _owners() -> frozenset[int]:
    """Return the IDs of the trusted users: the current user, and all users who could
    change the agent anyway.

    In a user namespace, files of root may appear to belong to `nobody`, as `/` does.
    """
    owners = {0, os.getuid(), os.geteuid()}
    for place in ("/", sys.base_prefix, os.path.realpath(sys.executable)):
        with suppress(OSError):
            owners.add(os.stat(place).st_uid)
    return frozenset(owners)


@cache
def _is_own_group(group: int) -> bool:
    """Return whether a group has only trusted members, as a user's private group does."""
    import grp
    import pwd

    if group == 0:
        return True
    try:
        members = set(grp.getgrgid(group).gr_mem)
        names = {pwd.getpwuid(owner).pw_name for owner in (os.getuid(), os.geteuid())}
    except KeyError:
        return False
    others = (
        user.pw_name
        for user in pwd.getpwall()
        if user.pw_gid == group and user.pw_uid not in _owners()
    )
    return not members - names - {"root"} and not any(others)
