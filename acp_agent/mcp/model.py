"""The data model of MCP servers: how an entry is run, what a server offers, and the
channel to an editor's servers.

An entry may refer to environment variables of the agent (see `variables`), so that
tokens can stay out of files. Tools, prompts and content are the SDK's own models, which
are imported only for type checkers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from acp_agent.config.forms import http_url
from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.mcp.variables import expanded, named_in
from acp_agent.secrets.names import is_secret_variable
from acp_agent.tools.text import digest

if TYPE_CHECKING:
    from mcp.types import Prompt, Tool

PROJECT = ("ACP_AGENT_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
"""The variables that name the session's directory, as for hooks. The second is Claude
Code's name.
"""
INHERITED = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TMPDIR", "TZ"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES"),
    *(
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    ),
    *(
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
    ),
    *("NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY"),
    *PROJECT,
)
"""The variables that a server inherits from the agent's environment; none of them holds
a key.
"""
_PROXIES = (
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
)
"""The proxy variables, which a server also inherits unless their address contains a
login.
"""
SERVER_SECTION = "MCP server "
"""Prefix of the names of the system prompt sections that hold a server's instructions."""
START_SECONDS = 60.0
"""Long enough for a server that must be downloaded first."""
_SHORTEST_SECRET = 6
"""Minimum length of a masked value; masking shorter values would garble messages."""
_DIGITS = 12
"""Number of hexadecimal digits of an identity; few, since people read them."""


OnNotification: TypeAlias = Callable[[str, JsonObject | None], None]
"""Called with the method and params of each notification that belongs to a request."""


class HandshakeRefusedError(ToolError):
    """The server answered, but refused this way of negotiating the version."""


class UnansweredError(ToolError):
    """A request was sent but not answered; the server may have carried it out."""


class ServerGoneError(ToolError):
    """The editor no longer has this server."""


@frozen
class Offer:
    """Everything that a server offers.

    :ivar resources: the URIs of the server's resources.
    :ivar instructions: the server's instructions for the model.
    """

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[str, ...] = ()
    instructions: str = ""


class McpChannel(Protocol):
    """Carries requests to the servers that an editor itself provides."""

    async def ask(
        self,
        server_id: str,
        request_id: str,
        method: str,
        params: JsonObject | None,
        notified: OnNotification,
    ) -> JsonObject:
        """Send a request and wait for its response. Cancelling the caller cancels the
        request.

        :param server_id: the editor's id for the server.
        :param request_id: an id that was not used before on this channel.
        :param notified: called with each notification until the response arrives; must
            not block.
        :returns: the response as the editor sent it, with the member `result` or
            `error`.
        :raises ServerGoneError: if the server will not answer later requests either.
        :raises ToolError: if the request was not answered. The message says why.
        """
        ...


@frozen
class ServerOptions:
    """How the servers of a session run.

    :ivar roots: the session's directories.
    :ivar env: the agent's environment variables and those in `PROJECT`.
    :ivar elicits: whether servers may ask the user something while one of their tools
        runs.
    :ivar channel: the channel to the servers that the editor itself provides.
    :ivar start_seconds: how long a server may take from its start until its offer is
        listed.
    """

    roots: Sequence[Path]
    env: Mapping[str, str]
    elicits: bool = False
    channel: McpChannel | None = None
    start_seconds: float = START_SECONDS


def environment_for(directory: Path) -> dict[str, str]:
    """Return the agent's environment variables and those that name the session's
    directory.
    """
    return {**os.environ, **dict.fromkeys(PROJECT, str(directory))}


def inherited(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the agent's environment that every server gets."""
    names = (*INHERITED, *(name for name in _PROXIES if "@" not in env.get(name, "")))
    return {name: env[name] for name in names if name in env}


def withheld_proxies(server: McpServer, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the proxy variables that the server does not inherit because
    they contain a login.
    """
    if server.transport != "stdio":
        return ()
    return tuple(
        name for name in _PROXIES if "@" in env.get(name, "") and name not in server.env
    )


def with_values(server: McpServer, env: Mapping[str, str]) -> McpServer:
    """Return the entry with its variables expanded.

    :param env: the agent's environment.
    :raises ToolError: if a variable is not set, or `url` is not a valid address once
        its variables are replaced.
    """
    if not server.variables:
        return server
    url = expanded(server.url, env, "url")
    if url != server.url:
        try:
            url = http_url(url)
        except ValueError as error:
            raise ToolError(
                f"`url` of its entry {error}, but is not once its variables are expanded"
            ) from None
    return replace(
        server,
        command=expanded(server.command, env, "command"),
        args=tuple(expanded(text, env, "args") for text in server.args),
        env={name: expanded(text, env, "env") for name, text in server.env.items()},
        url=url,
        headers={
            name: expanded(text, env, "headers")
            for name, text in server.headers.items()
        },
    )


def secrets(server: McpServer, env: Mapping[str, str]) -> list[str]:
    """Return the secret values of an entry, with variables expanded, the longest first.

    :param env: the agent's environment.
    """
    named = (server.command, *server.args, server.url) if server.variables else ()
    variables = frozenset[str]().union(*map(named_in, named))
    with suppress(ToolError):
        server = with_values(server, env)
    values = {*server.env.values(), *server.headers.values()}
    values |= {env.get(name, "") for name in variables if is_secret_variable(name)}
    return sorted(
        (value for value in values if len(value) >= _SHORTEST_SECRET),
        key=len,
        reverse=True,
    )


def identity(server: McpServer) -> str:
    """Return digits that identify a server.

    They depend on its command, arguments and variables, or its address, or the editor's
    name and id for it. They do not depend on headers, because a login in them may
    change while the server stays the same.
    """
    place = [server.command, server.args, sorted(server.env.items()), server.url]
    own = [server.name, server.server_id] if server.transport == "acp" else []
    return digest(json.dumps([*place, *own]))[:_DIGITS]
