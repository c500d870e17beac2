"""Computes how full a model's window is, checks the other limits of a request, and
decides when to compact a context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from acp_agent.compaction.estimate import Sizes, count_images, request_bytes
from acp_agent.conversation.messages import AssistantMessage, Message, UserMessage
from acp_agent.frozen import frozen

MAX_RESERVE_SHARE = 0.25
MARGIN_SHARE = 0.02
"""Share of the window kept free, because the newest part of the count is an estimate."""
MIN_OUTPUT = 2_048
"""Minimum number of output tokens to request. If there is less room, the request is
sent anyway, and the provider refuses it.
"""
OUT_OF_ROOM = 0.95
"""Share of the usable window above which a truncated answer is attributed to the full
window, and the turn no longer waits for a summary.
"""
LIMIT_SHARE = 0.9
"""Share of the maximum number of images or bytes of a request at which the context is
compacted.
"""
NEW_INPUT = 0.1
"""Share of the usable window by which the context must grow after a compaction before
another one is worthwhile.
"""
SURE_SHARE = 0.95
"""Share of a refused request that is assumed to fit if the provider does not state its
limit. It is also a lower bound for estimates: if this share of an estimate exceeds the
window, the request is certainly too large.
"""

Pressure: TypeAlias = Literal[
    "none", "prepare", "threshold", "urgent", "request_size", "full"
]


@frozen
class TokenBudget:
    """The window of a model, and how much of it a context fills. All values are in
    tokens and not negative.

    :ivar window: size of the whole window.
    :ivar output_reserve: tokens to keep free for the answer.
    :ivar system: tokens of the system prompt and the tools.
    :ivar messages: tokens of the messages.
    """

    window: int
    output_reserve: int
    system: int = 0
    messages: int = 0

    def __post_init__(self) -> None:
        # If a provider counts less than our estimate of the system prompt, the messages
        # must not become negative.
        for name, least in (
            ("window", 1),
            ("output_reserve", 0),
            ("system", 0),
            ("messages", 0),
        ):
            object.__setattr__(self, name, max(least, getattr(self, name)))

    @property
    def usable(self) -> int:
        """Return how many tokens a request may fill: at least 3/4 of the window,
        regardless of the output limit.
        """
        return self.window - min(
            self.output_reserve, int(self.window * MAX_RESERVE_SHARE)
        )

    @property
    def limit(self) -> int:
        """Return the maximum tokens of a request that leaves room for a short answer."""
        return max(1, self.window - int(self.window * MARGIN_SHARE) - self.least_answer)

    @property
    def most(self) -> int:
        """Return the maximum tokens of a request that cannot be shortened further. This
        leaves room for only a very short answer.
        """
        return max(1, self.window - 2 * int(self.window * MARGIN_SHARE))

    @property
    def least_answer(self) -> int:
        """Return the length of the shortest useful answer, in tokens."""
        return min(MIN_OUTPUT, self.window // 4)

    @property
    def target(self) -> int:
        """Return the size to which a request over the limit is shortened, so that a
        full answer fits.
        """
        return max(1, min(self.limit, self.usable - int(self.window * MARGIN_SHARE)))

    @property
    def used(self) -> int:
        """Return the tokens that a request fills now."""
        return self.system + self.messages

    @property
    def free(self) -> int:
        """Return how many tokens a request may still grow; 0 if it already exceeds the
        window.
        """
        return max(0, self.usable - self.used)

    @property
    def utilisation(self) -> float:
        """Return the filled share of the usable window; more than 1 if the request does
        not fit.
        """
        return self.used / self.usable

    def filled(self, used: int, system: int) -> TokenBudget:
        """Return this budget filled by a request of `used` tokens, `system` of them for
        the system prompt and tools.
        """
        used = max(0, used)
        system = min(max(0, system), used)
        return replace(self, system=system, messages=used - system)

    def output(self, used: int, wanted: int) -> int:
        """Return the output limit to request. Providers refuse input and output that
        together exceed the window.
        """
        room = self.window - used - int(self.window * MARGIN_SHARE)
        return min(wanted, max(room, self.least_answer, 1))

    def exceeded(self, used: int, threshold: float) -> bool:
        """Return whether `used` tokens are more than this share of the usable window."""
        return used > self.usable * threshold


@frozen
class Limits:
    """The limits of a request to a model besides tokens; None for no limit.

    :ivar sent: see `request_bytes`.
    """

    max_images: int | None = None
    max_bytes: int | None = None
    sent: Mapping[str, int] = field(default_factory=dict[str, int])

    def exceeded(self, messages: Sequence[Message]) -> bool:
        """Return whether these messages come close to one of the limits.

        If all images are in messages since the newest prompt, they may reach the limit
        itself.
        """
        size = Sizes(
            count_images(messages),
            request_bytes(messages, self.sent) if self.max_bytes else 0,
        )
        return self.exceeded_by(size, messages)

    def exceeded_by(self, size: Sizes, messages: Sequence[Message]) -> bool:
        """Like `exceeded`, for messages whose size is known."""
        share = LIMIT_SHARE if size.images > count_images(since_prompt(messages)) else 1
        if self.max_images is not None and size.images > self.max_images * share:
            return True
        return self.max_bytes is not None and size.bytes > self.max_bytes * LIMIT_SHARE


def since_prompt(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the newest prompt, the user messages directly before it, and everything
    after it.
    """
    at = len(messages)
    while at and not isinstance(messages[at - 1], UserMessage):
        at -= 1
    while at and isinstance(messages[at - 1], UserMessage):
        at -= 1
    return messages[at:]


def pressure(
    budget: TokenBudget,
    *,
    limits_exceeded: bool,
    threshold: float,
    prepare: float | None,
) -> Pressure:
    """Return how urgent a compaction is. `full` means that the request probably does
    not fit at all.

    :param limits_exceeded: see `Limits.exceeded`.
    :param threshold: share of the usable window at which the context is compacted.
    :param prepare: share at which a summary is prepared; None to prepare none.
    """
    if budget.used > budget.limit:
        return "full"
    if limits_exceeded:
        return "request_size"
    if budget.exceeded(budget.used, max(threshold, OUT_OF_ROOM)):
        return "urgent"
    if budget.exceeded(budget.used, threshold):
        return "threshold"
    if prepare is not None and budget.exceeded(budget.used, prepare):
        return "prepare"
    return "none"


def truncated_by_window(answer: AssistantMessage, budget: TokenBudget) -> bool:
    """Return whether an answer was cut off because the window was full, and not because
    it reached its own limit.
    """
    if answer.stop_reason == "context_overflow":
        return True
    if answer.stop_reason != "max_tokens" or answer.counted is None:
        return False
    return answer.counted.total_tokens > budget.usable * OUT_OF_ROOM
