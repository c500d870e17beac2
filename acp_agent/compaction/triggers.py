"""When a context has to be made short: by what it holds, and what the model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import count_images, request_bytes
from acp_agent.conversation.messages import AssistantMessage, Message, UserMessage
from acp_agent.frozen import frozen

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
