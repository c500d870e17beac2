"""The endpoint, served by this process, so that its limits can be set."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from acp_agent.app import SessionsDatabase, connection
from acp_agent.jsonrpc.transport import Transport
from acp_agent.server.connection import ClientConnection
from acp_agent.server.web import (
    PATH,
    AccessPolicy,
    WebServer,
    WebSocketEndpoint,
    listening_socket,
)


@dataclass(slots=True)
class Hosted:
    """:ivar port: that is listened on.
    :ivar ends: for each connection, in order, what is set as soon as its client has
        gone.
    """

    port: int
    ends: list[anyio.Event] = field(default_factory=list[anyio.Event])

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{PATH}"


@asynccontextmanager
async def hosted(home: Path) -> AsyncGenerator[Hosted]:
    env = {"HOME": str(home)}
    listening = listening_socket("127.0.0.1", 0)
    site = Hosted(listening.getsockname()[1])
    async with (
        aclosing(SessionsDatabase(env)) as database,
        anyio.create_task_group() as tasks,
    ):

        def connect(transport: Transport) -> ClientConnection:
            site.ends.append(anyio.Event())
            return connection(transport, database, env, on_end=site.ends[-1].set)

        endpoint = WebSocketEndpoint(AccessPolicy(None, ["127.0.0.1"]), connect)
        server = WebServer(endpoint.app())
        tasks.start_soon(server.serve, [listening])
        try:
            yield site
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await endpoint.close()
                await server.shutdown([listening])
