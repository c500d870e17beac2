"""Limits what a server can make the agent do by sending many messages.

The SDK starts a task for each notification and request, no matter how many others are
still running, and a task may have to wait for the server to read an answer or for the
editor to read an update. So the number of messages is limited before the SDK sees them,
and progress is batched.

Model Context Protocol, "Base Protocol", "Ping", "Progress", "Logging".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.errors import ToolError

MOST_OPEN = 100
"""Maximum number of unanswered requests from a server. At this limit, nothing more is
read from the server.
"""
PATIENCE_SECONDS = 10.0
"""How many seconds to wait for one of them to be answered. The agent answers at once,
and limits how many questions a call may ask the user. So only a server that does not
read its answers keeps this many requests open.
"""
MOST_LINES = 20
"""Maximum number of progress lines that wait to be shown. If there are more, the oldest
are dropped.
"""
LONGEST_LINE = 500
"""Maximum length of a progress line."""
PAUSE_SECONDS = 0.1
"""Pause in seconds after progress lines are shown, during which further lines are
collected.
"""
_UNUSED = frozenset({"notifications/message", "notifications/resources/updated"})
"""Notifications that the agent does not use: log messages, and changes of resources,
which it does not subscribe to.
"""


class Intake:
    """Counts the unanswered requests from one server."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._fewer = anyio.Event()

    async def admits(self, message: SessionMessage) -> bool:
        """Return whether to pass a message from the server on to the SDK. Before
        passing on a request, wait until fewer than `MOST_OPEN` requests are open.

        :raises ToolError: if that takes too long.
        """
        match message.message:
            case types.JSONRPCNotification(method=method) if method in _UNUSED:
                return False
            case types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": request_id}
            ):
                self._close(request_id)
            case types.JSONRPCRequest(id=request_id):
                await self._wait_for_answers()
                self._open[str(request_id)] += 1
            case _:
                pass
        return True

    async def _wait_for_answers(self) -> None:
        while self._open.total() >= MOST_OPEN:
            self._fewer = anyio.Event()
            with anyio.move_on_after(PATIENCE_SECONDS):
                await self._fewer.wait()
            if not self._fewer.is_set():
                raise ToolError("it sends requests without reading the answers")

    def sent(self, message: SessionMessage) -> None:
        """Record a message that was sent to the server, which may be an answer."""
        if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
            self._close(message.message.id)

    def _close(self, request_id: object) -> None:
        key = str(request_id)
        if self._open[key] > 1:
            self._open[key] -= 1
        else:
            del self._open[key]
        self._fewer.set()


class CountedStream:
    """A stream to a server that reports sent messages to an `Intake`. It has the
    methods that the SDK uses.
    """

    def __init__(self, stream: Any, intake: Intake) -> None:
        self._stream = stream
        self._intake = intake

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        await self._stream.send(item)
        self._intake.sent(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class ProgressLines:
    """Shows the progress of one call in batches of lines.

    :param show: called with the lines to show.
    """

    def __init__(self, show: Callable[[str], Awaitable[None]]) -> None:
        self._show = show
        self._waiting: deque[str] = deque(maxlen=MOST_LINES)
        self._is_showing = False
        self._ended = False
        self._one_at_a_time = anyio.Lock()

    async def add(self, line: str) -> None:
        """Add a line, without its line break. Show all waiting lines, unless another
        task is already doing so.
        """
        if self._ended:
            return
        self._waiting.append(line[:LONGEST_LINE])
        if self._is_showing:
            return
        self._is_showing = True
        try:
            while self._waiting:
                await self._show_waiting()
                await anyio.sleep(PAUSE_SECONDS)
        finally:
            self._is_showing = False

    async def end(self) -> None:
        """Show the waiting lines, since the call has been answered. Lines that are
        added later are dropped.
        """
        self._ended = True
        await self._show_waiting()

    async def _show_waiting(self) -> None:
        async with self._one_at_a_time:
            lines = [*self._waiting]
            self._waiting.clear()
            if lines:
                await self._show("".join(f"{line}\n" for line in lines))
