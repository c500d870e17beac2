"""The token that clients of `acp-agent serve` have to send: where it comes from, and what is done so that no command of
the agent comes upon it. Knows nothing of who sends it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import MutableMapping
from pathlib import Path

from acp_agent.errors import AgentError
from acp_agent.masking.texts import remember_secret

VARIABLE = "ACP_AGENT_TOKEN"
MIN_CHARACTERS = 16
"""Shorter ones can be guessed."""
_MAX_BYTES = 4096
_OTHERS = 0o077
"""The bits of a file's mode that let anybody else in."""


def read_token(file: str | None, env: MutableMapping[str, str]) -> str | None:
    """What clients have to know; None where nothing is said of it. From now on it is masked in whatever this process
    writes down. The variable is taken out of the environment, also out of where `/proc` shows it.

    :param file: the file that has it, or a pipe.
    :param env: environment variables.
    :raises AgentError: the file cannot be read, or others can read it as well, or what is there is no token.
    """
    given = env.get(VARIABLE)
    if given is not None:
        remember_secret(given.strip())
        _overwrite(VARIABLE)
        del env[VARIABLE]
    said, where = (given, VARIABLE) if file is None else (_content(file), file)
    if said is None:
        return None
    token = said.strip()
    if len(token) < MIN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise AgentError(
            f"{where} has no token that can be used: it takes at least {MIN_CHARACTERS} letters, digits and signs "
            "without spaces, as `openssl rand -hex 32` makes them."
        )
    remember_secret(token)
    return token


def _content(file: str) -> str:
    """As ssh does with keys: a file that is yours must be for you alone."""
    try:
        with Path(file).open("rb") as opened:
            status = os.fstat(opened.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and status.st_mode & _OTHERS:
                mode = stat.S_IMODE(status.st_mode)
                raise AgentError(
                    f"The token in {file} is no secret: other users of this machine may read or change the file (mode "
                    f"{mode:04o}). Make another token, and the file yours alone: chmod 600 {file}"
                )
            return opened.read(_MAX_BYTES).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise AgentError(f"The token in {file} cannot be read ({reason}).") from None


def _overwrite(name: str) -> None:
    """Taking a variable out of the environment leaves its text where it was, and there other processes of the same user
    read it: Linux shows it as `/proc/PID/environ`, macOS to `ps`."""
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    address: int | None = getenv(name.encode())
    if address:
        ctypes.memset(address, 0, len(ctypes.string_at(address)))
