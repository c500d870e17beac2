"""A page on this machine's loopback that follows a session: HTTP with the little that a browser needs for that.

Nobody else gets to see it: it listens on loopback alone, answers to names of loopback alone (a page of some web site
can have its name point here), and its address has a word in it that other users of this machine do not know.
"""

from __future__ import annotations

import re
import secrets
from hmac import compare_digest
from typing import Protocol

import anyio
from anyio.abc import SocketStream, TaskStatus

from acp_agent.commands.addresses import Address
from acp_agent.errors import AgentError

_POLL_SECONDS = 0.5
_SILENCE = 30
"""Looks at the log without news, after which the page is told that the connection is alive."""
_REQUEST_SECONDS = 10.0
_MAX_REQUEST = 16_384
_DATA = re.compile(r"data(?:\?texts=([0-9]{1,9}))?")
_HEADERS = (
    "Cache-Control: no-store",
    "Connection: close",
    "Cross-Origin-Resource-Policy: same-origin",
    "Referrer-Policy: no-referrer",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
)


class Followed(Protocol):
    """What is shown."""

    async def head(self) -> int:
        """Seq of the last entry that there is now."""
        ...

    async def page(self) -> str:
        """The page as it is now."""
        ...

    async def data(self, known: int) -> str:
        """What is in it, as JSON, without the first so many texts, which the page has."""
        ...


def loopback_address(text: str) -> Address:
    """From `HOST:PORT`, `HOST` or `PORT`.

    :raises AgentError: it is no address of loopback.
    """
    address = Address.read(text)
    if not address.is_loopback:
        raise AgentError(
            f"{address.host!r} is not on loopback. A session is shown to this machine alone: use 127.0.0.1, and "
            "forward the port with ssh for another."
        )
    return address


async def serve(
    address: Address, followed: Followed, *, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Show it until this is cancelled; says where, once it listens.

    :raises AgentError: it cannot listen there.
    """
    word = secrets.token_urlsafe(16)
    try:
        listener = await anyio.create_tcp_listener(local_host=address.host, local_port=address.port)
    except OSError as error:
        reason = error.strerror or "the address is taken"
        raise AgentError(f"Cannot listen on {address.host}:{address.port} ({reason}); name another port.") from error
    async with listener:
        port = int(listener.extra(anyio.abc.SocketAttribute.local_port))
        hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", address.host)}
        task_status.started(f"http://{address.authority(port)}/{word}/")
        await listener.serve(_Site(f"/{word}/", hosts, followed).answer)


class _Site:
    def __init__(self, root: str, hosts: set[str], followed: Followed) -> None:
        self._root = root
        self._hosts = hosts
        self._followed = followed

    async def answer(self, stream: SocketStream) -> None:
        """Answer one request, and close."""
        async with stream:
            try:
                with anyio.fail_after(_REQUEST_SECONDS):
                    head = await _request(stream)
                await self._route(stream, head)
            except (TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # whoever asked has gone

    async def _route(self, stream: SocketStream, head: str) -> None:
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0]
        hosts = [value.strip() for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            await _respond(stream, "421 Misdirected Request", "text/plain", "This is no name of this page.\n")
        elif not compare_digest(path[: len(self._root)].encode(), self._root.encode()):
            await _respond(stream, "404 Not Found", "text/plain", "Open the address that acp-agent printed.\n")
        elif method != "GET":
            await _respond(stream, "405 Method Not Allowed", "text/plain", "There is nothing to change here.\n")
        else:
            await self._found(stream, path[len(self._root) :])

    async def _found(self, stream: SocketStream, name: str) -> None:
        asked = _DATA.fullmatch(name)
        if name == "events":
            await self._events(stream)
        elif name and not asked:
            await _respond(stream, "404 Not Found", "text/plain", "There is no such page.\n")
        else:
            try:
                text = await self._followed.data(int(asked[1] or 0)) if asked else await self._followed.page()
            except AgentError as error:
                await _respond(stream, "410 Gone", "text/plain", f"{error}\n")
            else:
                await _respond(stream, "200 OK", "application/json" if asked else "text/html", text)

    async def _events(self, stream: SocketStream) -> None:
        """Tell of each growth of the log, as server-sent events."""
        await stream.send(_head("200 OK", "text/event-stream"))
        last, silent = -1, 0
        while True:
            try:
                head = await self._followed.head()
            except AgentError:
                return
            if head != last or silent >= _SILENCE:
                await stream.send(f"data: {head}\n\n".encode())
                last, silent = head, 0
            silent += 1
            await anyio.sleep(_POLL_SECONDS)


async def _request(stream: SocketStream) -> str:
    """The first line and the headers.

    :raises anyio.EndOfStream: they are not complete, or longer than any browser's.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
        if len(data) > _MAX_REQUEST:
            raise anyio.EndOfStream
    return data.partition(b"\r\n\r\n")[0].decode("latin-1")


async def _respond(stream: SocketStream, status: str, kind: str, text: str) -> None:
    body = text.encode()
    await stream.send(_head(status, kind, len(body)) + body)


def _head(status: str, kind: str, length: int | None = None) -> bytes:
    size = () if length is None else (f"Content-Length: {length}",)
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}; charset=utf-8", *size, *_HEADERS)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
