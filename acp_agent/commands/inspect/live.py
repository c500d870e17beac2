"""A page on this machine's loopback that follows a session."""

from __future__ import annotations

import re
from typing import Protocol

import anyio
from anyio.abc import SocketStream, TaskStatus

from acp_agent.commands.addresses import Address
from acp_agent.errors import AgentError
from acp_agent.server import loopback
from acp_agent.server.loopback import Asked, head, respond

_POLL_SECONDS = 0.5
_SILENCE = 30
"""Looks at the log without news, after which the page is told that the connection is alive."""
_DATA = re.compile(r"data(?:\?texts=([0-9]{1,9}))?")


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
    await loopback.serve(address.host, address.port, _Page(followed).answer, task_status=task_status)


class _Page:
    def __init__(self, followed: Followed) -> None:
        self._followed = followed

    async def answer(self, stream: SocketStream, asked: Asked) -> None:
        """Answer one request."""
        if asked.method == "GET":
            await self._found(stream, asked.name)
        else:
            await respond(stream, "405 Method Not Allowed", "text/plain", "There is nothing to change here.\n")

    async def _found(self, stream: SocketStream, name: str) -> None:
        asked = _DATA.fullmatch(name)
        if name == "events":
            await self._events(stream)
        elif name and not asked:
            await respond(stream, "404 Not Found", "text/plain", "There is no such page.\n")
        else:
            try:
                text = await self._followed.data(int(asked[1] or 0)) if asked else await self._followed.page()
            except AgentError as error:
                await respond(stream, "410 Gone", "text/plain", f"{error}\n")
            else:
                await respond(stream, "200 OK", "application/json" if asked else "text/html", text)

    async def _events(self, stream: SocketStream) -> None:
        """Tell of each growth of the log, as server-sent events."""
        await stream.send(head("200 OK", "text/event-stream"))
        last, silent = -1, 0
        while True:
            try:
                now = await self._followed.head()
            except AgentError:
                return
            if now != last or silent >= _SILENCE:
                await stream.send(f"data: {now}\n\n".encode())
                last, silent = now, 0
            silent += 1
            await anyio.sleep(_POLL_SECONDS)
