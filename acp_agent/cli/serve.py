"""`acp-agent serve`: the agent for clients that connect over WebSocket, until ctrl-c."""

from __future__ import annotations

import argparse
import ctypes
import ipaddress
import os
import stat
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import anyio

from acp_agent.app import SessionsDatabase, connection, start_home_logging
from acp_agent.cli.terminal.process import aside
from acp_agent.errors import AgentError
from acp_agent.installing import install_command
from acp_agent.secrets.known import remember_secret
from acp_agent.server.web import (
    PATH,
    AccessPolicy,
    WebServer,
    WebSocketEndpoint,
    listening_socket,
    parse_origin,
)

VARIABLE = "ACP_AGENT_TOKEN"
MIN_CHARACTERS = 16


def _address(text: str) -> tuple[str, int]:
    """Return host and port of an address that is written as `HOST:PORT`, `HOST` or
    `PORT`; 0 for any free port.

    :raises AgentError: it is no address.
    """
    try:
        parts = urlsplit(f"//127.0.0.1:{text}" if text.isdecimal() else f"//{text}")
        host = parts.hostname
        port = parts.port or 0
    except ValueError:
        host = None
        port = 0
    if not host or "@" in text or "/" in text:
        raise AgentError(
            f"{text!r} is not an address. Write HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080."
        )
    return "127.0.0.1" if host == "localhost" else host, port


def _is_loopback(host: str) -> bool:
    """Return whether this machine alone can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "--websocket",
        action="append",
        default=[],
        dest="addresses",
        metavar="HOST:PORT",
        help="address to listen on; may be repeated. Port 0 means any free port. Addresses other than "
        "loopback need a token (default: `127.0.0.1:0`)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file or pipe with the token that clients must send; alternatively, set `ACP_AGENT_TOKEN`",
    )
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        dest="origins",
        metavar="ORIGIN",
        help="allow web pages of this origin to connect, such as http://localhost:2718; may be repeated",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Serve until this is cancelled.

    :returns: 0.
    :raises AgentError: it cannot listen there, may not without a token, or the token or
        an origin is of no use.
    """
    env = os.environ
    token = _read_token(arguments.token_file)
    origins = list(map(parse_origin, arguments.origins))
    addresses = list(
        dict.fromkeys(map(_address, arguments.addresses or ["127.0.0.1:0"]))
    )
    exposed = [host for host, _ in addresses if not _is_loopback(host)]
    if token is None and exposed:
        raise AgentError(
            f"{exposed[0]} is not a loopback address: anyone who can reach it could run commands here as you. Set a "
            f"token, in a file (--token-file FILE) or as {VARIABLE}, or listen on 127.0.0.1 and forward the port with "
            "ssh."
        )
    if find_spec("websockets") is None:
        raise AgentError(
            f"acp-agent serve needs the extra `serve`, which is not installed: {install_command('serve')}."
        )
    start_home_logging(env)
    sockets = [listening_socket(*address) for address in addresses]
    async with aclosing(SessionsDatabase(env)) as database:
        access = AccessPolicy(token, [host for host, _ in addresses], origins)
        endpoint = WebSocketEndpoint(
            access, lambda transport: connection(transport, database, env)
        )
        server = WebServer(endpoint.app())
        if exposed:
            aside(
                f"There is no TLS: others on the network can read and change the token, prompts and "
                f"files on their way to {exposed[0]}. "
                "Put a proxy with TLS in front, or listen on 127.0.0.1 and forward the port with ssh."
            )
        for (host, _), listening in zip(addresses, sockets, strict=True):
            authority = (
                f"{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
            )
            aside(f"Serving ACP at ws://{authority}{PATH}. Ctrl-c ends it.")
        if token is None:
            aside("Without a token, every user of this machine can connect.")
        try:
            await server.serve(sockets)
        finally:
            with anyio.CancelScope(shield=True):
                database.begin_shutdown()
                with anyio.move_on_after(5):
                    await endpoint.close()
                if server.started:
                    await server.shutdown(sockets)
    return 0


def _read_token(file: str | None) -> str | None:
    """Return the token, or None where there is none; mask it from now on in what is
    logged and recorded, and take the variable out of the environment.

    :param file: holds the token, or is a pipe.
    :raises AgentError: the file cannot be read, or others can read it as well, or there
        is no token in it.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        remember_secret(given.strip())
        _erase_variable()
        del os.environ[VARIABLE]
    text, source = (given, VARIABLE) if file is None else (_content(file), file)
    if text is None:
        return None
    token = text.strip()
    if (
        len(token) < MIN_CHARACTERS
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise AgentError(
            f"{source} has no token that can be used: it takes at least {MIN_CHARACTERS} letters, digits and signs "
            "without spaces, as `openssl rand -hex 32` makes them."
        )
    remember_secret(token)
    return token


def _content(file: str) -> str:
    """Return what a file says; one that others may read or change is refused, as ssh
    refuses such keys.
    """
    try:
        with Path(file).open("rb") as opened:
            status = os.fstat(opened.fileno())
            mode = stat.S_IMODE(status.st_mode)
            if (
                stat.S_ISREG(status.st_mode)
                and status.st_uid == os.getuid()
                and mode & 0o077
            ):
                raise AgentError(
                    f"The token in {file} is not secret: other users of this machine can read or change the file (mode "
                    f"{mode:04o}). Create another token, and restrict the file: chmod 600 {file}"
                )
            return opened.read(4096).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise AgentError(f"The token in {file} cannot be read ({reason}).") from None


def _erase_variable() -> None:
    """Overwrite the variable's text, which `/proc/PID/environ` and `ps` would go on to
    show to commands.
    """
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    address: int | None = getenv(VARIABLE.encode())
    if address:
        ctypes.memset(address, 0, len(ctypes.string_at(address)))
