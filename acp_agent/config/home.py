"""The agent's home folder, which only the user can access, and the names of a project's
folders.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from acp_agent.errors import ConfigError
from acp_agent.nofollow import change_mode, folder_at

_APP = "acp-agent"
CONFIG_FILE = "config.yaml"
KEYS_FILE = "keys.json"
HOME_VARIABLE = "ACP_AGENT_HOME"
PROJECT_FOLDER = ".acp-agent"
CLAUDE_FOLDER = ".claude"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors for a full disk or an exceeded quota."""


def home_dir(env: Mapping[str, str]) -> Path:
    """Return the agent's home, which contains all state: `ACP_AGENT_HOME`, or a folder
    in the platform's folder for user data.

    The default is the same as that of platformdirs' `user_data_dir`, which is not used
    because it reads the process's own environment. If `HOME` is missing, as in editors
    that pass no environment, the password database provides the user's home directory.

    :param env: environment variables.
    :return: an absolute path, which may not exist.
    :raises ConfigError: if `ACP_AGENT_HOME` is not an absolute path, or is not set and
        there is no home directory.
    """
    chosen = env.get(HOME_VARIABLE, "")
    user = user_home(env)
    if chosen:
        if user and (chosen == "~" or chosen.startswith("~/")):
            chosen = str(user) + chosen[1:]
        if not chosen.startswith("/"):
            raise ConfigError(
                f"{chosen!r} is not an absolute path; set it to one that begins with /",
                source=HOME_VARIABLE,
            )
        return Path(chosen)
    if (xdg := env.get("XDG_DATA_HOME", "")).startswith("/"):
        return Path(xdg, _APP)
    if user is None:
        raise ConfigError(
            "is required, since you have no home directory; set it to an absolute path",
            source=HOME_VARIABLE,
        )
    return user.joinpath(*_DATA_FOLDER, _APP)


_DATA_FOLDER = (
    ("Library", "Application Support")
    if sys.platform == "darwin"
    else (".local", "share")
)


def user_home(env: Mapping[str, str]) -> Path | None:
    """Return the user's home directory from `HOME` or the password database, or None if
    neither has one.
    """
    home = env.get("HOME", "")
    if not home.startswith("/"):
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return Path(home) if home.startswith("/") else None


def ensure_private_dir(path: Path) -> Path:
    """Create a folder that only its owner can access (mode 0700), or make an existing
    folder private.

    The folder's `config.yaml`, which may contain tokens in headers, and `keys.json` are
    made private as well.

    :param path: absolute path; missing parents are created.
    :return: `path`.
    :raises ConfigError: if the folder cannot be created or written to, or belongs to
        the whole system (`/`, `/tmp`).
    """
    advice = f"set {HOME_VARIABLE} to a folder that you can write to"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
        if mode & stat.S_ISVTX or path == path.parent:
            raise ConfigError(
                f"this folder belongs to the whole system; set {HOME_VARIABLE} to a folder that only the agent uses",
                source=str(path),
            )
        if mode & 0o077:
            path.chmod(0o700)
        with folder_at(path.resolve()) as folder:
            for name in (CONFIG_FILE, KEYS_FILE):
                _make_private(name, folder)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise ConfigError(
                "the disk with this folder is full; make room and try again",
                source=str(path),
            ) from error
        raise ConfigError(
            f"cannot use this folder ({error.strerror}); {advice}", source=str(path)
        ) from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"this folder is not writable; {advice}", source=str(path))
    return path


def _make_private(name: str, folder: int) -> None:
    """Make a regular file of the user in an open folder private. The target of a
    symbolic link is not changed.
    """
    # The file may not exist, or may be mounted read-only, as in containers.
    with suppress(OSError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.geteuid()
            and status.st_mode & 0o077
        ):
            change_mode(name, lambda _: 0o600, folder)
