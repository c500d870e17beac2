"""The first `initialize`, answered before anything heavy is loaded.

An editor waits for this answer before it shows anything, and loading the rest takes longer than all of it. So a small
synchronous reader takes the first line off the wire: a valid `initialize` is answered at once; any other line, and
every byte behind the first, is handed on unchanged to the peer. Needs the standard library and pure modules alone.

ACP, "Initialization".
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from acp_agent import __version__
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import results

AUTH_METHOD = "api-key"
MAX_FIRST_LINE = 1 << 20
"""Bytes; a longer first line is no `initialize`, and the peer's business."""
_MAX_VERSION = 65_535


@dataclass(frozen=True, slots=True)
class Handshake:
    """What became of the first line.

    :ivar params: of the `initialize` that was answered; None where the peer has to.
    :ivar unread: bytes that were read off the wire and belong to the peer.
    :ivar exchange: the line that was answered, and the answer's.
    """

    params: JsonObject | None
    unread: bytes
    exchange: tuple[bytes, bytes] | None = None


def initialize_result() -> JsonObject:
    """The answer to `initialize`: always this version and these capabilities, whatever the client offers."""
    return results.initialize_result(
        agent_capabilities=results.agent_capabilities(
            load_session=True,
            prompt=("image", "embeddedContext"),
            mcp=("http", "sse"),
            session=("list", "delete", "additionalDirectories", "resume", "close"),
        ),
        auth_methods=[
            results.agent_auth_method(
                AUTH_METHOD,
                "API key in the environment",
                description="Set ANTHROPIC_API_KEY, OPENAI_API_KEY or another provider's key in the environment that "
                "the editor starts the agent with, or name a local model in config.yaml.",
            )
        ],
        agent_info=results.implementation("acp-agent", __version__, title="acp-agent"),
    )


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
    answer = {"jsonrpc": "2.0", "id": request_id, "result": initialize_result()}
    written = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
    _write(write_fd, written)
    return Handshake(params, rest, (line, written))


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
    version = params.get("protocolVersion")
    # Everything else in there is read leniently, as the schema asks for.
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= _MAX_VERSION:
        return None
    try:
        line.decode("utf-8")
        json.dumps(request_id, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        return None
    return request_id, params


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
