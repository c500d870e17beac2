"""The agent's home, which is made private, and the names of a project's folders."""

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
"""Errors of a disk without room, or of a user who may have no more of it."""


def home_dir(env: Mapping[str, str]) -> Path:
    """Return the folder of all state: `ACP_AGENT_HOME`, else where the platform keeps a user's data.

    The default is platformdirs' `user_data_dir`, computed here since platformdirs reads the process's own environment.
    Without `HOME` (some editors pass no environment) the password database has the user's home directory.

    :param env: environment variables.
    :return: an absolute path, which need not exist.
    :raises ConfigError: `ACP_AGENT_HOME` is not an absolute path; or it is not set, and there is no home directory.
    """
    chosen = env.get(HOME_VARIABLE, "")
    user = user_home(env)
    if chosen:
        if user and (chosen == "~" or chosen.startswith("~/")):
            chosen = str(user) + chosen[1:]
        if not chosen.startswith("/"):
            raise ConfigError(f"{chosen!r} is not an absolute path; name a folder from / on", source=HOME_VARIABLE)
        return Path(chosen)
    if (xdg := env.get("XDG_DATA_HOME", "")).startswith("/"):
        return Path(xdg, _APP)
    if user is None:
        raise ConfigError("is needed, since you have no home directory; name a folder from / on", source=HOME_VARIABLE)
    return user.joinpath(*_DATA_FOLDER, _APP)


_DATA_FOLDER = ("Library", "Application Support") if sys.platform == "darwin" else (".local", "share")


def user_home(env: Mapping[str, str]) -> Path | None:
    """Return the user's home directory: `HOME`, else the password database's; None where neither has one."""
    home = env.get("HOME", "")
    if not home.startswith("/"):
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return Path(home) if home.startswith("/") else None


def ensure_private_dir(path: Path) -> Path:
    """Make a folder that only its owner can enter (mode 0700), or close an existing one.

    Its `config.yaml`, whose headers may hold tokens, and its file of keys are closed to others as well.

    :param path: absolute path; missing parents are made.
    :return: `path`.
    :raises ConfigError: it cannot be made or written, or is shared by the system (`/`, `/tmp`).
    """
    advice = f"set {HOME_VARIABLE} to a folder that you can write to"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
        if mode & stat.S_ISVTX or path == path.parent:
            raise ConfigError(
                f"this folder belongs to the whole system; set {HOME_VARIABLE} to one for the agent alone",
                source=str(path),
            )
        if mode & 0o077:
            path.chmod(0o700)
        with folder_at(path.resolve()) as folder:
            for name in (CONFIG_FILE, KEYS_FILE):
                _make_private(name, folder)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise ConfigError("the disk with this folder is full; make room and try again", source=str(path)) from error
        raise ConfigError(f"cannot use this folder ({error.strerror}); {advice}", source=str(path)) from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"this folder is not writable; {advice}", source=str(path))
    return path


def _make_private(name: str, folder: int) -> None:
    """Close a regular file of ours in an open folder to everybody else. What a link leads to is left as it is."""
    with suppress(OSError):  # it is not there, or mounted read-only, as containers do
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o077:
            change_mode(name, lambda _: 0o600, folder)
