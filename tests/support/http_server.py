"""A small HTTP/1.1 server on the loopback interface, for servers that a test has to
make misbehave.

async def app(exchange: Exchange) -> None:
    await exchange.respond(200, {"hello": "world"})

async with http_server(app) as base_url: ...        # http://127.0.0.1:<port>
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

MAX_HEADER_BYTES = 1 << 16


@dataclass(slots=True)
class Request:
    """What a client sent.

    :ivar headers: names in lower case.
    :ivar body: the parsed JSON; None where the body is empty or is not JSON.
    :ivar connection: number of the TCP connection, from 1: equal numbers mean
        keep-alive.
    :ivar finished: the whole answer was written.
    :ivar aborted: the client hung up before that.
    :ivar on_end: called when one of these two became true.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: Any
    connection: int
    finished: bool = False
    aborted: bool = False
    on_end: Callable[[], None] = field(default=lambda: None, repr=False)

    def strings(self) -> list[str]:
        found: list[str] = []
        _add_strings(self.body, found)
        return found

    def mentions(self, text: str) -> bool:
        return any(text in string for string in self.strings())


@dataclass(slots=True)
class Exchange:
    request: Request
    _writer: asyncio.StreamWriter
    cut: bool = field(default=False, init=False)

    async def respond(
        self, status: int, body: Any, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer at once.

        :param body: bytes or text as they stand, anything else as JSON.
        """
        plain = isinstance(body, bytes | str)
        text = body if plain else json.dumps(body)
        data = text.encode() if isinstance(text, str) else text
        kind = "text/plain" if plain else "application/json"
        await self._head(
            status,
            {"content-type": kind, "content-length": str(len(data)), **(headers or {})},
            data,
        )

    async def start(
        self,
        content_type: str = "text/event-stream",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Begin an answer in chunks with status 200."""
        await self._head(
            200,
            {
                "content-type": content_type,
                "transfer-encoding": "chunked",
                **(headers or {}),
            },
        )

    async def send(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def hang_up(self) -> None:
        """Close the connection in the middle; what was sent before still arrives."""
        self.cut = True

    async def _head(
        self, status: int, headers: Mapping[str, str], body: bytes = b""
    ) -> None:
        lines = [
            f"HTTP/1.1 {status} {_phrase(status)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        await self._writer.drain()


App = Callable[[Exchange], Awaitable[None]]


@asynccontextmanager
async def http_server(app: App) -> AsyncGenerator[str, None]:
    """Serve until the block ends; every connection is closed then.

    :param app: called once for each request.
    :raises Exception: at the end, the first that the app raised.
    """
    connections: set[asyncio.Task[None]] = set()
    failures: list[BaseException] = []
    count = 0

    def ended(task: asyncio.Task[None]) -> None:
        connections.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            failures.append(error)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        task = asyncio.create_task(_Connection(app, reader, writer, count).serve())
        connections.add(task)
        task.add_done_callback(ended)

    server = await asyncio.start_server(
        connected, "127.0.0.1", 0, limit=MAX_HEADER_BYTES
    )
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
    if failures:
        raise failures[0]


class _Connection:
    """One TCP connection with one request after the other."""

    def __init__(
        self,
        app: App,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        number: int,
    ) -> None:
        self._app = app
        self._reader = reader
        self._writer = writer
        self._number = number
        self._early = b""

    async def serve(self) -> None:
        try:
            while (request := await self._request()) is not None:
                exchange = Exchange(request, self._writer)
                request.aborted = not await self._answer(exchange)
                request.finished = not (request.aborted or exchange.cut)
                request.on_end()
                if not request.finished:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left in the middle of its request
        finally:
            self._writer.close()

    async def _answer(self, exchange: Exchange) -> bool:
        """Let the app answer unless the client hangs up first; False means that it did."""
        app = asyncio.ensure_future(self._app(exchange))
        watch = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({app, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not app.done() and (watch.exception() is not None or not watch.result()):
                app.cancel()
            await asyncio.wait({app})
        finally:
            for task in (app, watch):
                task.cancel()
            await asyncio.wait({app, watch})
        if not watch.cancelled() and watch.exception() is None:
            # Of the next request, sent before this one was answered.
            self._early = watch.result()
        if app.cancelled() or isinstance(app.exception(), ConnectionError):
            return False
        app.result()
        return True

    async def _request(self) -> Request | None:
        try:
            head = self._early + await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        self._early = b""
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        data = await self._reader.readexactly(int(headers.get("content-length", "0")))
        url = urlsplit(target)
        try:
            body = json.loads(data) if data else None
        except ValueError:
            body = None
        return Request(
            method, unquote(url.path), url.query, headers, body, self._number
        )


def _phrase(status: int) -> str:
    return (
        HTTPStatus(status).phrase
        if status in HTTPStatus._value2member_map_
        else "Unknown"
    )


def _add_strings(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, dict):
        for member in value.values():
            _add_strings(member, found)
    elif isinstance(value, list):
        for member in value:
            _add_strings(member, found)
