"""The first `initialize`, answered before anything heavy is loaded.

An editor waits for this answer before it shows anything, and loading the rest takes longer than all of it. So a small
synchronous reader takes the first line off the wire: a valid `initialize` is answered at once; any other line, and
every byte behind the first, is handed on unchanged to the peer. Needs the standard library and pure modules alone; of
version 2 of the protocol, it loads what it answers where that is asked for.

ACP, "Initialization".
"""

from __future__ import annotations

import json
import os
import sys

from acp_agent import __version__
from acp_agent.frozen import frozen
from acp_agent.protocol import JsonObject, JsonValue, as_object
from acp_agent.protocol.v1 import results
from acp_agent.server import forking
from acp_agent.server.versions import agreed, plainly_spoken, requested_version

AUTH_METHOD = "api-key"
LOGIN_METHOD = "login"
MAX_FIRST_LINE = 1 << 20
"""Bytes; a longer first line is no `initialize`, and the peer's business."""
_OLDER_TERMINAL = "terminal-auth"
"""Under `_meta`: what Zed had before the protocol had terminal methods."""
_SESSION = ("list", "delete", "additionalDirectories", "resume", "close", "fork", "title", "archive", "status")


@frozen
class Handshake:
    """What became of the first line.

    :ivar params: of the `initialize` that was answered; None where the peer has to.
    :ivar unread: bytes that were read off the wire and belong to the peer.
    :ivar exchange: the line that was answered, and the answer's.
    :ivar version: of the protocol, which was answered.
    """

    params: JsonObject | None
    unread: bytes
    exchange: tuple[bytes, bytes] | None = None
    version: int = 1


def initialize_result(params: JsonObject) -> JsonObject:
    """What version 1 answers to `initialize`: always these capabilities, whatever the client offers.

    :param params: what the client said, which tells how a user can be let sign in.
    """
    return results.initialize_result(
        agent_capabilities=results.agent_capabilities(
            load_session=True,
            prompt=("image", "audio", "embeddedContext"),
            mcp=("http", "sse", "acp"),
            session=_SESSION,
            auth=("logout", "status"),
            more=("providers",),
            session_meta={"fork": forking.ADVERTISED},
        ),
        auth_methods=auth_methods(params),
        agent_info=results.implementation("acp-agent", __version__, title="acp-agent"),
    )


def auth_methods(params: JsonObject) -> list[JsonObject]:
    """The ways to sign in. The first needs nothing of the editor, asks nobody anything and succeeds at once, since some
    editors use it whenever they connect.

    :param params: of `initialize`; the second way is for an editor that said that it has a terminal for it.
    """
    methods = [
        results.agent_auth_method(
            AUTH_METHOD,
            "API key",
            description="Uses the key that `acp-agent login` has stored, or ANTHROPIC_API_KEY, OPENAI_API_KEY or "
            "another provider's key in the environment that the editor starts the agent with, or a local model.",
        )
    ]
    capabilities = as_object(params.get("clientCapabilities"))
    older: JsonObject = {
        "label": "acp-agent login",
        "command": sys.executable,
        "args": ["-m", "acp_agent", LOGIN_METHOD],
        "env": {},
    }
    said = "Asks for a provider's key in a terminal, tries it and stores it."
    if as_object(capabilities.get("auth")).get("terminal") is True:
        methods.append(
            results.terminal_auth_method(
                LOGIN_METHOD, "Log in", description=said, args=[LOGIN_METHOD], meta={_OLDER_TERMINAL: older}
            )
        )
    elif as_object(capabilities.get("_meta")).get(_OLDER_TERMINAL) is True:
        methods.append(
            results.agent_auth_method(LOGIN_METHOD, "Log in", description=said, meta={_OLDER_TERMINAL: older})
        )
    return methods


def shake_hands(read_fd: int, write_fd: int) -> Handshake:
    """Wait for the first line and answer it, if it is a valid `initialize`.

    :param read_fd: where the client's lines come from.
    :param write_fd: where ours go.
    """
    data = b""
    while b"\n" not in data and len(data) <= MAX_FIRST_LINE:
        chunk = os.read(read_fd, 65_536)
        if not chunk:
            return Handshake(None, data)
        data += chunk
    line, newline, rest = data.partition(b"\n")
    request = _initialize(line) if newline else None
    if request is None:
        return Handshake(None, data)
    request_id, params = request
    version = _version(params)
    if version is None:
        return Handshake(None, data)
    answer = {"jsonrpc": "2.0", "id": request_id, "result": _result(version, params)}
    written = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
    _write(write_fd, written)
    return Handshake(params, rest, (line, written), version)


def _initialize(line: bytes) -> tuple[int | str, JsonObject] | None:
    """Id and params of a line that is a valid `initialize` request beyond doubt."""
    try:
        message: JsonValue = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or message.get("method") != "initialize":
        return None
    request_id, params = message.get("id"), message.get("params")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str) or not isinstance(params, dict):
        return None
    try:
        line.decode("utf-8")
        json.dumps(request_id, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        return None
    return request_id, params


def _version(params: JsonObject) -> int | None:
    """What version to answer; None where the peer has to find out."""
    requested = requested_version(params)
    if not requested:
        return None
    if requested == 1:
        return 1  # everything else in there is read leniently, as the schema asks for
    spoken = plainly_spoken(os.environ)
    version = None if spoken is None else agreed(requested, spoken)
    info = params.get("info")
    named = isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
    return version if named or version == 1 else None


def _result(version: int, params: JsonObject) -> JsonObject:
    if version == 1:
        return initialize_result(params)
    from acp_agent.server.v2 import greeting

    return greeting.initialize_result(params)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
