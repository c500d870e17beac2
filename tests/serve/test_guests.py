"""Who has not shown the token keeps nobody else from being served."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from acp_agent.server.web.guests import Guests
from support.remote import GREETING, Served, serving

TOKEN = "0123456789abcdef-secret"
HEAD = b"POST /acp HTTP/1.1\r\nHost: agent.example\r\nContent-Type: application/json\r\n"
ENDLESS = HEAD + b"Content-Length: 1000000\r\n\r\n{"


async def connected(served: Served, said: bytes = b"") -> socket.socket:
    """A connection that has said no more than this."""
    one = socket.socket()
    one.setblocking(False)
    with anyio.fail_after(5):
        while one.connect_ex(("127.0.0.1", served.port)):
            await anyio.wait_writable(one)
        one.send(said)
    return one


async def heard(one: socket.socket, until: bytes | None = None) -> bytes:
    """What comes until this was said, or until the end."""
    got = b""
    with anyio.fail_after(10):
        while until is None or until not in got:
            await anyio.wait_readable(one)
            try:
                chunk = one.recv(65_536)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                break
            got += chunk
    return got


async def test_who_is_not_let_in_is_told_before_the_body_has_come_and_cut_off_where_it_never_ends(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, token=TOKEN) as served:
        with await connected(served, ENDLESS) as one:
            got = await heard(one, b"behind Bearer.\n")
            assert got.startswith(b"HTTP/1.1 401")
            assert await heard(one) == b""
        # Who goes on to send is heard to the end, so that nothing is lost of the answer.
        with await connected(served, HEAD + b"Content-Length: 5\r\n\r\n1") as one:
            assert b" 401 " in await heard(one, b"behind Bearer.\n")
            one.send(b"2345" + HEAD + b"Content-Length: 0\r\n\r\n")
            assert b" 401 " in await heard(one, b"behind Bearer.\n")
        # Not so who was let in over this connection.
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
        knows = HEAD + f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with await connected(served, knows + body) as one:
            assert b'"connectionId"' in await heard(one, b"}}}")
            one.send(ENDLESS)
            assert b" 401 " in await heard(one, b"behind Bearer.\n")
            one.send(b" " * 999_999 + knows + body)
            assert b'"connectionId"' in await heard(one, b"}}}")


async def test_what_no_server_expects_ends_the_one_connection_that_it_came_over(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN) as served:
        for _ in range(2):
            with await connected(served) as one:
                # Data behind the refusal of a WebSocket over HTTP/2.
                http2 = H2Connection(H2Configuration(validate_outbound_headers=False))
                http2.initiate_connection()
                names = (":method", ":protocol", ":scheme", ":path", ":authority", "sec-websocket-version")
                values = ("CONNECT", "websocket", "http", "/acp", "agent.example", "13")
                http2.send_headers(1, list(zip(names, values, strict=True)))
                one.send(http2.data_to_send())
                assert b"behind Bearer.\n" in await heard(one, b"behind Bearer.\n")
                http2.send_data(1, b"more")
                one.send(http2.data_to_send())
                await heard(one)
        assert await served.greet()
    [log] = (tmp_path / "state" / "logs").iterdir()
    assert log.read_text().count("a connection was closed for what came over it (KeyError") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_connection_that_its_client_has_left_is_not_kept_for_one_that_may_come_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        files = Path(f"/proc/{served.process.pid}/fd")
        before = len(list(files.iterdir()))
        for said in (b"", HEAD, HEAD.replace(b"agent.example", b"localhost") + b"Content-Length: 0\r\n\r\n"):
            with await connected(served, said) as one:
                if said.endswith(b"\r\n\r\n"):
                    assert b" 400 " in await heard(one, b"}")
        with anyio.fail_after(5):
            while len(list(files.iterdir())) > before:  # noqa: ASYNC110 - another process closes them
                await anyio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
async def test_a_crowd_that_has_no_token_keeps_no_client_from_being_served(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN, env={"ACP_AGENT_WIRE": "1"}) as served:
        pid = served.process.pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (128, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
        first = await served.greet()
        with ExitStack() as crowd:
            many = [crowd.enter_context(await connected(served)) for _ in range(200)]
            # As many as there is room for are kept, the newest.
            assert await heard(many[0]) == b""
            many[-1].send(HEAD + b"Content-Length: 0\r\n\r\n")
            assert b" 401 " in await heard(many[-1], b"behind Bearer.\n")
            # Whoever was let in keeps the connection, and whoever comes anew is let in.
            listing = {"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}}
            assert (await served.post(listing, connection=first)).status_code == 202
            async with httpx2.AsyncClient(base_url=served.http.base_url, headers=served.http.headers) as other:
                assert (await other.post("/acp", json=GREETING)).status_code == 200
            for _ in range(100):
                crowd.enter_context(await connected(served, ENDLESS))
            headers = {"Acp-Connection-Id": first, "Accept": "text/event-stream"}
            async with served.http.stream("GET", "/acp", headers=headers) as events:
                with anyio.fail_after(10):
                    async for line in events.aiter_lines():
                        if line.startswith("data: "):
                            assert '"sessions":[]' in line
                            break
    [log] = (tmp_path / "state" / "logs").iterdir()
    assert "Too many open files" not in log.read_text()
    recorded = [path.read_text() for path in (tmp_path / "state" / "wire").iterdir()]
    assert any('"session/list"' in one and '"sessions":[]' in one for one in recorded)


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
async def test_a_browser_that_asks_first_is_not_let_in_by_that(tmp_path: Path) -> None:
    page = "http://localhost:2718"
    first = (
        f"OPTIONS /acp HTTP/1.1\r\nHost: agent.example\r\nOrigin: {page}\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    )
    async with serving(tmp_path, "--http", "127.0.0.1:0", "--origin", page, token=TOKEN) as served:
        pid = served.process.pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (128, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
        with ExitStack() as crowd:
            for _ in range(80):
                one = crowd.enter_context(await connected(served, first.encode()))
                assert b" 204 " in await heard(one, b"\r\n\r\n")
            await served.greet()


async def test_the_end_of_a_connection_takes_nothing_from_a_later_one_between_the_same_ports() -> None:
    guests, hosted = Guests(), list[tuple[AbstractContextManager[bool], asyncio.StreamWriter]]()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = guests.hosted(writer.transport)
        assert host.__enter__()
        hosted.append((host, writer))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()
        source = ("127.0.0.1", 0)
        for count in (1, 2):
            one = socket.create_connection(address, source_address=source)
            with one, anyio.fail_after(5):
                source = one.getsockname()
                while len(hosted) < count:
                    await anyio.lowlevel.checkpoint()
                if count == 1:  # it is reset, so that its port is free at once
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    (earlier, gone), (later, writer) = hosted
                    earlier.__exit__(None, None, None)
                    guests.cut_off((source, address))
                    assert writer.transport.is_closing()
                    later.__exit__(None, None, None)
                    for each in (gone, writer):
                        each.close()
