"""Many streams over one connection: what is said first comes first, and what is not taken fills nobody's memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import httpx2
from anyio.abc import ByteStream
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, PingAckReceived, ResponseReceived
from h2.settings import SettingCodes

from acp_agent.jsonrpc.messages import encode
from acp_agent.jsonrpc.stdio import Transport
from serve.hosting import Noted, hosted, hosted_with
from support.http2 import OneConnection
from support.models import Reply
from support.remote import GREETING, JSON, site
from support.stage import PATIENCE

E = TypeVar("E", bound=Event)
WINDOW = 1 << 16
PING, PONG = b"\x89\x80\x00\x00\x00\x00", b"\x8a\x00"
MIB = 1 << 20
FLOOD = 40
LONG = "x" * 50_000


class Flood:
    """An agent that says a lot as soon as it was greeted.

    :ivar said: how many messages of 1 MiB it got rid of.
    """

    def __init__(self, transport: Transport) -> None:
        self.said = 0
        self._transport = transport
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        with self._scope:
            await self._transport.read_line()
            await self._transport.write(encode({"jsonrpc": "2.0", "id": GREETING["id"], "result": {}}) + b"\n")
            for number in range(FLOOD):
                told = {"jsonrpc": "2.0", "method": "told", "params": {"number": number, "text": "x" * MIB}}
                await self._transport.write(encode(told) + b"\n")
                self.said += 1

    def close(self) -> None:
        self._scope.cancel()


@asynccontextmanager
async def client(address: httpx2.URL, window: int = WINDOW) -> AsyncGenerator[httpx2.AsyncClient]:
    """:param window: bytes that may come before they are taken."""
    async with (
        anyio.create_task_group() as tasks,
        httpx2.AsyncClient(transport=OneConnection(tasks, window), base_url=address, timeout=None) as http,
    ):
        yield http
        tasks.cancel_scope.cancel()


async def connected(http: httpx2.AsyncClient) -> tuple[dict[str, str], httpx2.Response]:
    """How the connection is named, and its stream, of which nothing was taken."""
    response = await http.post("/acp", json=GREETING)
    assert (response.status_code, response.http_version) == (200, "HTTP/2")
    named = {**JSON, "Acp-Connection-Id": response.headers["Acp-Connection-Id"]}
    return named, await opened(http, named)


async def opened(http: httpx2.AsyncClient, named: dict[str, str]) -> httpx2.Response:
    """A stream, of which nothing was taken."""
    headers = {**named, "Accept": "text/event-stream"}
    return await http.send(http.build_request("GET", "/acp", headers=headers), stream=True)


async def test_the_answer_to_a_load_comes_behind_all_of_the_replay_also_where_that_is_taken_later(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, *[Reply([LONG])] * 4) as it:
        async with it.client() as one:
            session = await it.opened(one)
            for _ in range(4):
                await one.prompt(session, "Go on", PATIENCE)
        async with client(it.served.http.base_url) as http, anyio.create_task_group() as tasks:
            named, own = await connected(http)
            of_session = {**named, "Acp-Session-Id": session}
            stream = await opened(http, of_session)
            params: dict[str, Any] = {"sessionId": session, "cwd": str(it.folder), "mcpServers": []}
            load = {"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": params}
            assert (await http.post("/acp", json=load, headers=of_session)).status_code == 202
            came: list[str] = []

            async def read(response: httpx2.Response, what: str) -> None:
                async for line in response.aiter_lines():
                    came.extend([what] * (what in line))

            tasks.start_soon(read, own, '"result"')
            with anyio.move_on_after(1):  # there is room for it, as there is none for the rest of the replay
                await anyio.sleep_forever()
            tasks.start_soon(read, stream, '"agent_message_chunk"')
            with anyio.fail_after(PATIENCE):
                while '"result"' not in came:
                    await anyio.lowlevel.checkpoint()
            assert came == ['"agent_message_chunk"'] * 4 + ['"result"']
            tasks.cancel_scope.cancel()


async def test_a_client_that_takes_nothing_of_a_stream_is_waited_for_and_gets_all_when_it_does() -> None:
    begun: list[Flood] = []

    def begin(transport: Transport) -> Flood:
        begun.append(Flood(transport))
        return begun[-1]

    async with hosted_with(begin) as plain, client(plain.base_url) as http:
        _, stream = await connected(http)
        [flood], said = begun, -1
        with anyio.fail_after(3 * PATIENCE):
            while said < flood.said:
                said = flood.said
                with anyio.move_on_after(1):
                    await anyio.sleep_forever()
            assert said < FLOOD, "all of it is kept for it"
            numbers: list[int] = []
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    numbers.append(json.loads(line.removeprefix("data: "))["params"]["number"])
                if len(numbers) == FLOOD:
                    break
        assert numbers == list(range(FLOOD))


async def test_nothing_is_left_of_clients_that_go_while_they_are_waited_for(tmp_path: Path) -> None:
    begun: list[Noted] = []
    async with hosted(tmp_path, Noted.into(begun), patience=0.5) as plain:
        async with client(plain.base_url) as http:
            await connected(http)
        with anyio.fail_after(PATIENCE):
            await begun[0].ended.wait()
        before = len(asyncio.all_tasks())

        async with client(plain.base_url) as http:
            named, _ = await connected(http)
            long = {"jsonrpc": "2.0", "id": "x" * MIB, "method": "session/list", "params": {}}
            assert (await http.post("/acp", json=long, headers=named)).status_code == 202
        async with RawClient.of(plain.base_url) as one:
            one.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
            await one.ask(":method=POST", body=json.dumps(GREETING).encode())
            await one.until(ResponseReceived)
        with anyio.fail_after(PATIENCE):
            for one in begun:
                await one.ended.wait()
            while len(asyncio.all_tasks()) > before:
                await anyio.lowlevel.checkpoint()


async def test_who_pings_over_a_websocket_before_there_is_room_for_the_answer_gets_it_when_there_is() -> None:
    async with hosted_with(Flood) as plain, RawClient.of(plain.base_url) as one:
        one.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        await one.ask(":method=CONNECT :protocol=websocket sec-websocket-version=13")
        await one.until(ResponseReceived)
        one.state.send_data(1, PING)
        await one.send()
        one.state.ping(b"01234567")
        await one.send()
        await one.until(PingAckReceived)  # it was heard
        one.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
        await one.send()
        data = b""
        while PONG not in data:
            data += (await one.until(DataReceived)).data or b""


class RawClient:
    """HTTP/2 frame by frame.

    :ivar state: what is said and heard.
    """

    def __init__(self, stream: ByteStream) -> None:
        self.state = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.state.initiate_connection()
        self._stream = stream
        self._heard: list[Event] = []

    @classmethod
    @asynccontextmanager
    async def of(cls, address: httpx2.URL) -> AsyncGenerator[RawClient]:
        """One that is connected."""
        assert address.port is not None
        async with await anyio.connect_tcp("127.0.0.1", address.port) as stream:
            yield cls(stream)

    async def ask(self, headers: str, *, body: bytes | None = None) -> None:
        """Begin a request with these headers, and those that each has."""
        named = ":authority=localhost :scheme=http :path=/acp content-type=application/json"
        pairs = sorted(pair.split("=") for pair in f"{headers} {named}".split())
        self.state.send_headers(1, [(name, value) for name, value in pairs])
        if body is not None:
            self.state.send_data(1, body, end_stream=True)
        await self.send()

    async def send(self) -> None:
        """Send what was said."""
        await self._stream.send(self.state.data_to_send())

    async def until(self, kind: type[E]) -> E:
        """Wait for an event of this kind."""
        with anyio.fail_after(PATIENCE):
            while True:
                while self._heard:
                    event = self._heard.pop(0)
                    if isinstance(event, kind):
                        return event
                    assert not isinstance(event, DataReceived), "said before there was room"
                self._heard += self.state.receive_data(await self._stream.receive())
                await self.send()
