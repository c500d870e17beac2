"""Reads the token that clients of `acp-agent serve` have to send, and keeps commands of the agent from finding it."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import MutableMapping
from pathlib import Path

from acp_agent.errors import AgentError
from acp_agent.secrets.known import remember_secret

VARIABLE = "ACP_AGENT_TOKEN"
MIN_CHARACTERS = 16


def read_token(file: str | None, env: MutableMapping[str, str]) -> str | None:
    """Return the token, or None where there is none; mask it from now on in what is logged and recorded, and take the
    variable out of the environment.

    :param file: holds the token, or is a pipe.
    :raises AgentError: the file cannot be read, or others can read it as well, or there is no token in it.
    """
    given = env.get(VARIABLE)
    if given is not None:
        remember_secret(given.strip())
        _erase_variable()
        del env[VARIABLE]
    text, source = (given, VARIABLE) if file is None else (_content(file), file)
    if text is None:
        return None
    token = text.strip()
    if len(token) < MIN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise AgentError(
            f"{source} has no token that can be used: it takes at least {MIN_CHARACTERS} letters, digits and signs "
            "without spaces, as `openssl rand -hex 32` makes them."
        )
    remember_secret(token)
    return token


def _content(file: str) -> str:
    """Return what a file says; one that others may read or change is refused, as ssh refuses such keys."""
    try:
        with Path(file).open("rb") as opened:
            status = os.fstat(opened.fileno())
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and mode & 0o077:
                raise AgentError(
                    f"The token in {file} is no secret: other users of this machine may read or change the file (mode "
                    f"{mode:04o}). Make another token, and the file yours alone: chmod 600 {file}"
                )
            return opened.read(4096).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise AgentError(f"The token in {file} cannot be read ({reason}).") from None


def _erase_variable() -> None:
    """Overwrite the variable's text, which `/proc/PID/environ` and `ps` would go on to show to commands."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    address: int | None = getenv(VARIABLE.encode())
    if address:
        ctypes.memset(address, 0, len(ctypes.string_at(address)))
