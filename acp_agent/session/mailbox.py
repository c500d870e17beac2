"""The queue of prompts to a session. Each prompt has a ticket, and prompts are answered
in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import anyio

from acp_agent.conversation.messages import Resource, Text, UserPart
from acp_agent.errors import PromptTooLargeError

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]

MAX_CHARACTERS = 4_000_000
"""Maximum length of the text in one prompt: about as much as the context windows of
today's models hold.
"""


def check_size(parts: Iterable[UserPart]) -> None:
    """Refuse a prompt with more text than any model reads.

    :raises PromptTooLargeError: if the text is longer than `MAX_CHARACTERS`.
    """
    size = sum(
        len(part.text or "") for part in parts if isinstance(part, Text | Resource)
    )
    if size > MAX_CHARACTERS:
        raise PromptTooLargeError(
            f"The prompt has {size:,} characters of text. The maximum is {MAX_CHARACTERS:,}. Nothing was sent "
            "or stored. Put the text into files and name them in the prompt. The model then reads the parts it needs."
        )


class Ticket:
    """One prompt and, once it is answered, its outcome.

    :param trace: the W3C trace context of the prompt.
    :ivar provisional: whether the sender shows the prompt only once it is accepted. A
        provisional prompt that is cancelled before that is not logged.
    :ivar cancelled: whether the prompt was cancelled before its turn.
    :ivar message_id: the id of the prompt's message in the conversation; empty until
        the prompt is accepted.
    :ivar placed: set when the prompt is accepted, or answered without being accepted.
    :ivar done: set when the prompt is answered.
    :ivar outcome: why the turn ended, or its failure; valid once `done` is set.
    """

    def __init__(
        self,
        parts: tuple[UserPart, ...],
        trace: Mapping[str, str] | None = None,
        *,
        provisional: bool = False,
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
        """Answer the prompt. Only the first answer counts."""
        if not self.done.is_set():
            self.outcome = answer
            self.done.set()
            self.placed.set()

    def result(self) -> StopReason:
        """Return why the prompt's turn ended.

        :raises Exception: if the turn failed, with its failure.
        """
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Mailbox:
    """The unanswered prompts of one session.

    :ivar waiting: the prompts that wait for a turn, oldest first.
    :ivar joined: the prompts that have joined the running turn.
    :ivar arrived: set when a prompt is added to `waiting`.
    """

    def __init__(self) -> None:
        self.waiting: deque[Ticket] = deque()
        self.joined: list[Ticket] = []
        self.arrived = anyio.Event()

    async def next(self) -> Ticket:
        """Remove and return the oldest waiting prompt. Wait until there is one."""
        while not self.waiting:
            self.arrived = anyio.Event()
            await self.arrived.wait()
        return self.waiting.popleft()

    def join(self, may_join: Callable[[Ticket], bool]) -> Ticket | None:
        """Move the oldest waiting prompt to the running turn, if it may join, and
        return it.
        """
        if not self.waiting or not may_join(self.waiting[0]):
            return None
        self.joined.append(self.waiting.popleft())
        return self.joined[-1]
