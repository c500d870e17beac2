"""What waits for a client of HTTP, and when a client that is silent is given up."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from acp_agent.jsonrpc.messages import JsonObject, encode
from acp_agent.server.connection import Connection
from acp_agent.server.web import answer
from acp_agent.server.web.http_transport import HttpTransport
from acp_agent.server.web.streams import Streams
from acp_agent.server.web.websocket_transport import in_one_line
from serve.hosting import Noted, hosted
from support.remote import GREETING

NAMES = st.sampled_from([None, "a", "b"])


@given(puts=st.lists(st.tuples(NAMES, st.binary(min_size=1, max_size=8)), max_size=30), limit=st.integers(1, 40))
async def test_every_stream_has_its_messages_in_order_once_and_no_more_waits_than_may(
    puts: list[tuple[str | None, bytes]], limit: int
) -> None:
    streams = Streams(limit)
    read: dict[str | None, list[bytes]] = {None: [], "a": [], "b": []}
    done = 0

    async def put() -> None:
        nonlocal done
        for name, message in puts:
            await streams.put(name, message)
            done += len(message)
        streams.close()

    async def take(name: str | None) -> None:
        with streams.reader(name) as reader:
            while (message := await reader.next()) is not None:
                read[name].append(message)
                taken = sum(len(one) for messages in read.values() for one in messages)
                assert done - taken < limit + 8

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(put)
            for name in read:
                tasks.start_soon(take, name)
    assert read == {name: [message for where, message in puts if where == name] for name in read}
    assert not streams.are_read


async def test_whoever_puts_something_in_waits_for_room_and_learns_of_the_end() -> None:
    streams = Streams(4)
    await streams.put("a", b"12345")
    with anyio.move_on_after(0.05) as waiting:
        await streams.put(None, b"6")
    assert waiting.cancelled_caught
    with streams.reader("a") as reader:
        assert await reader.next() == b"12345"
        await streams.put("a", b"6789")

        async def too_late() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await streams.put("a", b"0")

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(too_late)
                await anyio.wait_all_tasks_blocked()
                streams.close()
        assert [await reader.next(), await reader.next()] == [b"6789", None]


async def test_what_is_said_behind_a_stream_waits_until_its_reader_asks_for_more() -> None:
    streams = Streams()
    await streams.put("a", b"1")
    await streams.passed_on("a")  # nobody reads it
    reader = streams.reader("a")
    order: list[str] = []

    async def behind() -> None:
        await streams.passed_on("a")
        order.append("behind")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(behind)
            with reader:
                assert await reader.next() == b"1"
                await anyio.wait_all_tasks_blocked()
                order.append("passed on")
                with anyio.move_on_after(0.01):
                    await reader.next()
                await streams.put("a", b"2")
                tasks.start_soon(behind)
                await anyio.wait_all_tasks_blocked()
                order.append("left")
    assert order == ["passed on", "behind", "left", "behind"]


async def test_who_reads_a_stream_takes_over_from_whoever_did() -> None:
    streams = Streams()
    told: list[tuple[str, bytes | None]] = []

    async def read(name: str) -> None:
        with streams.reader("a") as reader:
            while (message := await reader.next()) is not None:
                told.append((name, message))
        told.append((name, None))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for number, name in enumerate((b"one", b"two", b"three")):
                tasks.start_soon(read, name.decode())
                await anyio.wait_all_tasks_blocked()
                await streams.put("a", b"%d" % number)
                await anyio.wait_all_tasks_blocked()
            assert streams.are_read
            streams.close()
    assert told == [("one", b"0"), ("one", None), ("two", b"1"), ("two", None), ("three", b"2"), ("three", None)]
    assert not streams.are_read


async def test_what_waits_when_a_reader_leaves_is_there_for_the_next_one() -> None:
    streams = Streams()
    for message in (b"1", b"2"):
        await streams.put("a", message)
    with anyio.fail_after(5):
        for message in (b"1", b"2"):
            with streams.reader("a") as reader:
                assert await reader.next() == message


async def test_the_answer_to_a_load_comes_behind_the_replay_though_on_another_stream() -> None:
    transport = HttpTransport("c", Streams())
    load: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "a"}}
    replayed = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"a"}}'
    answered = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    with anyio.fail_after(5), transport.reader("a") as session, transport.reader(None) as own:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.post, load, encode(load), "a")
            await transport.read_line()
            tasks.start_soon(transport.write, replayed + b"\n" + answered + b"\n")
            assert await session.next() == replayed
            with anyio.move_on_after(0.05) as on_its_way:
                await own.next()
            assert on_its_way.cancelled_caught
            tasks.start_soon(session.next)  # it is sent, and the next one is wanted
            assert await own.next() == answered
            tasks.cancel_scope.cancel()
    await transport.aclose()


async def test_a_client_is_silent_from_when_it_was_last_heard_or_read_and_not_while_it_waits_for_its_greeting() -> None:
    now = 0.0
    transport = HttpTransport("c", Streams(), clock=lambda: now)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.greet, dict(GREETING), encode(dict(GREETING)))
        await transport.read_line()
        now = 100.0
        assert transport.silent_for == 0
        await transport.write(encode({"jsonrpc": "2.0", "id": GREETING["id"], "result": {}}))
    now = 103.0
    assert transport.silent_for == 3
    with transport.reader(None):
        now = 200.0
        assert transport.silent_for == 0
    transport.left()
    now = 207.0
    assert transport.silent_for == 7
    await transport.aclose()


@given(st.binary(max_size=40) | st.sampled_from([b'{\n "a":\n 1}', b'"\n"', b"[\n]"]))
def test_a_frame_with_lines_becomes_one_line_unless_it_is_no_message(data: bytes) -> None:
    if b"\n" not in (line := in_one_line(data)):
        return
    assert line == data


class Lasting(Noted):
    """One that does not end before it is told to a second time."""

    def __init__(self, inner: Connection) -> None:
        super().__init__(inner)
        self._told = False

    def close(self) -> None:
        if self._told:
            super().close()
        self._told = True


class Broken:
    """A conversation that fails at once."""

    async def run(self) -> None:
        raise RuntimeError("broken")

    def close(self) -> None:
        pass


async def test_a_client_that_reads_no_stream_and_says_nothing_is_given_up_and_one_that_reads_is_not(
    tmp_path: Path,
) -> None:
    begun: list[Noted] = []

    async with hosted(tmp_path, Noted.into(begun), patience=1.0) as http:
        first = (await http.post("/acp", json=GREETING)).headers["Acp-Connection-Id"]
        reading = {"Acp-Connection-Id": first, "Accept": "text/event-stream"}
        async with http.stream("GET", "/acp", headers=reading) as events:
            assert events.status_code == 200
            silent = (await http.post("/acp", json=GREETING)).headers["Acp-Connection-Id"]
            with anyio.fail_after(5):
                await begun[1].ended.wait()
            late = await http.get("/acp", headers={**reading, "Acp-Connection-Id": silent})
            assert late.status_code == 404
            assert not begun[0].ended.is_set()
        # It has hung up.
        with anyio.fail_after(5):
            await begun[0].ended.wait()


async def test_a_client_is_given_up_so_long_after_it_was_last_heard_and_not_later(tmp_path: Path) -> None:
    begun: list[Noted] = []
    order: list[str] = []

    async def ended(number: int, name: str) -> None:
        await begun[number].ended.wait()
        order.append(name)

    async with hosted(tmp_path, Noted.into(begun), patience=1.5) as http, anyio.create_task_group() as tasks:
        warm = (await http.post("/acp", json=GREETING)).headers["Acp-Connection-Id"]
        await http.delete("/acp", headers={"Acp-Connection-Id": warm})
        begun.clear()
        earlier = (await http.post("/acp", json=GREETING)).headers["Acp-Connection-Id"]
        tasks.start_soon(ended, 0, "last heard first")
        with anyio.move_on_after(0.4):
            await begun[0].ended.wait()
        listing = {"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}}
        assert (await http.post("/acp", json=listing, headers={"Acp-Connection-Id": earlier})).status_code == 202
        with anyio.move_on_after(0.4):
            await begun[0].ended.wait()
        assert (await http.post("/acp", json=GREETING)).status_code == 200
        tasks.start_soon(ended, 1, "last heard last")
    assert order == ["last heard first", "last heard last"]


async def test_a_body_that_stops_in_the_middle_ends_its_request_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "STALL_SECONDS", 0.5)
    head = b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    async with hosted(tmp_path, lambda inner: inner) as http:
        assert http.base_url.port is not None
        async with await anyio.connect_tcp("127.0.0.1", http.base_url.port) as stopping:
            await stopping.send(head + b"{")
            with anyio.fail_after(10):
                said = b"".join([part async for part in stopping])
        assert said.startswith(b"HTTP/1.1 408")
        assert (await http.post("/acp", json=GREETING)).status_code == 200


async def test_a_client_whose_greeting_was_refused_takes_nobody_s_place(tmp_path: Path) -> None:
    begun: list[Noted] = []

    async with hosted(tmp_path, Noted.into(begun), patience=1_000.0, most=1) as http:
        old = {**GREETING, "params": {"protocolVersion": 0}}
        assert "error" in (await http.post("/acp", json=old)).json()
        with anyio.fail_after(5):
            await begun[0].ended.wait()


async def test_one_more_client_than_may_be_is_refused_until_another_has_gone(tmp_path: Path) -> None:
    begun: list[Noted] = []
    async with hosted(tmp_path, Noted.into(begun), most=1) as http:
        address = f"ws://{http.base_url.netloc.decode()}/acp"
        first = await http.post("/acp", json=GREETING)
        assert (await http.post("/acp", json=GREETING)).status_code == 503
        with pytest.raises(InvalidStatus) as refused:
            async with connect(address):
                pass
        assert refused.value.response.status_code == 503
        assert (await http.delete("/acp", headers={"Acp-Connection-Id": first.headers["Acp-Connection-Id"]})).is_success
        with anyio.fail_after(5):
            await begun[0].ended.wait()
        async with connect(address) as socket:
            await socket.send(json.dumps(GREETING))
            assert "result" in json.loads(await socket.recv())


async def test_a_connection_that_fails_inside_ends_alone(tmp_path: Path) -> None:
    failing = [True, False]
    async with hosted(tmp_path, lambda inner: Broken() if failing.pop(0) else inner) as http:
        failed = await http.post("/acp", json=GREETING)
        assert (failed.status_code, failed.json()["error"]["code"]) == (500, -32603)
        assert "Acp-Connection-Id" not in failed.headers
        assert (await http.post("/acp", json=GREETING)).status_code == 200


async def test_a_connection_that_its_client_has_ended_is_not_found_though_its_sessions_still_end(
    tmp_path: Path,
) -> None:
    begun: list[Noted] = []
    async with hosted(tmp_path, Lasting.into(begun)) as http:
        named = {"Acp-Connection-Id": (await http.post("/acp", json=GREETING)).headers["Acp-Connection-Id"]}
        assert (await http.delete("/acp", headers=named)).status_code == 202
        listing = {"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}}
        assert (await http.post("/acp", json=listing, headers=named)).status_code == 404
        assert (await http.delete("/acp", headers=named)).status_code == 404
        assert not begun[0].ended.is_set()
        begun[0].close()
        with anyio.fail_after(5):
            await begun[0].ended.wait()
