"""How full a model's window is, what else limits a request, and when a context has to be made short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from acp_agent.compaction.estimate import count_images, request_bytes
from acp_agent.conversation.messages import AssistantMessage, Message, UserMessage
from acp_agent.frozen import frozen

MAX_RESERVE_SHARE = 0.25
MARGIN_SHARE = 0.02
"""Of the window, kept free of what is counted: the newest part of the count is an estimate."""
MIN_OUTPUT = 2_048
"""Tokens below which an answer is not worth asking for; a request that leaves less is the provider's to refuse."""
ANSWER_ROOM = 8_192
"""Tokens for the answer that are kept free where a request is made shorter: so long an answer ends by itself."""
OUT_OF_ROOM = 0.95
"""Share of the usable window from which on an answer is taken to be cut off by it, and no summary is waited for."""
LIMIT_SHARE = 0.9
"""Of the images or bytes that a request may hold."""
NEW_INPUT = 0.1
"""Of the usable window: so much more since a compaction, and another one is not in vain."""
SURE_SHARE = 0.95
"""Of a request that was refused: as much as is taken to fit, where the provider does not say. And of a request that was
counted: as much as it has at least, so that it is certainly too large where this is more than the window."""

Pressure: TypeAlias = Literal["none", "prepare", "threshold", "urgent", "request_size", "full"]


@frozen
class TokenBudget:
    """The window of a model, and what of it a context fills. All in tokens, and none below zero.

    :ivar window: the whole window.
    :ivar output_reserve: kept free for the answer.
    :ivar system: the system prompt and the tools.
    :ivar messages: the messages.
    """

    window: int
    output_reserve: int
    system: int = 0
    messages: int = 0

    def __post_init__(self) -> None:
        # A provider that counts less than our estimate of the system prompt must not make the messages negative.
        for name, least in (("window", 1), ("output_reserve", 0), ("system", 0), ("messages", 0)):
            object.__setattr__(self, name, max(least, getattr(self, name)))

    @property
    def usable(self) -> int:
        """What a request may fill: at least three quarters of the window, as large as a table's output limit may be."""
        return self.window - min(self.output_reserve, int(self.window * MAX_RESERVE_SHARE))

    @property
    def limit(self) -> int:
        """What a request may fill at the very most, so that there is still room for a short answer."""
        return max(1, self.window - int(self.window * MARGIN_SHARE) - self.least_answer)

    @property
    def most(self) -> int:
        """What a request may fill where nothing can be made shorter: an answer may still be as short as it comes."""
        return max(1, self.window - 2 * int(self.window * MARGIN_SHARE))

    @property
    def least_answer(self) -> int:
        """The shortest answer that is worth asking for."""
        return min(MIN_OUTPUT, self.window // 4)

    @property
    def roomy(self) -> int:
        """What is left of a request that is over the limit: with room for an answer that ends by itself."""
        reserve = min(self.output_reserve, ANSWER_ROOM, int(self.window * MAX_RESERVE_SHARE))
        return max(1, min(self.limit, self.window - int(self.window * MARGIN_SHARE) - reserve))

    @property
    def used(self) -> int:
        """What a request fills now."""
        return self.system + self.messages

    @property
    def free(self) -> int:
        """What a request may still grow by; 0 where it has outgrown the window."""
        return max(0, self.usable - self.used)

    @property
    def utilisation(self) -> float:
        """Share of the usable window that is filled; more than 1 where the request does not fit."""
        return self.used / self.usable

    def filled(self, used: int, system: int) -> TokenBudget:
        """Return this budget with a request in it, of which the system prompt and the tools take `system`."""
        used = max(0, used)
        system = min(max(0, system), used)
        return replace(self, system=system, messages=used - system)

    def output(self, used: int, wanted: int) -> int:
        """Return how long an answer may be asked for: providers refuse input and output that together do not fit."""
        room = self.window - used - int(self.window * MARGIN_SHARE)
        return min(wanted, max(room, self.least_answer, 1))

    def exceeded(self, used: int, threshold: float) -> bool:
        """Return whether `used` tokens are more than this share of the usable window."""
        return used > self.usable * threshold


@frozen
class Limits:
    """What a request to a model may hold besides tokens; None where there is no limit.

    :ivar sent: see `request_bytes`.
    """

    max_images: int | None
    max_bytes: int | None
    sent: Mapping[str, int] = field(default_factory=dict[str, int])

    def exceeded(self, messages: Sequence[Message]) -> bool:
        """Return whether these messages come close to one of the limits.

        What has come since the newest prompt may have as many images as the model takes.
        """
        images = count_images(messages)
        share = LIMIT_SHARE if images > count_images(since_prompt(messages)) else 1
        if self.max_images is not None and images > self.max_images * share:
            return True
        return self.max_bytes is not None and request_bytes(messages, self.sent) > self.max_bytes * LIMIT_SHARE


def since_prompt(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the newest prompt, with what stands beside it and behind it."""
    at = len(messages)
    while at and not isinstance(messages[at - 1], UserMessage):
        at -= 1
    while at and isinstance(messages[at - 1], UserMessage):
        at -= 1
    return messages[at:]


def pressure(
    budget: TokenBudget, messages: Sequence[Message], limits: Limits, *, threshold: float, prepare: float | None
) -> Pressure:
    """Return how urgent a compaction is: `full` where the request cannot be sent at all as far as is known.

    :param threshold: share of the usable window from which on the context is compacted.
    :param prepare: share from which on a summary is prepared; None for never.
    """
    if budget.used > budget.limit:
        return "full"
    if limits.exceeded(messages):
        return "request_size"
    if budget.exceeded(budget.used, max(threshold, OUT_OF_ROOM)):
        return "urgent"
    if budget.exceeded(budget.used, threshold):
        return "threshold"
    if prepare is not None and budget.exceeded(budget.used, prepare):
        return "prepare"
    return "none"


def ended_for_want_of_room(answer: AssistantMessage, budget: TokenBudget) -> bool:
    """Return whether an answer was cut off because the window was full, and not because it reached its own limit."""
    if answer.stop_reason == "context_overflow":
        return True
    if answer.stop_reason != "max_tokens" or answer.usage is None:
        return False
    return answer.usage.total_tokens > budget.usable * OUT_OF_ROOM
