"""How much room a model's window leaves, and when a context has outgrown it."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.frozen import frozen

MAX_RESERVE_SHARE = 0.25
MARGIN_SHARE = 0.02
"""Of the window, kept free of what is counted: the newest part of the count is an estimate."""
MIN_OUTPUT = 2_048
"""Tokens below which an answer is not worth asking for; a request that leaves less is the provider's to refuse."""
ANSWER_ROOM = 8_192
"""Tokens for the answer that are kept free where a request is made shorter: so long an answer ends by itself."""


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
