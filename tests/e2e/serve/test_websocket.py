"""WebSocket, frame by frame, as ACP's RFD describes it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from acp_agent.jsonrpc.transport import MAX_LINE_BYTES
from acp_agent.server import web
from acp_agent.server.deflate import FREE_BYTES
from support.hosting import hosted
from support.remote import GREETING, serving


async def answer(connection: ClientConnection) -> Any:
    """The next message."""
    with anyio.fail_after(10):
        return json.loads(await connection.recv())


async def test_frames_are_taken_as_lines_are_and_one_that_is_too_long_ends_the_connection(
    tmp_path: Path,
) -> None:
    listing = {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": {}}
    async with hosted(tmp_path) as site:
        async with connect(site.url) as client:
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
            await client.send(json.dumps([listing]))
            assert (await answer(client))["error"]["code"] == -32600
            async with connect(site.url, compression=None) as other:
                await other.send(json.dumps(listing) + " " * (MAX_LINE_BYTES - 1_000))
                assert (await answer(other))["error"]["code"] == -32600
                # It may be closed before all of the frame is sent.
                with suppress(ConnectionClosed):
                    await other.send(" " * (MAX_LINE_BYTES + 1))
                with anyio.fail_after(20), pytest.raises(ConnectionClosed) as closed:
                    await other.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
            await client.send(json.dumps(listing))
            assert (await answer(client))["result"] == {"sessions": []}
        with pytest.raises(InvalidStatus) as refused:
            async with connect(site.url.replace("/acp", "/other")):
                pass
        assert refused.value.response.status_code == 404
        async with connect(site.url.replace("/acp", "/message")) as marimo:
            await marimo.send(json.dumps(GREETING).encode())
            assert "result" in await answer(marimo)


@pytest.mark.parametrize("frames", [1, 400])
async def test_a_small_message_that_inflates_to_megabytes_ends_the_connection(
    tmp_path: Path, frames: int
) -> None:
    blanks = " " * (MAX_LINE_BYTES // 2 // frames)
    async with hosted(tmp_path) as site, connect(site.url) as client:
        await client.send([blanks] * frames)
        with anyio.fail_after(20), pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_large_messages_of_code_may_be_deflated(tmp_path: Path) -> None:
    source = "".join(
        path.read_text() for path in Path(web.__file__).parent.parent.rglob("*.py")
    )
    async with hosted(tmp_path) as site, connect(site.url) as client:
        for text in ("{" + source, "{" + source[:50_000] * 80, "{" + " " * FREE_BYTES):
            await client.send(text)
            assert (await answer(client))["error"]["code"] == -32700


@pytest.mark.process
async def test_the_end_of_the_agent_closes_every_connection_and_says_why(
    tmp_path: Path,
) -> None:
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
    monkeypatch.setattr(web, "MAX_CLIENTS", 1)
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
