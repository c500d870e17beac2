"""`Clients`: the connections that are open, each with a task of its own, and when one of HTTP is given up.

A WebSocket tells when its client has gone. Over HTTP nothing tells it but that no stream is read any more, and that
nothing comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup

from acp_agent.jsonrpc.stdio import Transport
from acp_agent.logfile import log_failure
from acp_agent.server.web.http_transport import HttpTransport
from acp_agent.server.web.streams import Streams

MAX_CLIENTS = 100
PATIENCE_SECONDS = 10.0
"""How long a client that reads no stream may be silent; it would have to connect anew anyway."""

_log = logging.getLogger(__name__)


class Conversation(Protocol):
    """What is had with one client."""

    async def run(self) -> None:
        """Have it, to its end."""
        ...

    def close(self) -> None:
        """End it as if the client had gone."""
        ...


class Client:
    """One that is connected.

    :ivar ended: set once all of it has ended.
    """

    def __init__(self, conversation: Conversation, transport: Transport) -> None:
        self.ended = anyio.Event()
        self._conversation = conversation
        self._transport = transport

    async def run(self) -> None:
        """Have the conversation. Whatever goes wrong in it ends this client alone."""
        try:
            await self._conversation.run()
        except Exception as error:
            log_failure(_log, "A connection failed inside", error)
        finally:
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()  # so that whoever waits for an answer over it does not wait for ever
            self.ended.set()

    def close(self) -> None:
        """End it as if the client had gone."""
        self._conversation.close()


class Clients:
    """:param begin: begins a conversation.
    :param tasks: where each one's task runs.
    :param patience: seconds, see `PATIENCE_SECONDS`.
    :param most: how many are connected at a time.
    """

    def __init__(
        self,
        begin: Callable[[Transport], Conversation],
        tasks: TaskGroup,
        patience: float = PATIENCE_SECONDS,
        most: int = MAX_CLIENTS,
    ) -> None:
        self._begin = begin
        self._tasks = tasks
        self._patience = patience
        self._most = most
        self._open: dict[str, Client] = {}
        self._by_http: dict[str, HttpTransport] = {}
        self._closing = False

    @property
    def full(self) -> bool:
        """Whether no more can be taken."""
        return self._closing or len(self._open) >= self._most

    def new_id(self) -> str:
        """An id for a connection, which nobody can guess."""
        return str(uuid4())

    def connect(self, connection_id: str, transport: Transport) -> Client:
        """Begin to serve a client."""
        client = self._open[connection_id] = Client(self._begin(transport), transport)
        self._tasks.start_soon(self._serve, connection_id, client)
        return client

    def connect_http(self) -> HttpTransport:
        """Begin to serve a client that comes by HTTP."""
        transport = HttpTransport(self.new_id(), Streams())
        client = self.connect(transport.connection_id, transport)
        self._by_http[transport.connection_id] = transport
        self._tasks.start_soon(self._watch, transport, client)
        return transport

    def by_http(self, connection_id: str) -> HttpTransport | None:
        """The connection with this id, where it is one of HTTP."""
        return self._by_http.get(connection_id)

    def disconnect(self, connection_id: str) -> None:
        """End a connection of HTTP: whoever asks for it from now on does not find it."""
        self._by_http.pop(connection_id, None)
        client = self._open.get(connection_id)
        if client is not None:
            client.close()

    async def close(self) -> None:
        """End all of them, and take no more; returns when they have ended."""
        self._closing = True
        clients = list(self._open.values())
        for client in clients:
            client.close()
        for client in clients:
            await client.ended.wait()

    async def _serve(self, connection_id: str, client: Client) -> None:
        try:
            await client.run()
        finally:
            self._open.pop(connection_id, None)
            self._by_http.pop(connection_id, None)

    async def _watch(self, transport: HttpTransport, client: Client) -> None:
        while (left := self._patience - transport.silent_for) > 0:
            with anyio.move_on_after(left):
                await client.ended.wait()
                return
        self.disconnect(transport.connection_id)
