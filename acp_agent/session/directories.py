"""The directories that a client names for a session, as paths that can be worked with.

Knows no session, and nothing of what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from acp_agent.errors import InvalidParamsError


def named_directories(cwd: str, additional: Sequence[str]) -> tuple[Path, ...]:
    """The working directory and the further ones; they need not exist.

    :param cwd: absolute path.
    :param additional: absolute paths.
    :raises InvalidParamsError: a path is relative, or none that can be opened.
    """
    return _directory("cwd", cwd), *(_directory("additionalDirectories", path) for path in additional)


def existing_directories(cwd: str, additional: Sequence[str]) -> tuple[Path, ...]:
    """The same, of which all exist.

    :raises InvalidParamsError: a path is relative, or no directory.
    """
    directories = named_directories(cwd, additional)
    if not _is_directory(directories[0]):
        raise InvalidParamsError(f"cwd: {cwd} is not a directory. Open the session in one that exists.")
    for path in directories[1:]:
        if not _is_directory(path):
            raise InvalidParamsError(f"additionalDirectories: {path} is not a directory. Name those that exist.")
    return directories


def _directory(param: str, path: str) -> Path:
    if not Path(path).is_absolute():
        raise InvalidParamsError(f"{param}: {path!r} is not an absolute path. Send the directory's full path.")
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidParamsError(f"{param}: {path[:100]!r} is no path that can be opened ({reason}).") from error
    return Path(path)


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # its name is too long, or a parent may not be looked into
        return False
