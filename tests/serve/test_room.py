"""What all clients send at once takes no more memory than there is for it."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from acp_agent.server.web.room import FOR_SMALL_ONES, MAX_BYTES, SMALL_BYTES, Room
from support.remote import GREETING, JSON, Served, serving

HEAD = "POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
LARGE = MAX_LINE_BYTES - 1


@given(st.lists(st.lists(st.integers(1, SMALL_BYTES), max_size=8), max_size=20))
def test_no_more_is_held_than_may_be_and_all_of_it_is_given_back(messages: list[list[int]]) -> None:
    most, for_small_ones = 6 * SMALL_BYTES, 2 * SMALL_BYTES
    room = Room(most, for_small_ones)
    held = 0
    with ExitStack() as stack:
        for parts in messages:
            share = stack.enter_context(room.share())
            size = 0
            for part in parts:
                if share.take(part):
                    size, held = size + part, held + part
                    assert held <= (most if size <= SMALL_BYTES else most - for_small_ones)
    with room.share() as large, room.share() as small:
        assert large.take(most - for_small_ones)
        assert not large.take(1)
        assert small.take(SMALL_BYTES)


async def test_large_messages_are_refused_while_others_are_on_their_way_and_small_ones_are_not(tmp_path: Path) -> None:
    large = json.dumps({**GREETING, "params": {"protocolVersion": 1, "_meta": {"x": "x" * LARGE}}})[:LARGE].encode()
    async with serving(tmp_path) as served, AsyncExitStack() as stack:
        # They are never whole.
        senders = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", served.port)) for _ in range(4)]
        for sender in senders:
            await sender.send(HEAD.format(LARGE).encode() + large[: (MAX_BYTES - FOR_SMALL_ONES) // 4 - 1_000])
        refused = await until_refused(served, large)
        assert (refused.json()["error"]["code"], refused.json()["id"]) == (-32603, None)
        async with connect(served.url("ws")) as socket:
            with anyio.fail_after(20), pytest.raises(ConnectionClosed) as closed:
                await until_closed(socket, large.decode())
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
        # What is small is taken, over both.
        assert await served.greet()
        async with connect(served.url("ws")) as socket:
            await socket.send(json.dumps(GREETING))
            assert "result" in json.loads(await socket.recv())
        # Whose senders have gone leave their room to others.
        await stack.aclose()
        with anyio.fail_after(20):
            while (await served.http.post("/acp", headers=JSON, content=large)).status_code == 503:  # noqa: ASYNC110
                await anyio.sleep(0.05)


async def until_closed(socket: ClientConnection, text: str) -> None:
    """Say it, and listen."""
    await socket.send(text)
    async for _ in socket:
        pass
    await socket.recv()


async def until_refused(served: Served, body: bytes) -> httpx2.Response:
    """That of the first POST that finds no room: what the others have sent may not have been read yet."""
    with anyio.fail_after(20):
        while True:
            response = await served.http.post("/acp", headers=JSON, content=body)
            if response.status_code == 503:
                return response
            assert response.status_code == 400
