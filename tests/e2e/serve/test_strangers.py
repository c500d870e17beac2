"""Who has not shown the token keeps nobody else from being served."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from websockets.asyncio.client import connect

from acp_agent.server import web
from support.hosting import hosted
from support.remote import GREETING

HEAD = b"GET /acp HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def connected(
    port: int, said: bytes = b""
) -> AsyncGenerator[anyio.abc.SocketStream]:
    """A connection that has said no more than this."""
    async with await anyio.connect_tcp("127.0.0.1", port) as one:
        if said:
            await one.send(said)
        yield one


async def ended(one: anyio.abc.SocketStream) -> bytes:
    """What comes until the end."""
    got = b""
    with anyio.fail_after(10):
        while True:
            try:
                got += await one.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return got


async def test_a_connection_that_does_not_become_a_websocket_is_closed_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "HANDSHAKE_SECONDS", 0.3)
    endless = (
        b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{"
    )
    async with hosted(tmp_path) as site, connect(site.url) as stays:
        for said in (b"", HEAD, endless):
            async with connected(site.port, said) as one:
                assert (await ended(one)).startswith(
                    b"HTTP/1.1 426" if said == endless else b""
                )
        await stays.send(json.dumps(GREETING))
        assert "result" in json.loads(await stays.recv())


async def test_a_crowd_that_says_nothing_keeps_no_client_from_being_served(
    tmp_path: Path,
) -> None:
    async with (
        hosted(tmp_path) as site,
        connect(site.url) as first,
        AsyncExitStack() as crowd,
    ):
        for _ in range(2 * web.MAX_CONNECTIONS):
            await crowd.enter_async_context(connected(site.port))
        async with connect(site.url) as other:
            for client in (first, other):
                await client.send(json.dumps(GREETING))
                assert "result" in json.loads(await client.recv())


async def test_who_speaks_http_is_told_that_there_is_websocket_alone(
    tmp_path: Path,
) -> None:
    async with hosted(tmp_path) as site:
        for method in ("GET", "POST", "DELETE"):
            said = f"{method} /acp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            async with connected(site.port, said.encode()) as one:
                got = (await ended(one)).lower()
            assert got.startswith(b"http/1.1 426")
            assert b"\r\nupgrade: websocket\r\n" in got
            assert b"open a websocket at /acp" in got
