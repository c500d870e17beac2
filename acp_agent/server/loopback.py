"""A page on this machine's loopback, for its user alone: HTTP with the little that a browser needs for that.

Nobody else gets to it: it listens on loopback alone, answers to names of loopback alone (a page of some web site can
have its name point here), and its address has a word in it that other users of this machine do not know.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import TypeAlias

import anyio
from anyio.abc import SocketStream, TaskStatus

from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

_REQUEST_SECONDS = 10.0
_MAX_REQUEST = 16_384
_MAX_BODY = 131_072
_LENGTH = re.compile(r"[0-9]{1,9}")
_HEADERS = (
    "Cache-Control: no-store",
    "Connection: close",
    "Cross-Origin-Resource-Policy: same-origin",
    "Referrer-Policy: no-referrer",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
)


@frozen
class Asked:
    """A request that may be answered.

    :ivar name: its path behind the word.
    """

    method: str
    name: str
    body: bytes


Answer: TypeAlias = Callable[[SocketStream, Asked], Awaitable[None]]
"""Answers a request, by `respond` or by `head` and what follows; the connection is closed behind it."""


async def serve(host: str, port: int, answer: Answer, *, task_status: TaskStatus[str]) -> None:
    """Answer requests until this is cancelled; says at which address, once it listens.

    :param host: an address of loopback.
    :param port: 0 for any that is free.
    :raises AgentError: it cannot listen there.
    """
    word = secrets.token_urlsafe(16)
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        reason = error.strerror or "the address is taken"
        raise AgentError(f"Cannot listen on {host}:{port} ({reason}); name another port.") from error
    async with listener:
        port = int(listener.extra(anyio.abc.SocketAttribute.local_port))
        shown = f"[{host}]" if ":" in host else host
        hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", host)}
        task_status.started(f"http://{shown}:{port}/{word}/")
        await listener.serve(_Site(f"/{word}/", hosts, answer).take)


async def respond(stream: SocketStream, status: str, kind: str, text: str, *more: str) -> None:
    """Send a whole response.

    :param status: such as `200 OK`.
    :param kind: its MIME type.
    :param more: lines of headers.
    """
    body = text.encode()
    await stream.send(head(status, kind, len(body), *more) + body)


def head(status: str, kind: str, length: int | None = None, *more: str) -> bytes:
    """The first line of a response and its headers.

    :param length: bytes of what follows; None where nobody knows yet.
    """
    size = () if length is None else (f"Content-Length: {length}",)
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}; charset=utf-8", *size, *_HEADERS, *more)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class _Site:
    def __init__(self, root: str, hosts: set[str], answer: Answer) -> None:
        self._root = root
        self._hosts = hosts
        self._answer = answer

    async def take(self, stream: SocketStream) -> None:
        """Answer one request, and close."""
        async with stream:
            try:
                with anyio.fail_after(_REQUEST_SECONDS):
                    lines, body = await _request(stream)
                await self._route(stream, lines, body)
            except (TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # whoever asked has gone

    async def _route(self, stream: SocketStream, lines: list[str], body: bytes) -> None:
        method, _, rest = lines[0].partition(" ")
        path = rest.partition(" ")[0]
        hosts = _values(lines, "host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            await respond(stream, "421 Misdirected Request", "text/plain", "This is no name of this page.\n")
        elif not compare_digest(path[: len(self._root)].encode(), self._root.encode()):
            await respond(stream, "404 Not Found", "text/plain", "Open the address that acp-agent printed.\n")
        else:
            await self._answer(stream, Asked(method, path[len(self._root) :], body))


async def _request(stream: SocketStream) -> tuple[list[str], bytes]:
    """The lines before the body, and the body.

    :raises anyio.EndOfStream: it is not complete, or longer than any browser's.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
        if len(data.partition(b"\r\n\r\n")[0]) > _MAX_REQUEST:
            raise anyio.EndOfStream
    start, _, body = data.partition(b"\r\n\r\n")
    lines = start.decode("latin-1").split("\r\n")
    said = (_values(lines, "content-length") or ["0"])[0]
    length = int(said) if _LENGTH.fullmatch(said) else _MAX_BODY + 1
    if length > _MAX_BODY:
        raise anyio.EndOfStream
    while len(body) < length:
        body += await stream.receive()
    return lines, body[:length]


def _values(lines: list[str], header: str) -> list[str]:
    pairs = (line.partition(":") for line in lines[1:])
    return [value.strip() for name, _, value in pairs if name.lower() == header]
