"""Negotiates the version of the protocol, and answers the first `initialize` before anything heavy is imported.

An editor waits for this answer before it shows anything, and importing the rest takes longer. So a small synchronous
reader takes the first line: a valid `initialize` is answered at once; any other line, and every byte behind the first,
is passed unchanged to the peer. Imports the standard library and pure modules alone.

ACP, "Initialization"; ACP v2, "Initialization", "Version Negotiation".
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from acp_agent.frozen import frozen
from acp_agent.jsonrpc.messages import INVALID_PARAMS, Request, RpcError, encode_result, parse
from acp_agent.protocol import JsonObject, as_object
from acp_agent.server.greeting import initialize_result

_VERSIONS = (1, 2)
_UNSUPPORTED_VERSION = -32022
_MAX_FIRST_LINE = 1 << 20
"""Bytes; a longer first line is no `initialize`, and the peer's business."""
_MAX_VERSION = 65_535


@frozen
class Handshake:
    """The outcome of the first line.

    :ivar params: of the `initialize` that was answered; None where the peer has to.
    :ivar unread: bytes that were read off the wire and belong to the peer.
    :ivar exchange: the line that was answered, and the answer's.
    :ivar version: of the protocol, which was answered.
    """

    params: JsonObject | None
    unread: bytes
    exchange: tuple[bytes, bytes] | None = None
    version: int = 1


def answer_first_line(read_fd: int, write_fd: int) -> Handshake:
    """Wait for the first line and answer it, if it is a valid `initialize`.

    :param read_fd: where the client's lines come from.
    :param write_fd: where ours go.
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
            case Request(id=int() | str() as request_id, method="initialize", params=dict(params)):
                pass
            case _:
                return Handshake(None, data)
        spoken = (1,) if params.get("protocolVersion") == 1 else _versions_without_config(os.environ)
        if spoken is None:
            return Handshake(None, data)
        version = agree(params, spoken)
    except RpcError:
        return Handshake(None, data)
    written = encode_result(request_id, initialize_result(version, params))
    unwritten = memoryview(written)
    while unwritten:
        unwritten = unwritten[os.write(write_fd, unwritten) :]
    return Handshake(params, rest, (line, written), version)


def agree(params: JsonObject, spoken: Collection[int]) -> int:
    """Return the version for the params of `initialize`: the highest enabled one that is not above theirs.

    All else in them is read leniently, as the schema asks for; but version 2 requires the client's name.

    :raises RpcError: they name no version or no enabled one, or lack the client's name.
    """
    requested = params.get("protocolVersion")
    if isinstance(requested, bool) or not isinstance(requested, int) or not 0 <= requested <= _MAX_VERSION:
        raise RpcError(INVALID_PARAMS, "initialize: protocolVersion must be the number of a version.")
    version = max((version for version in spoken if version <= requested), default=None)
    if version is None:
        raise RpcError(
            _UNSUPPORTED_VERSION,
            f"This agent speaks version {' or '.join(map(str, spoken))} of the protocol, and not {requested}.",
            {"requested": requested, "supported": [*spoken]},
        )
    info = as_object(params.get("info"))
    if version > 1 and not (isinstance(info.get("name"), str) and isinstance(info.get("version"), str)):
        raise RpcError(INVALID_PARAMS, "initialize: info must have a name and a version, which are strings.")
    return version


def _versions_without_config(env: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the enabled versions if the user's configuration does not mention them; None if it has to be parsed,
    which would delay the first answer."""
    from acp_agent.config.home import CONFIG_FILE, home_dir
    from acp_agent.errors import ConfigError

    try:
        said = b"protocol" in (home_dir(env) / CONFIG_FILE).read_bytes()
    except (OSError, ConfigError):
        return _VERSIONS  # the first session reports what is wrong with the file
    return None if said else _VERSIONS


def spoken_versions(env: Mapping[str, str]) -> tuple[int, ...]:
    """Return the versions that are spoken; `protocol: {versions: [1]}` in the user's configuration turns others off."""
    plainly = _versions_without_config(env)
    if plainly is not None:
        return plainly
    from acp_agent.config import load_settings
    from acp_agent.errors import ConfigError

    try:
        return load_settings(env).protocol_versions
    except ConfigError:
        return _VERSIONS  # the first session says what is wrong
