"""WebSocket, frame by frame, as ACP's RFD describes it."""

from __future__ import annotations

import json
import re
import socket
import struct
import sys
import zlib
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
import pytest
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from acp_agent.server.web import websocket
from serve.hosting import hosted
from support.remote import GREETING, serving

UPGRADE = (
    b"GET /acp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
)


async def answer(connection: ClientConnection) -> Any:
    """The next message."""
    with anyio.fail_after(10):
        return json.loads(await connection.recv())


async def test_frames_are_taken_as_lines_are_and_one_that_is_too_long_ends_the_connection(tmp_path: Path) -> None:
    listing = {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": {}}
    async with serving(tmp_path, env={"ACP_AGENT_WIRE": "1"}) as served:
        async with connect(served.url("ws")) as client:
            assert client.response is not None
            assert client.response.status_code == 101
            UUID(client.response.headers["Acp-Connection-Id"])
            # Nothing but initialize comes first.
            await client.send(json.dumps(listing))
            assert (await answer(client))["error"]["code"] == -32600
            await client.send(b"\x00binary")  # is ignored
            await client.send("{")
            assert (await answer(client))["error"]["code"] == -32700
            await client.send(json.dumps(GREETING, indent=2))  # a frame may have lines
            greeted = await answer(client)
            assert greeted["result"]["protocolVersion"] == 1
            assert "connectionId" not in greeted["result"]
            await client.send(json.dumps([listing, {**listing, "id": 8}]))
            assert {one["id"] for one in await answer(client)} == {7, 8}

            async with connect(served.url("ws")) as other:
                await other.send(json.dumps(listing) + " " * (MAX_LINE_BYTES - 1_000))
                assert (await answer(other))["error"]["code"] == -32600
                await other.send(" " * (MAX_LINE_BYTES + 1))
                with anyio.fail_after(20), pytest.raises(ConnectionClosed) as closed:
                    await other.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
            await client.send(json.dumps(listing))
            assert (await answer(client))["result"] == {"sessions": []}
        with pytest.raises(InvalidStatus) as refused:
            async with connect(served.url("ws").replace("/acp", "/other")):
                pass
        assert refused.value.response.status_code == 404
    recorded = "".join(path.read_text() for path in (tmp_path / "state" / "wire").iterdir())
    assert recorded.count('"invalid"') == 1  # what was no JSON
    assert recorded.count('"method":"initialize"') == 1


def masked(data: bytes, length: int, *, inflated: bool) -> bytes:
    """A text frame that says it is so long."""
    return bytes([0xC1 if inflated else 0x81, 0xFF]) + struct.pack(">QI", length, 0) + data


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("inflated", [False, True])
async def test_a_message_without_end_takes_no_memory_and_ends_its_own_connection_alone(
    tmp_path: Path, *, inflated: bool
) -> None:
    mib = b" " * (1 << 20)
    deflate = zlib.compressobj(wbits=-15)
    bomb = b"".join([deflate.compress(mib) for _ in range(600)]) + deflate.flush()

    def send(one: socket.socket) -> None:
        try:
            one.sendall(masked(bomb if inflated else b"", len(bomb) if inflated else 1 << 40, inflated=inflated))
            for _ in range(0 if inflated else 600):
                one.sendall(mib)
            while one.recv(65_536):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass

    async with serving(tmp_path) as served, connect(served.url("ws")) as another:
        with socket.create_connection(("127.0.0.1", served.port)) as one:
            one.settimeout(30)
            one.sendall(UPGRADE)
            assert one.recv(4096).startswith(b"HTTP/1.1 101")
            await anyio.to_thread.run_sync(send, one)  # until it is ended
        status = Path(f"/proc/{served.process.pid}/status").read_text()
        [peak] = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert int(peak) < 550_000
        await another.send(json.dumps(GREETING))
        assert (await answer(another))["result"]["protocolVersion"] == 1


async def test_the_end_of_the_agent_closes_every_connection_and_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connect(served.url("ws")) as client:
        await client.send(json.dumps(GREETING))
        await answer(client)
        served.terminate()
        with anyio.fail_after(8), pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001


async def test_one_more_client_than_may_be_is_refused_until_another_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MAX_CLIENTS", 1)
    async with hosted(tmp_path) as site:
        async with connect(site.url):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(site.url):
                    pass
            assert refused.value.response.status_code == 503
        with anyio.fail_after(5):
            await site.ends[0].wait()
        async with connect(site.url) as client:
            await client.send(json.dumps(GREETING))
            assert "result" in await answer(client)


async def test_what_is_written_behind_the_end_is_told_to_nobody_and_the_end_is_said_once() -> None:
    sent: list[Any] = []
    came: list[Any] = [{"type": "websocket.connect"}]

    async def receive() -> Any:
        return came.pop()

    async def send(event: Any) -> None:
        sent.append(event)

    accepted = WebSocket({"type": "websocket", "headers": []}, receive, send)
    await accepted.accept()
    transport = websocket.WebSocketTransport(accepted)
    await transport.write(b"{}\n")
    for _ in range(2):
        await transport.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await transport.write(b"{}\n")
    assert [event["type"] for event in sent] == ["websocket.accept", "websocket.send", "websocket.close"]
