"""`acp-agent serve`: the agent for clients that connect over HTTP or WebSocket, until ctrl-c."""

from __future__ import annotations

import argparse
import os

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from acp_agent.app import SessionsDatabase, connection, sessions_database, start_logging_at_home
from acp_agent.commands.addresses import Address
from acp_agent.commands.terminal import aside
from acp_agent.commands.tokens import VARIABLE, read_token
from acp_agent.errors import AgentError
from acp_agent.importing import give_up
from acp_agent.jsonrpc.stdio import Transport
from acp_agent.server.connection import Connection
from acp_agent.server.web.clients import Clients
from acp_agent.server.web.endpoint import PATH, Endpoint
from acp_agent.server.web.gate import Gate, read_origin
from acp_agent.server.web.guests import Guests
from acp_agent.server.web.listener import check_installed, listening_socket, serve_http
from acp_agent.server.web.room import Room

LOOPBACK = "127.0.0.1:0"
ENDING_SECONDS = 5.0
"""For the ends of all sessions, each of which has its own limits."""
CLOSING_SECONDS = 1.0
"""For the rest: a client may not read what it is told last."""


async def run(arguments: argparse.Namespace) -> int:
    """Serve until this is cancelled.

    :returns: 0.
    :raises AgentError: it cannot listen there, may not without a token, or the token or an origin is of no use.
    """
    env = os.environ
    token, origins = read_token(arguments.token_file, env), list(map(read_origin, arguments.origins))
    addresses = list(dict.fromkeys(map(Address.read, arguments.addresses or [LOOPBACK])))
    open_ones = [address.host for address in addresses if not address.is_loopback]
    if token is None and open_ones:
        raise AgentError(
            f"{open_ones[0]} is not loopback: whoever reaches it could run commands here as you. Set a token, in a "
            f"file (--token-file FILE) or as {VARIABLE}, or listen on 127.0.0.1 and forward the port with ssh."
        )
    check_installed()
    start_logging_at_home(env)
    listening = [listening_socket(address.host, address.port) for address in addresses]
    ports = [one.getsockname()[1] for one in listening]
    ended = anyio.Event()

    async def until_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with sessions_database(env) as database, anyio.create_task_group() as tasks:
        tasks.start_soon(until_cancelled)
        # What runs here is ended in its own order.
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as serving:

                def at_the_end() -> None:
                    if ended.is_set():  # and not only this client's end
                        give_up()

                def begin(transport: Transport) -> Connection:
                    return connection(transport, database, env, at_the_end=at_the_end, over_network=True)

                async def listen() -> None:
                    await serve_http(listening, endpoint, guests, room, closed.wait)
                    ended.set()
                    gone.set()

                clients, guests, room = Clients(begin, serving), Guests(), Room()
                gate = Gate(token, [address.host for address in addresses], origins)
                endpoint = Endpoint(gate, clients, guests, room)
                closed, gone = anyio.Event(), anyio.Event()
                serving.start_soon(listen)
                for address, port in zip(addresses, ports, strict=True):
                    at = f"{address.authority(port)}{PATH}"
                    aside(f"Serving ACP at http://{at} and ws://{at}. Ctrl-c ends it.")
                if token is None:
                    aside("Without a token, every user of this machine can connect.")
                await ended.wait()
                await _end(database, clients, serving, closed, gone)
        tasks.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint()  # where it is cancelled, it ends like that
    return 0


async def _end(
    database: SessionsDatabase, clients: Clients, serving: TaskGroup, closed: anyio.Event, gone: anyio.Event
) -> None:
    """The sessions first, then what clients are connected by."""
    database.hurry()
    with anyio.move_on_after(ENDING_SECONDS):
        await clients.close()
    closed.set()
    with anyio.move_on_after(CLOSING_SECONDS):
        await gone.wait()
    serving.cancel_scope.cancel()
