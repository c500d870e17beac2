"""Two ends of real pipes for the tests of this room: a `Peer` at one end, a test or
another `Peer` at the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_agent.jsonrpc.messages import (
    CANCEL_METHOD,
    INTERNAL_ERROR,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Handler, IncomingCall, ReadParams, Router
from acp_agent.jsonrpc.transport import MAX_LINE_BYTES, StdioTransport


async def echo(call: IncomingCall, params: JsonObject) -> JsonValue:
    return params


async def forever(call: IncomingCall, params: JsonObject) -> JsonValue:
    await anyio.sleep_forever()


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def error(id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    shown = {"code": code, "message": message}
    return {
        "jsonrpc": "2.0",
        "id": id,
        "error": {**shown, "data": data} if data else shown,
    }


class Client:
    """The raw end: sends what it is told and shows what arrives. Each direction can be
    closed by itself.
    """

    def __init__(self, peer: Peer, read_fd: int, write_fd: int) -> None:
        self.peer = peer
        self.finished = anyio.Event()
        self._incoming = StdioTransport(read_fd, os.open(os.devnull, os.O_WRONLY))
        self._outgoing = StdioTransport(os.open(os.devnull, os.O_RDONLY), write_fd)

    async def send(self, *messages: Any) -> None:
        """Write all of it at once, one line each; bytes go as they are."""
        lines = (
            item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n"
            for item in messages
        )
        await self._outgoing.write(b"".join(lines))

    async def receive(self) -> Any:
        line = await self._incoming.read_line()
        assert line is not None, "the peer has closed the connection"
        return json.loads(line)

    async def ask(self, *messages: Any) -> Any:
        await self.send(*messages)
        return await self.receive()

    async def rest(self) -> list[Any]:
        lines: list[Any] = []
        while (line := await self._incoming.read_line()) is not None:
            lines.append(json.loads(line))
        return lines

    async def end_input(self) -> None:
        await self._outgoing.aclose()

    async def stop_reading(self) -> None:
        await self._incoming.aclose()


def plain_error(raised: Exception) -> RpcError:
    return (
        raised
        if isinstance(raised, RpcError)
        else RpcError(INTERNAL_ERROR, str(raised))
    )


async def serve(
    peer: Peer, handlers: Mapping[str, Handler], read_params: ReadParams | None = None
) -> None:
    """Answer what the other end calls until it closes its side, stops reading, or the
    peer is closed.
    """
    router = Router({CANCEL_METHOD: peer.cancel, **handlers}, read_params)
    async with peer.open() as tasks:
        while (call := await peer.next_call()) is not None:
            try:
                tasks.start_soon(peer.answer, call, await router.begin(call))
            except Exception as error:
                peer.refuse(call, error)


@asynccontextmanager
async def serving(
    handlers: dict[str, Any],
    max_line: int = MAX_LINE_BYTES,
    error_mapper: Any = plain_error,
    read_params: Any = None,
) -> AsyncGenerator[Client]:
    """A running peer, and the other ends of its pipes. All of it within five seconds."""
    near_read, far_write = os.pipe()
    far_read, near_write = os.pipe()
    transport = StdioTransport(near_read, near_write, max_line=max_line)
    client = Client(Peer(transport, error_mapper), far_read, far_write)

    async def run() -> None:
        await serve(client.peer, handlers, read_params)
        client.finished.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            try:
                yield client
            finally:
                client.peer.close()
                await client.end_input()
                await client.stop_reading()
