"""`Notices`: messages to the user outside the conversation, such as a hook's message or
an error in a recipe.

Notices are never logged, so no model reads them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from acp_agent.conversation.messages import new_id
from acp_agent.conversation.updates import AgentSaid, Notice, Show
from acp_agent.visible import harmless

SHOWING_SECONDS = 2.0
"""How long a cancelled turn may take to show its remaining updates."""

SLOW_SECONDS = 1.5
"""How long a prompt waits before the user is told why."""


class Notices:
    """Shows notices. Clients that do not support them get agent messages instead, which
    they accept only during turns.

    :param as_messages: whether the client does not support notices.
    :param found: texts to show before the turn ends. Other objects append to this list.
    :ivar streaming: whether an answer is being shown, which no message may interrupt.
    """

    def __init__(
        self, show: Show, *, as_messages: bool, found: list[str] | None = None
    ) -> None:
        self._show = show
        self._found = [] if found is None else found
        self._as_messages = as_messages
        self.streaming = False
        self._in_turn = False
        self._waiting: list[str] = []
        self._told: set[str] = set()
        self._lock = anyio.Lock()

    async def tell(self, text: str) -> None:
        """Show a notice, or keep it until a message may be shown. The text may contain
        names of files or servers.
        """
        text = harmless(text)
        if self._as_messages:
            self._waiting.append(text)
            await self.flush()
        else:
            await self._show(Notice("warning", text))

    async def tell_once(self, text: str, topic: str = "") -> None:
        """Show a notice, unless the same one was shown in this session.

        :param topic: if given, notices with the same topic count as the same notice.
        """
        if (topic or text) not in self._told:
            self._told.add(topic or text)
            await self.tell(text)

    @asynccontextmanager
    async def shown_in_turn(self) -> AsyncGenerator[None]:
        """Allow messages inside the `with` block, while a prompt is being answered, and
        show waiting ones before it ends.
        """
        self._in_turn = True
        try:
            await self.flush()
            yield
        finally:
            self.streaming = False
            with anyio.move_on_after(SHOWING_SECONDS, shield=True):
                while self._found:
                    await self.tell(self._found.pop(0))
                await self.flush()
            self._in_turn = False

    @asynccontextmanager
    async def slow(self, text: str) -> AsyncGenerator[None]:
        """Show a notice, once per session, if the `with` block takes longer than
        `SLOW_SECONDS` during a turn.
        """
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_slow, text)
            try:
                yield
            except Exception as error:  # a task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _tell_slow(self, text: str) -> None:
        await anyio.sleep(SLOW_SECONDS)
        if self._in_turn:
            await self.tell_once(text)

    async def flush(self) -> None:
        """Show waiting notices, if messages may be shown now."""
        if not self._waiting:
            return
        async with self._lock:
            while self._waiting and self._in_turn and not self.streaming:
                # Blank lines separate the notice, since some editors join all messages
                # of a turn.
                await self._show(
                    AgentSaid(new_id("msg"), f"\n\n{self._waiting[0]}\n\n", "note")
                )
                del self._waiting[0]
