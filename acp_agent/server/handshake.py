"""Answers `initialize`: negotiates the version of the protocol and exchanges
capabilities.

An editor waits for this answer before it shows anything, and importing the other
modules takes longer. So a small synchronous reader reads the first line. A valid
`initialize` is answered at once. Any other line, and every byte after the first line,
is passed unchanged to the peer. This module imports only the standard library and pure
modules. It reads leniently and without pydantic, as the schema requires.

ACP, "Initialization" and "Authentication"; ACP v2, "Initialization", "Version
Negotiation".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from acp_agent import __version__
from acp_agent.frozen import frozen
from acp_agent.jsonrpc.messages import INVALID_PARAMS, Request, RpcError, encode, parse
from acp_agent.protocol import JsonObject, JsonValue, as_object
from acp_agent.server.clients import ClientTraits, traits_of

if TYPE_CHECKING:
    from acp_agent.config.settings import Settings

AUTH_METHOD = "api-key"
LOGIN_METHOD = "login"
FORK_KEY = "acp-agent"
"""Key in `_meta`. In the capability `fork` it holds the supported kinds of fork points,
and in requests the fork point.
"""
_VERSIONS = (1, 2)
_UNSUPPORTED_VERSION = -32022
_MAX_FIRST_LINE = 1 << 20
"""Maximum bytes of a first line. The peer handles a longer one."""
_MAX_VERSION = 65_535


@frozen
class Capabilities:
    """The capabilities that a client advertised, as far as the agent uses them.

    :ivar terminal: `terminal/*`, if the client's terminals work.
    :ivar compaction: `compaction_update` and `compaction_summary_chunk`.
    :ivar notices: `notice`.
    :ivar plans: `plan_update` instead of `plan`, and `plan_removed`.
    :ivar booleans: boolean session options.
    :ivar forms: `elicitation/create` with a form.
    :ivar urls: `elicitation/create` with a URL, and `elicitation/complete`.
    :ivar traits: how the client differs from its advertised capabilities.
    """

    read_text_file: bool = False
    write_text_file: bool = False
    terminal: bool = False
    compaction: bool = False
    notices: bool = False
    plans: bool = False
    booleans: bool = False
    forms: bool = False
    urls: bool = False
    traits: ClientTraits = ClientTraits()

    @classmethod
    def of(cls, version: int, params: JsonObject) -> Capabilities:
        """Return the capabilities in the params of `initialize`. A malformed one counts
        as absent. All clients of version 2 support notices and compaction updates, and
        none offers files or terminals.
        """
        wire = _advertised(version, params)
        elicitation = as_object(wire.get("elicitation"))
        forms, urls = (
            isinstance(elicitation.get(mode), dict) for mode in ("form", "url")
        )
        if version > 1:
            return cls(compaction=True, notices=True, forms=forms, urls=urls)
        files = as_object(wire.get("fs"))
        session = as_object(wire.get("session"))
        traits = traits_of(params)
        return cls(
            read_text_file=files.get("readTextFile") is True,
            write_text_file=files.get("writeTextFile") is True,
            terminal=wire.get("terminal") is True and traits.runs_commands,
            compaction=isinstance(session.get("compaction"), dict),
            notices=isinstance(session.get("notices"), dict),
            plans=isinstance(wire.get("plan"), dict),
            booleans=isinstance(
                as_object(session.get("configOptions")).get("boolean"), dict
            ),
            forms=forms,
            urls=urls,
            traits=traits,
        )


@frozen
class Handshake:
    """The outcome of the first line.

    :ivar params: the params of the answered `initialize`; None if the peer has to
        answer the first line.
    :ivar unread: bytes that were read but not handled. The peer begins with them.
    :ivar exchange: the answered line, and the answer.
    """

    params: JsonObject | None
    unread: bytes
    exchange: tuple[bytes, bytes] | None = None


def answer_first_line(read_fd: int, write_fd: int) -> Handshake:
    """Wait for the first line and answer it, if it is a valid `initialize`.

    :param read_fd: the descriptor from which the client's lines are read.
    :param write_fd: the descriptor to which the answer is written.
    """
    data = b""
    while b"\n" not in data and len(data) <= _MAX_FIRST_LINE:
        chunk = os.read(read_fd, 65_536)
        if not chunk:
            return Handshake(None, data)
        data += chunk
    line, _, rest = data.partition(b"\n")
    try:
        match parse(line):
            case Request(
                id=int() | str() as request_id, method="initialize", params=dict(params)
            ):
                version = negotiate_version(params, os.environ)
            case _:
                return Handshake(None, data)
    except RpcError:
        return Handshake(None, data)
    written = encode(id=request_id, result=initialize_result(version, params))
    unwritten = memoryview(written)
    while unwritten:
        unwritten = unwritten[os.write(write_fd, unwritten) :]
    return Handshake(params, rest, (line, written))


def negotiate_version(params: JsonObject, env: Mapping[str, str]) -> int:
    """Return the highest enabled version that is not above the version in the params of
    `initialize`.

    Other params are read leniently, as the schema requires, but version 2 requires the
    client's name and version.

    :raises RpcError: if the requested version is invalid, if no version up to it is
        enabled, or if the client's name or version is missing.
    """
    requested = params.get("protocolVersion")
    if (
        isinstance(requested, bool)
        or not isinstance(requested, int)
        or not 0 <= requested <= _MAX_VERSION
    ):
        raise RpcError(
            INVALID_PARAMS,
            "initialize: protocolVersion must be the number of a version.",
        )
    if requested == 1:
        return 1
    # For example, `protocol: {versions: [1]}`.
    settings = settings_if_mentioned(env, b"protocol")
    enabled = _VERSIONS if settings is None else settings.protocol.versions
    version = max(
        (version for version in enabled if version <= requested), default=None
    )
    if version is None:
        raise RpcError(
            _UNSUPPORTED_VERSION,
            f"This agent supports version {' or '.join(map(str, enabled))} of the protocol, not {requested}.",
            {"requested": requested, "supported": [*enabled]},
        )
    info = as_object(params.get("info"))
    if version > 1 and not (
        isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
    ):
        if requested not in _VERSIONS and 1 in enabled:
            return 1  # a later version's client that sends version 1's params
        raise RpcError(
            INVALID_PARAMS,
            "initialize: info must have a name and a version, both strings.",
        )
    return version


def settings_if_mentioned(env: Mapping[str, str], key: bytes) -> Settings | None:
    """Load the user's settings if their file contains `key`; otherwise return None,
    since parsing it delays the answer.

    Also return None if the file is invalid or cannot be read, since the first session
    reports that.
    """
    from acp_agent.config.home import CONFIG_FILE, home_dir
    from acp_agent.errors import ConfigError

    try:
        if key not in (home_dir(env) / CONFIG_FILE).read_bytes():
            return None
        from acp_agent.config import load_settings

        return load_settings(env)
    except (OSError, ConfigError):
        return None


def initialize_result(version: int, params: JsonObject) -> JsonObject:
    """Return the result of `initialize`. The agent's capabilities do not depend on the
    client's.

    :param params: the params of `initialize`, which say whether the client can run the
        login in a terminal.
    """
    methods = _auth_methods(
        version, as_object(_advertised(version, params).get("auth")).get("terminal")
    )
    info: JsonObject = {
        "name": "acp-agent",
        "version": __version__,
        "title": "acp-agent",
    }
    prompts = ("image", "embeddedContext")
    # Session capabilities are objects at every level, since strict editors refuse
    # `true`.
    sessions: JsonObject = {
        **{
            name: {}
            for name in (
                "delete",
                "additionalDirectories",
                "title",
                "archive",
                "status",
            )
        },
        "fork": {"_meta": {FORK_KEY: {"at": True, "messageId": True}}},
    }
    if version == 1:
        capabilities: JsonObject = {
            "loadSession": True,
            "promptCapabilities": dict.fromkeys(prompts, True),
            "mcpCapabilities": {"http": True, "sse": True, "acp": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, **sessions},
            "auth": {"logout": {}, "status": {}},
            "providers": {},
        }
        return {
            "protocolVersion": version,
            "agentCapabilities": capabilities,
            "authMethods": methods,
            "agentInfo": info,
        }
    session: JsonObject = {
        "prompt": {name: {} for name in prompts},
        "mcp": {"stdio": {}, "http": {}, "acp": {}},
        **sessions,
    }
    return {
        "protocolVersion": version,
        "info": info,
        "capabilities": {"session": session, "auth": {"status": {}}, "providers": {}},
        "authMethods": methods,
    }


def _advertised(version: int, params: JsonObject) -> JsonObject:
    return as_object(
        params.get("clientCapabilities" if version == 1 else "capabilities")
    )


def _auth_methods(version: int, terminal: JsonValue) -> list[JsonValue]:
    """Return the authentication methods. The first succeeds at once without a question,
    since some editors use it whenever they connect.

    :param terminal: the client's capability to run the second method in a terminal:
        true in version 1, an object in version 2.
    """
    id, kind = ("id", {}) if version == 1 else ("methodId", {"type": "agent"})
    key: JsonObject = {
        **kind,
        id: AUTH_METHOD,
        "name": "API key",
        "description": "Uses the key that `acp-agent login` has stored, or ANTHROPIC_API_KEY, OPENAI_API_KEY or "
        "another provider's key in the environment that the editor starts the agent with, or a local model.",
    }
    login: JsonObject = {
        "type": "terminal",
        id: LOGIN_METHOD,
        "name": "Log in",
        "description": "Asks for a provider's key in a terminal, tests it and stores it.",
        "args": [LOGIN_METHOD],
    }
    return (
        [key, login]
        if (terminal is True if version == 1 else isinstance(terminal, dict))
        else [key]
    )
