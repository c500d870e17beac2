"""`recorded`: what goes over the wire is written down where the user wants that, in a folder of the agent's home.

Does not know what is written, or how secrets are found: that is `jsonrpc.recording`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from acp_agent.config import ensure_private_dir, home_dir, load_settings
from acp_agent.config.home import CONFIG_FILE
from acp_agent.errors import ConfigError
from acp_agent.jsonrpc.stdio import Transport
from acp_agent.secrets.known import secrets_of
from acp_agent.server.handshake import Handshake

WIRE = "wire"
WIRE_VARIABLE = "ACP_AGENT_WIRE"


def recorded(
    transport: Transport, env: Mapping[str, str], handshake: Handshake | None, learnt: Callable[[], tuple[str, ...]]
) -> Transport:
    """The transport, with everything that goes over it written down where the user wants that.

    :param env: environment variables.
    :param handshake: what became of the first line, where somebody has read it already.
    :param learnt: the secrets that were met since.
    """
    if not records_wire(env):
        return transport
    from acp_agent.jsonrpc.recording import RecordingTransport, WireLog

    try:
        log = WireLog(ensure_private_dir(home_dir(env)) / WIRE, secrets_of(env), learnt=learnt)
    except ConfigError:
        return transport
    if handshake is not None and handshake.exchange is not None:
        log.note("in", handshake.exchange[0])
        log.note("out", handshake.exchange[1])
    return RecordingTransport(transport, log)


def records_wire(env: Mapping[str, str]) -> bool:
    """Whether the user wants the wire to be recorded: by `ACP_AGENT_WIRE`, else by `wire_log` in config.yaml, which is
    read as a whole only where that stands in it."""
    if said := env.get(WIRE_VARIABLE, "").strip().lower():
        return said not in ("0", "false", "no", "off")
    try:
        return b"wire_log" in (home_dir(env) / CONFIG_FILE).read_bytes() and load_settings(env).wire_log
    except (OSError, ConfigError):
        return False
