"""Prompts on their way to a session's turn: one ticket each, answered in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import anyio

from acp_agent.conversation.messages import UserPart
from acp_agent.errors import QueueFullError

CAPACITY = 64
"""Prompts that may wait behind the running one; more than any person types, and a bound for a client gone wild."""

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class Ticket:
    """One prompt, and its answer once there is one.

    :ivar trace: W3C trace context that it came with.
    :ivar provisional: who sent it shows it once it has its place; one that is cancelled before that is not kept.
    :ivar cancelled: set by a cancel that came before its turn.
    :ivar message_id: of the message that it became; empty until it has its place in the conversation.
    """

    def __init__(
        self, parts: tuple[UserPart, ...], trace: Mapping[str, str] | None = None, *, provisional: bool = False
    ) -> None:
        self.parts = parts
        self.provisional = provisional
        self.trace: Mapping[str, str] = trace or {}
        self.cancelled = False
        self.message_id = ""
        self._taken = anyio.Event()
        self._done = anyio.Event()
        self._answer: StopReason | Exception = "cancelled"

    def take(self, message_id: str) -> None:
        """It has its place in the conversation, as the message with this id."""
        self.message_id = message_id
        self._taken.set()

    def answer(self, answer: StopReason | Exception) -> None:
        """Settle it; only the first answer counts."""
        if not self._done.is_set():
            self._answer = answer
            self._done.set()
            self._taken.set()

    async def taken(self) -> str:
        """The id of its message, as soon as there is one; empty where it ended without.

        :raises Exception: what made its turn fail before.
        """
        await self._taken.wait()
        if not self.message_id:
            await self.wait()
        return self.message_id

    async def wait(self) -> StopReason:
        """Why the turn ended.

        :raises Exception: what made the turn fail.
        """
        await self._done.wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    @property
    def outcome(self) -> StopReason | Exception:
        """Its answer as it stands: why the turn ended, or what made it fail."""
        return self._answer


class Mailbox:
    """A bounded queue of tickets. Putting is synchronous, so that prompts keep the order of the wire."""

    def __init__(self) -> None:
        self._waiting: deque[Ticket] = deque()
        self._arrived = anyio.Event()

    def put(self, ticket: Ticket) -> None:
        """Add a prompt.

        :raises QueueFullError: too many are waiting.
        """
        if len(self._waiting) >= CAPACITY:
            raise QueueFullError(
                f"{CAPACITY} prompts already wait in this session. Wait for an answer, or cancel the running one."
            )
        self._waiting.append(ticket)
        self._arrived.set()

    async def take(self) -> Ticket:
        """The oldest waiting prompt, as soon as there is one."""
        while not self._waiting:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._waiting.popleft()

    def take_if(self, wanted: Callable[[Ticket], bool]) -> Ticket | None:
        """The oldest waiting prompt, where there is one and it is such a one."""
        return self._waiting.popleft() if self._waiting and wanted(self._waiting[0]) else None

    def remove(self, ticket: Ticket) -> bool:
        """Take a waiting prompt out; False where it is not waiting any more."""
        try:
            self._waiting.remove(ticket)
        except ValueError:
            return False
        return True

    def cancel_first(self) -> None:
        """Cancel the oldest waiting prompt, if there is one; its turn says so when it comes."""
        if self._waiting:
            self._waiting[0].cancelled = True

    def empty(self) -> tuple[Ticket, ...]:
        """Take all waiting prompts out."""
        waiting = tuple(self._waiting)
        self._waiting.clear()
        return waiting
