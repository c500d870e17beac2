"""`Telling`: what the user is told beside the conversation: what hooks say, what has failed, what was left out.

It is never a part of the log, and so no model reads it. Editors that have no notices are shown it as a message of the
agent, and those take one in a turn alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from acp_agent.conversation.messages import new_id
from acp_agent.turn.updates import AgentSaid, Notice

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

SHOWING_SECONDS = 2.0
"""How long a turn that was cancelled may take to show what its user has yet to know."""


class Telling:
    """Tells the user of one session: as a notice; else as a message, at once where a turn runs, and with the next
    prompt where none does.

    :ivar streams: an answer of the model is on its way to the user, and nothing is to be told in its midst.
    """

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self.streams = False
        self._in_turn = False
        self._untold: list[str] = []
        self._lock = anyio.Lock()

    async def tell(self, text: str) -> None:
        """Tell something."""
        if self._host.client.shows_notices:
            await self._host.show(Notice("warning", text))
            return
        self._untold.append(text)
        await self._flush()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """A prompt is being answered: what could not be told so far is told now, and the rest before the end."""
        self._in_turn = True
        try:
            await self._flush()
            yield
        finally:
            self.streams = False
            with anyio.move_on_after(SHOWING_SECONDS, shield=True):
                await self._flush()
            self._in_turn = False

    async def streamed(self) -> None:
        """The answer is over: tell what has come meanwhile."""
        self.streams = False
        await self._flush()

    async def _flush(self) -> None:
        if not self._untold:
            return
        async with self._lock:
            while self._untold and self._in_turn and not self.streams:
                # Some editors join all messages of a turn: blank lines keep this one apart.
                await self._host.show(AgentSaid(new_id("msg"), f"\n\n{self._untold[0]}\n\n"))
                del self._untold[0]
