"""`Frames`: a WebSocket below its messages, where hypercorn leaves something to be wished for: one whose client has
vanished ends, what breaks the protocol ends it with the code that says so, and no more is kept of messages than there
is room for.

RFC 6455, sections 5.5 (pings), 7.1.7 and 7.4 (failing, and its codes).
"""

# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false
# Hypercorn's types are no more than that; what comes of wsproto is taken from where hypercorn has it.

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import anyio
import anyio.lowlevel
from hypercorn.config import Config
from hypercorn.protocol import h2, h11, ws_stream
from hypercorn.protocol.events import Body, Data, Event, StreamClosed
from hypercorn.typing import ASGISendEvent

from acp_agent.server.web.room import Room, Share

TOO_BIG = 1009
VANISHED = 1011
TRY_AGAIN_LATER = 1013
LINGER_SECONDS = 2.0
"""For a client to read why its connection ends: to close it before all was read that it has sent could lose that."""
_TELLING_SECONDS = 0.5
"""For a client that does not read."""
_NO_ROOM = "Other clients are sending too much at the same time; connect again."


class FramesConfig(Config):
    """:ivar room: for messages that are not whole yet.
    :ivar ping_seconds: between two pings.
    :ivar silent_seconds: after so long without a pong, or anything else, a client is taken to have vanished.
    """

    room: Room
    ping_seconds: float
    silent_seconds: float


class Frames(ws_stream.WSStream):
    """See above."""

    config: FramesConfig

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._share = Share(self.config.room)
        self._failed = False
        self._over = anyio.Event()
        self._heard_at = anyio.current_time()
        self._taking = False

    async def handle(self, event: Event) -> None:
        """Take what came of it."""
        if self._failed and isinstance(event, Body | Data):
            return
        self._heard_at = anyio.current_time()
        try:
            await super().handle(event)
        finally:
            self._heard_at = anyio.current_time()
            if self.closed:
                self._share.give_back()
                self._over.set()

    async def app_send(self, message: ASGISendEvent | None) -> None:
        """Send what the agent says; None where it has ended."""
        if message is not None or not self._failed:  # or it would not linger
            await super().app_send(message)

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            if isinstance(event, ws_stream.Message):
                await self._take(event)
            elif isinstance(event, ws_stream.Ping):
                await self._send_wsproto_event(event.response())
            elif isinstance(event, ws_stream.CloseConnection):
                if self.connection.state is ws_stream.ConnectionState.OPEN:
                    # It is no close of the client's, but what is wrong with what came of it.
                    await self._fail(event.code, event.reason)
                    return
                if self.connection.state is ws_stream.ConnectionState.REMOTE_CLOSING:
                    await self._send_wsproto_event(event.response())
                await self.send(StreamClosed(stream_id=self.stream_id))
            if self._failed:
                return

    async def _take(self, event: Any) -> None:
        most = self.buffer.max_length
        if self.buffer.length + len(event.data) > most:  # looked at before: little becomes much when it is inflated
            await self._fail(TOO_BIG, f"A message has at most {most} bytes.")
        elif not self._share.take(len(event.data)):
            await self._fail(TRY_AGAIN_LATER, _NO_ROOM)
        else:
            self.buffer.extend(event)
            if event.message_finished:
                assert self.app_put is not None
                self._taking = True  # and no pong is seen before it is taken
                await self.app_put(self.buffer.to_message())
                self._taking = False
                self.buffer.clear()
                await anyio.lowlevel.checkpoint()  # the agent takes it, before another one is collected
                self._share.give_back()

    async def _fail(self, code: int, reason: str | None) -> None:
        """End it, and say why. What comes from now on is read and thrown away."""
        self._failed = True
        self.buffer.clear()
        self._share.give_back()
        with anyio.move_on_after(_TELLING_SECONDS):
            await self._send_wsproto_event(ws_stream.CloseConnection(code=code, reason=reason))
        self.task_group.spawn(self._end_soon)
        assert self.app_put is not None
        await self.app_put({"type": "websocket.disconnect", "code": code})

    async def _end_soon(self) -> None:
        with anyio.move_on_after(LINGER_SECONDS):
            await self._over.wait()
        await self.send(StreamClosed(stream_id=self.stream_id))

    async def _send_pings(self) -> None:
        while not self.closed:
            await self._for_a_while(self._send_wsproto_event(ws_stream.Ping()))  # waits where the client does not read
            await self._for_a_while(self._over.wait())
            silent = 0.0 if self._taking else anyio.current_time() - self._heard_at
            if silent >= self.config.silent_seconds and not self.closed and not self._failed:
                await self._fail(VANISHED, f"No pong came for {self.config.silent_seconds:g} seconds.")

    async def _for_a_while(self, work: Awaitable[object]) -> None:
        """Until the next ping at most. What it takes beyond that, this process was stopped or too busy to hear."""
        with anyio.move_on_after(self.config.ping_seconds) as scope:
            await work
        self._heard_at += max(0.0, anyio.current_time() - scope.deadline)


def use_frames() -> None:
    """Have hypercorn make its WebSockets like this; its configuration has to be a `FramesConfig`."""
    h11.WSStream = h2.WSStream = Frames
