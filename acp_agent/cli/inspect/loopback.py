"""A minimal HTTP server for a page on loopback, for this machine's user alone.

It listens on loopback only, accepts only host names of loopback (against DNS rebinding), and its address contains a
token that other users of this machine do not know.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import TypeAlias

import anyio
from anyio.abc import SocketStream, TaskStatus

from acp_agent.errors import AgentError

_REQUEST_SECONDS = 10.0
_MAX_REQUEST = 16_384
_HEADERS = (
    "Cache-Control: no-store",
    "Connection: close",
    "Cross-Origin-Resource-Policy: same-origin",
    "Referrer-Policy: no-referrer",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
)


Answer: TypeAlias = Callable[[SocketStream, str], Awaitable[None]]
"""Answers a request for a path behind the token, by `respond` or by `head` and what follows."""


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


async def respond(stream: SocketStream, status: str, kind: str, text: str) -> None:
    """Send a whole response.

    :param status: such as `200 OK`.
    :param kind: its MIME type.
    """
    body = text.encode()
    await stream.send(head(status, kind, len(body)) + body)


def head(status: str, kind: str, length: int | None = None) -> bytes:
    """Return the first line of a response and its headers.

    :param length: bytes of what follows; None if not known yet.
    """
    size = () if length is None else (f"Content-Length: {length}",)
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}; charset=utf-8", *size, *_HEADERS)
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
                data = b""
                with anyio.fail_after(_REQUEST_SECONDS):
                    while b"\r\n\r\n" not in data:
                        data += await stream.receive()
                        if len(data) > _MAX_REQUEST:  # longer than any browser's
                            return
                await self._route(stream, data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n"))
            except (TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the browser has closed the connection

    async def _route(self, stream: SocketStream, lines: list[str]) -> None:
        method, _, rest = lines[0].partition(" ")
        path = rest.partition(" ")[0]
        hosts = _values(lines, "host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            await respond(stream, "421 Misdirected Request", "text/plain", "This is no name of this page.\n")
        elif not compare_digest(path[: len(self._root)].encode(), self._root.encode()):
            await respond(stream, "404 Not Found", "text/plain", "Open the address that acp-agent printed.\n")
        elif method != "GET":
            await respond(stream, "405 Method Not Allowed", "text/plain", "There is nothing to change here.\n")
        else:
            await self._answer(stream, path[len(self._root) :])


def _values(lines: list[str], header: str) -> list[str]:
    pairs = (line.partition(":") for line in lines[1:])
    return [value.strip() for name, _, value in pairs if name.lower() == header]
