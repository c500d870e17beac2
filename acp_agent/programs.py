"""Finds the programs that the agent itself starts, and builds their environment.

PATH often names folders that others can write to: a project's `.venv/bin`, a cache, a shared folder. A program that was
planted there would run with the agent's rights and outside of the sandbox. So these folders are not searched for
git, bwrap, shells, the user's hooks and MCP servers. The model's commands keep the agent's PATH, since they are asked
for or run in the sandbox.

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

from acp_agent.processes import git_variables

LOADER_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH")
"""Name code that the dynamic loader and the C library put into every program that is started."""
_LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB")
"""Lists of folders from which programs are run or code is loaded. An empty entry means the working directory."""
_OF_THE_USER = ("HOME", "LOGNAME", "USER", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LD_LIBRARY_PATH")
_OF_THE_USER_PREFIXES = ("LC_", "XDG_", "GIT_")

_WRITERS = "projects, commands in the sandbox, or other users of this machine"

_projects: set[str] = set()
_folders: set[str] = set()


def distrust(
    projects: Iterable[Path | str] = (), folders: Iterable[Path | str] = (), former: Iterable[str] = ()
) -> None:
    """Run no program from these folders or below them, as long as this process lives.

    :param projects: directories of sessions, which a command, an edit or the repository itself fills. If one is in a
        repository, all of that counts, unless it holds the home.
    :param folders: other folders that sandboxed commands may write to.
    :param former: directories of other sessions, in which a command may have left a program.
    """
    for place in former:
        if place not in _projects and os.path.isabs(place):
            with suppress(ValueError):  # the text is not a valid path
                _projects.update((place, os.path.realpath(place)))
    _projects.update(_with_repositories(place for place in map(str, projects) if place not in _projects))
    for place in map(str, folders):
        _folders.update((place, os.path.realpath(place)))


def search_path(path: str | None = None, *, holding_home: bool = True) -> str:
    """Return a search path without the folders that others can write to, and with the real path of each of the rest.

    Others are projects, sandboxed commands, and other users of the machine. Whoever owns the system or the interpreter
    that runs the agent is none of them.

    :param path: folders with `:` between them; the agent's own PATH if None.
    :param holding_home: whether all of a project that holds the home counts. The user's own hooks and MCP servers may
        have no other place than the home.
    """
    listed = os.environ.get("PATH", os.defpath) if path is None else path
    closed, checked = _closed(holding_home), dict[str, bool]()
    kept: dict[str, None] = {}
    for place in listed.split(os.pathsep):
        if os.path.isabs(place):
            real = os.path.realpath(place)
            if not any(_is_below(each, closed) for each in (place, real)) and _is_ours(real, checked):
                kept[real] = None
    return os.pathsep.join(kept)


def find_program(
    name: str, path: str | None = None, *, holding_home: bool = True, projects: Iterable[Path] = ()
) -> str | None:
    """Return the absolute path of a program; None if there is none, or if only others' folders have it.

    :param name: a name to look up, or an absolute path, which is returned as it is. Other relative paths lead nowhere.
    :param path: where to look; see `search_path`.
    :param projects: directories that this lookup distrusts in addition, as `distrust` does.
    """
    if os.path.isabs(name):
        return name
    if not name or "/" in name:
        return None
    closed, checked = _closed(holding_home) | _with_repositories(map(str, projects)), dict[str, bool]()
    if path is None and holding_home:
        folders = _own_folders(os.environ.get("PATH", os.defpath), len(_projects), len(_folders))
    else:
        folders = search_path(path, holding_home=holding_home)
    for folder in folders.split(os.pathsep):
        found = f"{folder}/{name}"
        if folder and os.path.isfile(found) and os.access(found, os.X_OK) and not _is_below(found, closed):
            # Many programs go by the name that they are called with, so that a link is run as it is.
            real = os.path.realpath(found)
            if not _is_below(real, closed) and _is_ours(real, checked):
                return found
    return None


def missing_program(name: str, path: str | None = None) -> str:
    """Return why `find_program` does not find a program, and what to do about it, as a clause without its full stop.

    :param path: folders with `:` between them; the agent's own PATH if None.
    """
    if name and "/" not in name:
        listed = os.environ.get("PATH", os.defpath) if path is None else path
        if found := shutil.which(name, path=listed):
            return f"{found} is not run, because others can write there: {_WRITERS}; name a program by its full path"
        return f"{name} is no program on the PATH"
    return f"{name or 'the empty name'} is no name of a program and no full path"


def settle_platform() -> None:
    """Keep `platform` from running `uname -p` to find out the processor, which it looks for on the agent's whole PATH.

    The SDKs of the providers ask it for the name of the system, and so does a report.
    """
    import platform

    vars(platform.uname()).setdefault("processor", "")


def shell() -> str:
    """Return the shell that runs command lines: bash, or `/bin/sh` if there is none."""
    return find_program("bash") or "/bin/sh"


def own_environment() -> dict[str, str]:
    """Return the environment of a program that the agent starts for its own purposes, such as git.

    It holds no key: only what such a program needs of the agent's environment is in it.
    """
    named = {name: value for name, value in os.environ.items() if name in _OF_THE_USER}
    named |= {name: value for name, value in os.environ.items() if name.startswith(_OF_THE_USER_PREFIXES)}
    # A repository can name a program that fetches what is missing in it.
    offline = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return without_others(named | {"PATH": os.environ.get("PATH", os.defpath)}) | git_variables() | offline


def without_others(env: Mapping[str, str], *, holding_home: bool = True) -> dict[str, str]:
    """Return environment variables whose lists of folders name only those that `search_path` keeps."""
    cleaned = dict(env)
    for name in _LISTS:
        if name in cleaned:
            cleaned[name] = search_path(cleaned[name], holding_home=holding_home)
            if not cleaned[name]:  # which would mean the working directory to some programs
                del cleaned[name]
    cleaned.setdefault("PATH", os.defpath)
    return cleaned


@lru_cache(4)
def _own_folders(path: str, projects: int, folders: int) -> str:
    """Return `search_path`, which every command of the model needs twice.

    :param projects: how many there are, so that the path is searched anew if there are more; `folders` likewise.
    """
    return search_path(path)


def _closed(holding_home: bool) -> set[str]:
    # Programs below `/` cannot be told from a project there, and few users can write them.
    home = {"/"} if holding_home else {*_upwards(os.path.realpath(Path.home()))}
    return _folders | (_projects - home)


def _with_repositories(projects: Iterable[str]) -> set[str]:
    """Return directories, what links in their paths lead to, and the repositories around them."""
    places = {each for place in projects for each in (place, os.path.realpath(place))}
    return places.union(*map(_repositories_around, places))


def _repositories_around(folder: str) -> list[str]:
    """Return the folders of the repositories around a folder, without those that hold the home."""
    home = {*_upwards(os.path.realpath(Path.home()))}
    return [place for place in _upwards(folder) if place not in home and os.path.lexists(f"{place}/.git")]


def _is_below(path: str, folders: set[str]) -> bool:
    return any(place in folders for place in _upwards(path))


def _upwards(path: str) -> Iterator[str]:
    """Yield an absolute path and every folder above it."""
    yield path
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        yield path


def _is_ours(path: str, checked: dict[str, bool]) -> bool:
    """Return whether no other user can change what is at a path, or put something else there.

    :param path: without symbolic links.
    :param checked: folders that have been looked at, and the answers; this function adds to it.
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
    # Nobody can rename or remove another user's entry of a sticky folder, but everybody can add one.
    if found.st_mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode) and not is_last:
        return True
    if found.st_mode & stat.S_IWOTH:
        return False
    return not found.st_mode & stat.S_IWGRP or _is_own_group(found.st_gid)


@cache
def _owners() -> frozenset[int]:
    """Return the ids of the users whose folders are trusted: this one, and those who could change the agent anyway.

    In a user namespace, what belongs to root may seem to be `nobody`'s, as `/` does.
    """
    owners = {0, os.getuid(), os.geteuid()}
    for place in ("/", sys.base_prefix, os.path.realpath(sys.executable)):
        with suppress(OSError):
            owners.add(os.stat(place).st_uid)
    return frozenset(owners)


@cache
def _is_own_group(group: int) -> bool:
    """Return whether only trusted users are members of a group, such as the one that a user has for themselves."""
    import grp
    import pwd

    if group == 0:
        return True
    try:
        members = set(grp.getgrgid(group).gr_mem)
        names = {pwd.getpwuid(owner).pw_name for owner in (os.getuid(), os.geteuid())}
    except KeyError:
        return False
    others = (user.pw_name for user in pwd.getpwall() if user.pw_gid == group and user.pw_uid not in _owners())
    return not members - names - {"root"} and not any(others)
