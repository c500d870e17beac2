"""`Http2`: a connection of HTTP/2, where hypercorn leaves something to be wished for: who says something waits until
it was sent, as over HTTP/1.1. So no more is kept of what a client does not take than anywhere else, and what is said
behind something comes behind it, on whatever streams.

RFC 9113, section 5.2 (flow control).
"""

# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false
# Hypercorn's types are no more than that.

from __future__ import annotations

import asyncio
from typing import Any

import hypercorn.protocol
from hypercorn.events import Closed, RawData
from hypercorn.events import Event as Heard
from hypercorn.protocol.events import Body, Data, Event
from hypercorn.protocol.h2 import H2Protocol


class Http2(H2Protocol):
    """See above."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._hears: asyncio.Task[Any] | None = None

    async def handle(self, event: Heard) -> None:
        """Take what came over it."""
        if isinstance(event, RawData):
            self._hears = asyncio.current_task()
        await super().handle(event)
        if isinstance(event, Closed):
            for buffer in list(self.stream_buffers.values()):
                await buffer.close()  # or whoever waits for it to be sent would wait for ever

    async def stream_send(self, event: Event) -> None:
        """Send something on a stream."""
        await super().stream_send(event)
        # Who hears must not wait: that there is room to send is among what comes.
        if isinstance(event, Body | Data) and asyncio.current_task() is not self._hears:
            buffer = self.stream_buffers.get(event.stream_id)
            if buffer is not None:
                await buffer.drain()


def use_http2() -> None:
    """Have hypercorn make its connections of HTTP/2 like this."""
    hypercorn.protocol.H2Protocol = Http2  # pyright: ignore[reportAttributeAccessIssue]
