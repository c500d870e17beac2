"""`acp-agent serve`: the agent for clients that connect over WebSocket, until ctrl-c."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec

import anyio

from acp_agent.app import connection, sessions_database, start_logging_at_home
from acp_agent.commands.addresses import Address
from acp_agent.commands.terminal import aside
from acp_agent.commands.tokens import VARIABLE, read_token
from acp_agent.errors import AgentError
from acp_agent.extras import installing
from acp_agent.importing import give_up
from acp_agent.jsonrpc.stdio import Transport
from acp_agent.server.connection import Connection
from acp_agent.server.web.access import AccessPolicy, parse_origin
from acp_agent.server.web.listener import WebServer, listening_socket
from acp_agent.server.web.websocket import PATH, Endpoint


async def run(arguments: argparse.Namespace) -> int:
    """Serve until this is cancelled.

    :returns: 0.
    :raises AgentError: it cannot listen there, may not without a token, or the token or an origin is of no use.
    """
    env = os.environ
    token, origins = read_token(arguments.token_file, env), list(map(parse_origin, arguments.origins))
    addresses = list(dict.fromkeys(map(Address.read, arguments.addresses or ["127.0.0.1:0"])))
    exposed = [address.host for address in addresses if not address.is_loopback]
    if token is None and exposed:
        raise AgentError(
            f"{exposed[0]} is not loopback: whoever reaches it could run commands here as you. Set a token, in a "
            f"file (--token-file FILE) or as {VARIABLE}, or listen on 127.0.0.1 and forward the port with ssh."
        )
    if find_spec("websockets") is None:
        raise AgentError(f"acp-agent serve needs the extra `serve`, which is not installed: {installing('serve')}.")
    start_logging_at_home(env)
    sockets = [listening_socket(address.host, address.port) for address in addresses]
    async with sessions_database(env) as database:

        def at_the_end() -> None:
            if endpoint.closing:  # and not only this client's connection ends
                give_up()

        def connect(transport: Transport) -> Connection:
            return connection(transport, database, env, at_the_end=at_the_end, over_network=True)

        endpoint = Endpoint(AccessPolicy(token, [address.host for address in addresses], origins), connect)
        server = WebServer(endpoint.app)
        for address, listening in zip(addresses, sockets, strict=True):
            aside(f"Serving ACP at ws://{address.authority(listening.getsockname()[1])}{PATH}. Ctrl-c ends it.")
        if token is None:
            aside("Without a token, every user of this machine can connect.")
        try:
            await server.serve(sockets)
        finally:
            with anyio.CancelScope(shield=True):
                database.hurry()
                with anyio.move_on_after(5):
                    await endpoint.close()
                if server.started:
                    await server.shutdown(sockets)
    return 0
