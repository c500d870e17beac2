"""Prompts on their way to a session's turns: one ticket each, answered in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import anyio

from acp_agent.conversation.messages import Resource, Text, UserPart
from acp_agent.errors import PromptTooLargeError

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]

MAX_CHARACTERS = 4_000_000
"""Of the text in one prompt, as much as the windows of today's models hold."""


def check_size(parts: Iterable[UserPart]) -> None:
    """Refuse a prompt with more text than any model reads.

    :raises PromptTooLargeError: it has.
    """
    size = sum(len(part.text or "") for part in parts if isinstance(part, Text | Resource))
    if size > MAX_CHARACTERS:
        raise PromptTooLargeError(
            f"The prompt has {size:,} characters of text, and {MAX_CHARACTERS:,} are the most. Nothing was sent or "
            "stored; put the text into files, name them in the prompt, and the model reads in them what it needs."
        )


class Ticket:
    """One prompt, and its answer once there is one.

    :param trace: W3C trace context that it came with.
    :ivar provisional: whether its sender shows it only once it is accepted; it is not logged if cancelled before.
    :ivar cancelled: whether a cancel came before its turn.
    :ivar message_id: the id of its message in the conversation; empty until the prompt is accepted.
    :ivar placed: is set when it is accepted, or answered without being accepted.
    :ivar done: is set when it is answered.
    :ivar outcome: why its turn ended, or the failure of its turn; holds once it is done.
    """

    def __init__(
        self, parts: tuple[UserPart, ...], trace: Mapping[str, str] | None = None, *, provisional: bool = False
    ) -> None:
        self.parts = parts
        self.provisional = provisional
        self.trace: Mapping[str, str] = trace or {}
        self.cancelled = False
        self.message_id = ""
        self.placed = anyio.Event()
        self.done = anyio.Event()
        self.outcome: StopReason | Exception = "cancelled"

    def accept(self, message_id: str) -> None:
        """Set the id of the prompt's message, and mark the prompt as accepted."""
        self.message_id = message_id
        self.placed.set()

    def answer(self, answer: StopReason | Exception) -> None:
        """Answer it; only the first answer counts."""
        if not self.done.is_set():
            self.outcome = answer
            self.done.set()
            self.placed.set()

    def result(self) -> StopReason:
        """Return why its turn ended.

        :raises Exception: the failure of its turn.
        """
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Mailbox:
    """The prompts of one session that are not answered yet.

    :ivar waiting: those that wait for a turn, the oldest first.
    :ivar joined: those that have joined the running turn.
    :ivar arrived: is set when one is put behind those that wait.
    """

    def __init__(self) -> None:
        self.waiting: deque[Ticket] = deque()
        self.joined: list[Ticket] = []
        self.arrived = anyio.Event()

    async def next(self) -> Ticket:
        """Remove and return the oldest waiting prompt as soon as there is one."""
        while not self.waiting:
            self.arrived = anyio.Event()
            await self.arrived.wait()
        return self.waiting.popleft()

    def join(self, may_join: Callable[[Ticket], bool]) -> Ticket | None:
        """Move the oldest waiting prompt to the running turn, if it may join that; return it."""
        if not self.waiting or not may_join(self.waiting[0]):
            return None
        self.joined.append(self.waiting.popleft())
        return self.joined[-1]
