"""Clients that have vanished, and what breaks the rules of WebSocket."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect

from acp_agent.server.web import listener
from serve.hosting import hosted
from support.remote import GREETING, serving

UPGRADE = (
    b"GET /acp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
LONG = {"jsonrpc": "2.0", "id": "x" * 1_000_000, "method": "session/list", "params": {}}
"""Its answer is as long."""


def frame(data: bytes, first: int = 0x81) -> bytes:
    """A frame of a client's, by default a whole text."""
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0xFE, size) if size < 1 << 16 else None
    return bytes([first]) + (length or struct.pack(">BQ", 0xFF, size)) + bytes(4) + data


@asynccontextmanager
async def upgraded(port: int | None) -> AsyncGenerator[socket.socket]:
    """A WebSocket that does nothing by itself."""
    assert port is not None
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.setblocking(False)
        await say(one, UPGRADE)
        assert (await heard(one, b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        yield one


async def say(one: socket.socket, data: bytes) -> None:
    """All of it."""
    with anyio.fail_after(20):
        while data:
            await anyio.wait_writable(one)
            data = data[one.send(data) :]


async def heard(one: socket.socket, until: bytes | None = None) -> bytes:
    """What comes until this was said, or until the end."""
    got = b""
    with anyio.fail_after(20):
        while until is None or until not in got:
            await anyio.wait_readable(one)
            chunk = one.recv(4096)
            if not chunk:
                break
            got += chunk
    return got


def code_of(data: bytes) -> int:
    """That of the frame at the end, which closes."""
    kind, said = 0, b""
    while data:
        kind, length, begin = data[0], data[1], 2
        if length == 126:
            length, begin = int.from_bytes(data[2:4], "big"), 4
        said, data = data[begin : begin + length], data[begin + length :]
    assert kind == 0x88
    return int.from_bytes(said[:2], "big")


async def test_a_client_that_answers_no_ping_is_given_up_and_one_that_does_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PING_SECONDS", 0.2)
    monkeypatch.setattr(listener, "SILENT_SECONDS", 1)
    async with hosted(tmp_path) as site, connect(site.url) as alive:
        async with upgraded(site.port) as vanished:
            await say(vanished, frame(json.dumps(GREETING).encode()))
            assert code_of(await heard(vanished)) == 1011
        with anyio.fail_after(10):
            await site.ends[1].wait()
        assert not site.ends[0].is_set()
        await alive.send(json.dumps(GREETING))
        assert "result" in json.loads(await alive.recv())


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such limit")
async def test_a_client_that_neither_answers_pings_nor_reads_is_given_up_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PING_SECONDS", 0.2)
    monkeypatch.setattr(listener, "SILENT_SECONDS", 1)
    async with hosted(tmp_path) as site, upgraded(site.port) as vanished:
        await say(vanished, frame(json.dumps(GREETING).encode()))
        for number in range(20):
            await say(vanished, frame(json.dumps({**LONG, "id": f"{number}{LONG['id']}"}).encode()))
        with anyio.fail_after(15):
            await site.ends[0].wait()


async def test_what_breaks_the_protocol_ends_the_connection_with_the_code_for_it(tmp_path: Path) -> None:
    broken = {
        "without a mask": b"\x81\x05Hello",
        "a reserved bit": frame(b"", 0xC1),
        "a reserved kind": frame(b"", 0x83),
        "the rest of nothing": frame(b"more", 0x80),
        "a close with half a code": frame(b"x", 0x88),
        "no UTF-8": frame(b"\xff\xfe"),
    }
    codes = dict.fromkeys(broken, 1002) | {"no UTF-8": 1007}
    async with serving(tmp_path) as served, connect(served.url("ws")) as another:
        for what, sent in broken.items():
            async with upgraded(served.port) as one:
                await say(one, sent)
                got = await heard(one, struct.pack(">H", codes[what]))
                assert (what, code_of(got)) == (what, codes[what])
        await another.send(json.dumps(GREETING))
        assert "result" in json.loads(await another.recv())
