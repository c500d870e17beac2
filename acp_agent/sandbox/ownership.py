"""Checks who owns a file: another user's files do not count as the user's own.

Another user can put `.git`, `AGENTS.md` or `.acp-agent` into a parent folder of a
project that many users can write to, such as `/tmp`. Git decides by the owners of a
work tree and of `.git`. The agent does the same, and checks files as well. Folders that
the user has configured as `safe.directory` in git count as the user's own here too.

Source: git-config(1), `safe.directory`; git's setup.c, `ensure_valid_ownership`
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from acp_agent.programs import find_program, own_environment
from acp_agent.regular import open_resolved

_GIT_SECONDS = 5.0
_MOST_LINKS = 40
"""Maximum number of consecutive links that Linux follows; see path_resolution(7)."""


class ForeignError(OSError):
    """A file belongs to another user of this machine."""


def is_foreign_repository(folder: Path) -> bool:
    """Return whether another user owns a folder with a `.git`, or the `.git` itself.

    :param folder: absolute.
    """
    return (_is_others(f"{folder}/.git") or _is_others(str(folder))) and not _is_safe(
        folder
    )


def is_foreign(path: Path) -> bool:
    """Return whether a file or folder, or a link in its place, belongs to a user other
    than this one or root.

    To read a file, use `open_own`: the path may lead elsewhere a moment later.

    :param path: absolute. If its owner cannot be determined, it counts as foreign.
    """
    return _is_others(str(path)) and not _is_safe(path)


def open_own(path: Path, real: Path) -> BinaryIO:
    """Open a file for reading, and check the owner of the file that was opened and of
    the links that lead to it.

    :param path: absolute.
    :param real: the path's resolved target.
    :raises ForeignError: if the file, or a link in its place, belongs to a user other
        than this one or root.
    :raises OSError: see `open_resolved`.
    """
    file = open_resolved(real)
    try:
        is_own = os.fstat(
            file.fileno()
        ).st_uid in _own_users() and not _has_foreign_link(str(path))
        if not is_own and not (_is_safe(path) and _is_safe(real)):
            raise ForeignError(foreign(path))
    except BaseException:
        file.close()
        raise
    return file


def foreign(path: Path) -> str:
    """Return why another user's file is not used and what to do, as a sentence without
    a full stop.
    """
    folder = path.parent
    return (
        f"it belongs to another user of this machine. If you trust them: `git config --global --add safe.directory "
        f"{folder}`"
    )


def _is_others(path: str) -> bool:
    try:
        owners = {os.lstat(path).st_uid, os.stat(path).st_uid}  # noqa: PTH116 - runs for each folder with each prompt
    except OSError:  # another user may have moved it away just for this moment
        return True
    return not owners <= _own_users()


def _has_foreign_link(path: str) -> bool:
    """Return whether another user owns a link in the place of a file, or a further link
    that it leads to.
    """
    for _ in range(_MOST_LINKS):
        try:
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                return False
            if status.st_uid not in _own_users():
                return True
            path = os.path.join(os.path.dirname(path), os.readlink(path))  # noqa: PTH115, PTH118, PTH120 - `..` stays
        except OSError:
            return True
    return True


def _own_users() -> set[int]:
    own = {os.geteuid(), 0}
    sudo = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and sudo.isascii() and sudo.isdigit():
        own.add(int(sudo))
    return own


def _is_safe(path: Path) -> bool:
    real = os.path.realpath(path)
    above = {real, *map(str, Path(real).parents)}
    return any(
        folder == "*" or folder.removesuffix("/*") in above
        for folder in _safe_folders(tuple(_versions()))
    )


def _versions() -> Iterator[tuple[object, ...]]:
    """Yield values that change whenever git's settings for the user or the machine
    change.
    """
    home = os.environ.get("HOME", "")
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    chosen = os.environ.get("GIT_CONFIG_GLOBAL"), os.environ.get("GIT_CONFIG_SYSTEM")
    for file in (
        f"{home}/.gitconfig",
        f"{config}/git/config",
        "/etc/gitconfig",
        *chosen,
    ):
        try:
            status = os.stat(file or "")  # noqa: PTH116 - as above
            yield file, status.st_mtime_ns, status.st_size
        except OSError:
            yield file, None


@lru_cache(8)
def _safe_folders(versions: tuple[tuple[object, ...], ...]) -> tuple[str, ...]:
    """Return the folders that git considers safe. Only git knows these, since settings
    files may include others.
    """
    del versions
    git = find_program("git")
    if git is None:
        return ()
    command = (git, "config", "--null", "--type=path", "--get-all", "safe.directory")
    env = own_environment()
    nothing = subprocess.DEVNULL
    try:
        # Run git in `/`, where it reads no repository's settings, since a repository
        # could name itself.
        answer = subprocess.check_output(
            command,
            cwd="/",
            env=env,
            stdin=nothing,
            stderr=nothing,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    folders: list[str] = []
    for each in answer.decode(errors="surrogateescape").split("\0")[:-1]:
        if each:
            folders.append(each.rstrip("/") or "/")
        else:
            folders.clear()  # an empty value clears the list
    return tuple(folders)
