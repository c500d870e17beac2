"""`Connection`: one client, from its first line to the end of its last session. Knows no transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Router
from acp_agent.jsonrpc.stdio import Transport
from acp_agent.server.agent import Agent
from acp_agent.server.face import to_rpc_error
from acp_agent.server.handshake import Handshake
from acp_agent.session.manager import SessionManager
from acp_agent.session.services import Services


class Connection:
    """To be created where an event loop runs.

    :param transport: moves the lines; `run` closes it.
    :param services: opens what sessions need, with the first request that needs one; called again where it raised.
    :param versions: tells which versions of the protocol are spoken.
    :param handshake: what became of the first line, where somebody has read it already.
    :param at_the_end: called as soon as the client has gone and its work has been cancelled.
    :param over_network: the client may be on another machine.
    """

    def __init__(
        self,
        transport: Transport,
        services: Callable[[], Awaitable[Services]],
        versions: Callable[[], tuple[int, ...]],
        handshake: Handshake | None = None,
        at_the_end: Callable[[], None] | None = None,
        *,
        over_network: bool = False,
    ) -> None:
        self._services = services
        self._at_the_end = at_the_end
        self._sessions = anyio.create_task_group()
        self._agent = Agent(self._open_manager, versions, over_network=over_network)
        if handshake is not None and handshake.params is not None:
            self._agent.initialized(handshake.params, handshake.version)
        router = Router()
        self._agent.register(router)
        self._peer = Peer(transport, router, error_mapper=to_rpc_error, on_end=self._end_the_turns)
        self._agent.connect(self._peer)

    async def run(self) -> None:
        """Serve until the client is gone or `close` is called, and every session has ended."""
        async with self._sessions:
            try:
                await self._peer.run()
            finally:
                self._sessions.cancel_scope.cancel()
                self._gone()

    def close(self) -> None:
        """End it as if the client had gone."""
        self._peer.close()

    async def _open_manager(self) -> SessionManager:
        return SessionManager(await self._services(), self._sessions)

    def _end_the_turns(self) -> None:
        """While the client is given a moment to read what is left."""
        self._agent.disconnected()
        self._gone()

    def _gone(self) -> None:
        if self._at_the_end is not None:
            self._at_the_end()
