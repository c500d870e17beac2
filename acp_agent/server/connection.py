"""`Connection`: one client's connection, from its first line to the end of its last session, over any transport.

`initialize` selects the version of the protocol, and so the agent that answers from then on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acp_agent.jsonrpc.messages import INVALID_REQUEST, JsonObject, JsonValue, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Call
from acp_agent.jsonrpc.transport import Transport
from acp_agent.protocol import methods
from acp_agent.server.agent import Agent, to_rpc_error
from acp_agent.server.handshake import Capabilities, Handshake, agree, initialize_result
from acp_agent.server.v1.agent import AgentV1
from acp_agent.session.manager import OpenSessions
from acp_agent.session.services import Services


class Connection:
    """Serves one client. Create it inside a running event loop.

    :param transport: moves the lines; `run` closes it.
    :param services: opens what sessions need, with the first request that needs one; called again where it raised.
    :param env: environment variables, which say where the user's configuration is.
    :param handshake: the outcome of the first line, if it was read already.
    :param on_end: called as soon as the client has gone and its work has been cancelled.
    :param sessions: those that are open, also for other connections of this process.
    :ivar run: serves until the client is gone or `close` is called, and every session has ended; see `Peer.run`.
    :ivar close: ends it as if the client had gone.
    """

    def __init__(
        self,
        transport: Transport,
        services: Callable[[], Awaitable[Services]],
        env: Mapping[str, str],
        handshake: Handshake | None = None,
        on_end: Callable[[], None] | None = None,
        *,
        sessions: OpenSessions | None = None,
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._env = env
        self._on_end = on_end
        self._agent: Agent | None = None
        self._peer = Peer(transport, to_rpc_error, self._end_turns)
        self.run, self.close = self._peer.run, self._peer.close
        self._peer.serve({**dict.fromkeys(methods.AGENT_METHODS, _refuse), methods.INITIALIZE: self._initialize})
        if handshake is not None and handshake.params is not None:
            self._serve(agree(handshake.params, env), handshake.params)

    def _initialize(self, call: Call, params: JsonObject) -> Awaitable[JsonValue]:
        # While the line is read: how the next one is to be understood depends on it.
        version = agree(params, self._env)
        if self._agent is not None and self._agent.in_use and version != self._agent.version:
            raise RpcError(INVALID_REQUEST, f"This connection speaks version {self._agent.version}; open another one.")
        self._serve(version, params)
        return _result(initialize_result(version, params))

    def _serve(self, version: int, params: JsonObject) -> None:
        """Have an agent of a version answer from now on."""
        if self._agent is None or version != self._agent.version:
            self._agent = self._make_agent(version)
            handlers = {**self._agent.handlers(), methods.INITIALIZE: self._initialize}
            self._peer.serve(handlers, self._agent.read_params)
        self._agent.capabilities = Capabilities.of(version, params)

    def _make_agent(self, version: int) -> Agent:
        if version == 1:
            return AgentV1(self._peer, self._services, self._sessions)
        from acp_agent.server.v2.agent import AgentV2

        return AgentV2(self._peer, self._services, self._sessions)

    def _end_turns(self) -> None:
        """Cancel what the sessions do, while the client is given a moment to read what is left."""
        if self._agent is not None:
            self._agent.stop()
        if self._on_end is not None:
            self._on_end()


async def _refuse(call: Call, params: JsonObject) -> JsonValue:
    raise RpcError(INVALID_REQUEST, f"{call.method} came before initialize. Send initialize first.")


async def _result(result: JsonObject) -> JsonValue:
    return result
