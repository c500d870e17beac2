"""`ClientConnection`: one client's connection, from its first line to the end of its
last session, over any transport.

`initialize` selects the protocol version, and with it the `Agent` that handles the
requests after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acp_agent.jsonrpc.messages import (
    CANCEL_METHOD,
    INVALID_REQUEST,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import IncomingCall, Router
from acp_agent.jsonrpc.transport import Transport
from acp_agent.protocol import as_object, methods
from acp_agent.server.agent import Agent, ManagerFactory, to_rpc_error
from acp_agent.server.handshake import (
    Capabilities,
    Handshake,
    initialize_result,
    negotiate_version,
)
from acp_agent.server.v1.agent import AgentV1


class ClientConnection:
    """Serves one client. Create it inside a running event loop.

    :param transport: moves the lines; `run` closes it.
    :param create_manager: creates the manager of this connection's sessions; see
        `Agent`.
    :param env: environment variables, for the location of the user's configuration.
    :param handshake: the outcome of the first line, if the line was already read.
    :param on_end: called as soon as the client has disconnected and its work has been
        cancelled.
    :ivar close: ends the connection as if the client had disconnected.
    """

    def __init__(
        self,
        transport: Transport,
        create_manager: ManagerFactory,
        env: Mapping[str, str],
        handshake: Handshake | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._peer = Peer(transport, self._to_rpc_error)
        self._create_manager = create_manager
        self._env = env
        self._on_end = on_end
        self.close = self._peer.close
        self._agent: Agent | None = None
        self._router = Router(
            {
                CANCEL_METHOD: self._peer.cancel,
                **dict.fromkeys(methods.AGENT_METHODS, _refuse),
            }
        )
        if handshake is not None and handshake.params is not None:
            self._serve(negotiate_version(handshake.params, env), handshake.params)

    async def run(self) -> None:
        """Serve until the client has disconnected or `close` is called, and every
        session has ended; see `Peer.open`.
        """
        async with self._peer.open() as tasks:
            try:
                while (call := await self._peer.next_call()) is not None:
                    try:
                        tasks.start_soon(
                            self._peer.answer, call, await self._begin(call)
                        )
                    except Exception as error:
                        self._peer.refuse(call, error)
                    # Its params may be large, and the next call may come much later.
                    del call
            finally:  # `Peer.open` still flushes the outgoing queue afterwards
                if self._agent is not None:
                    self._agent.stop()
                if self._on_end is not None:
                    self._on_end()

    def _to_rpc_error(self, error: Exception) -> RpcError:
        """Convert an exception to an error, with its message in `data.details` if the
        client shows nothing else.
        """
        converted = to_rpc_error(error)
        if self._agent is None or not self._agent.capabilities.traits.reads_details:
            return converted
        more = {"details": converted.message, **as_object(converted.data)}
        return RpcError(converted.code, converted.message, more)

    async def _begin(self, call: IncomingCall) -> Awaitable[JsonValue]:
        """Call the handler of a call before the next line is read, since `initialize`
        selects the handlers.
        """
        if call.method != methods.INITIALIZE:
            return await self._router.begin(call)
        params = as_object(call.params)
        version = negotiate_version(params, self._env)
        if (
            self._agent is not None
            and self._agent.in_use
            and version != self._agent.version
        ):
            raise RpcError(
                INVALID_REQUEST,
                f"This connection uses version {self._agent.version}. Open another one.",
            )
        self._serve(version, params)
        return _result(initialize_result(version, params))

    def _serve(self, version: int, params: JsonObject) -> None:
        """Route all further requests to an agent of this version."""
        if self._agent is None or version != self._agent.version:
            if version == 1:
                self._agent = AgentV1(self._peer, self._create_manager)
            else:
                from acp_agent.server.v2.agent import AgentV2

                self._agent = AgentV2(self._peer, self._create_manager)
            handlers = {CANCEL_METHOD: self._peer.cancel, **self._agent.handlers()}
            self._router = Router(handlers, self._agent.read_params)
        self._agent.capabilities = Capabilities.of(version, params)


async def _refuse(call: IncomingCall, params: JsonObject) -> JsonValue:
    raise RpcError(
        INVALID_REQUEST, f"{call.method} came before initialize. Send initialize first."
    )


async def _result(result: JsonObject) -> JsonValue:
    return result
