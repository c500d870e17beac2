"""WebSocket, frame by frame, as ACP's RFD describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from support.remote import GREETING, serving


async def answer(socket: ClientConnection) -> Any:
    """The next message."""
    with anyio.fail_after(10):
        return json.loads(await socket.recv())


async def test_frames_are_taken_as_lines_are_and_one_that_is_too_long_ends_the_connection(tmp_path: Path) -> None:
    listing = {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": {}}
    async with serving(tmp_path, env={"ACP_AGENT_WIRE": "1"}) as served:
        async with connect(served.url("ws")) as socket:
            assert socket.response is not None
            assert socket.response.status_code == 101
            UUID(socket.response.headers["Acp-Connection-Id"])
            # Nothing but initialize comes first.
            await socket.send(json.dumps(listing))
            assert (await answer(socket))["error"]["code"] == -32600
            await socket.send(b"\x00binary")  # is ignored
            await socket.send("{")
            assert (await answer(socket))["error"]["code"] == -32700
            await socket.send(json.dumps(GREETING, indent=2))  # a frame may have lines
            greeted = await answer(socket)
            assert greeted["result"]["protocolVersion"] == 1
            assert "connectionId" not in greeted["result"]
            await socket.send(json.dumps([listing, {**listing, "id": 8}]))
            assert {one["id"] for one in await answer(socket)} == {7, 8}

            # It is no connection of HTTP.
            named = {"Acp-Connection-Id": socket.response.headers["Acp-Connection-Id"]}
            assert (await served.http.delete("/acp", headers=named)).status_code == 404

            async with connect(served.url("ws")) as other:
                await other.send(" " * (MAX_LINE_BYTES + 1))
                with anyio.fail_after(20), pytest.raises(ConnectionClosed) as closed:
                    await other.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
            await socket.send(json.dumps(listing))
            assert (await answer(socket))["result"] == {"sessions": []}
        with pytest.raises(InvalidStatus) as refused:
            async with connect(served.url("ws").replace("/acp", "/other")):
                pass
        assert refused.value.response.status_code == 404
    recorded = "".join(path.read_text() for path in (tmp_path / "state" / "wire").iterdir())
    assert recorded.count('"invalid"') == 1  # what was no JSON
    assert recorded.count('"method":"initialize"') == 1


async def test_the_end_of_the_agent_closes_every_connection_and_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connect(served.url("ws")) as socket:
        await socket.send(json.dumps(GREETING))
        await answer(socket)
        connection = await served.greet()
        headers = {"Acp-Connection-Id": connection, "Accept": "text/event-stream"}
        async with served.http.stream("GET", "/acp", headers=headers) as events:
            served.terminate()
            with anyio.fail_after(8):
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1001
                try:
                    assert [line async for line in events.aiter_lines() if line.startswith("data:")] == []
                except httpx2.HTTPError as error:
                    raise AssertionError("the stream was cut off, and not ended") from error
