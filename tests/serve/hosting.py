"""The endpoint, served by this process, so that its limits can be set."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2

from acp_agent.app import connection, sessions_database
from acp_agent.jsonrpc.stdio import Transport
from acp_agent.server.connection import Connection
from acp_agent.server.web.clients import Clients, Conversation
from acp_agent.server.web.endpoint import Endpoint
from acp_agent.server.web.gate import Gate
from acp_agent.server.web.guests import Guests
from acp_agent.server.web.listener import listening_socket, serve_http
from acp_agent.server.web.room import Room


class Noted:
    """A conversation whose end is told.

    :ivar ended: set at its end.
    """

    @classmethod
    def into(cls, begun: list[Noted]) -> Callable[[Connection], Noted]:
        """Makes one of a connection, and puts it into the list."""

        def make(inner: Connection) -> Noted:
            begun.append(cls(inner))
            return begun[-1]

        return make

    def __init__(self, inner: Connection) -> None:
        self.ended = anyio.Event()
        self._inner = inner

    async def run(self) -> None:
        await self._inner.run()
        self.ended.set()

    def close(self) -> None:
        self._inner.close()


@asynccontextmanager
async def hosted(
    home: Path, wrap: Callable[[Connection], Conversation], **options: Any
) -> AsyncGenerator[httpx2.AsyncClient]:
    """The endpoint, in this process; `wrap` makes something else of a conversation."""
    env = {"HOME": str(home)}
    async with (
        sessions_database(env) as database,
        hosted_with(lambda transport: wrap(connection(transport, database, env)), **options) as http,
    ):
        yield http


@asynccontextmanager
async def hosted_with(begin: Callable[[Transport], Conversation], **options: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    """The same, with conversations of whatever kind."""
    stopped = anyio.Event()

    async with anyio.create_task_group() as tasks:
        clients = Clients(begin, tasks, **options)
        listening = listening_socket("127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        guests, room = Guests(), Room()
        endpoint = Endpoint(Gate(None, ["127.0.0.1"]), clients, guests, room)
        tasks.start_soon(serve_http, [listening], endpoint, guests, room, stopped.wait)
        async with httpx2.AsyncClient(base_url=address, timeout=20) as http:
            yield http
        await clients.close()
        stopped.set()
