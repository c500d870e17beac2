"""How much room a model's window leaves, and when a context has outgrown it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_RESERVE_SHARE = 0.25
MARGIN_SHARE = 0.02
"""Of the window, kept free of what is counted: the newest part of the count is an estimate."""
MIN_OUTPUT = 2_048
"""Tokens below which an answer is not worth asking for; a request that leaves less is the provider's to refuse."""
TAIL_TOKENS = 20_000
TAIL_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The window of a model, and what of it a context may fill.

    :ivar window: tokens of the whole window.
    :ivar output_reserve: tokens kept free for the answer.
    """

    window: int
    output_reserve: int

    @property
    def usable(self) -> int:
        """Tokens that a request may fill; never less than three quarters of the window, since a table may name an
        output limit as large as the window itself."""
        return self.window - min(self.output_reserve, int(self.window * MAX_RESERVE_SHARE))

    @property
    def tail(self) -> int:
        """Tokens of the newest messages that a compaction leaves word for word."""
        return min(TAIL_TOKENS, int(self.window * TAIL_SHARE))

    def output(self, used: int, wanted: int) -> int:
        """How long an answer may be asked for: providers refuse a request whose input and output together do not fit.

        :param used: tokens of the request.
        :param wanted: upper bound otherwise.
        """
        room = self.window - used - int(self.window * MARGIN_SHARE)
        return min(wanted, max(room, min(MIN_OUTPUT, self.window // 4)))

    def exceeded(self, used: int, threshold: float) -> bool:
        """Whether `used` tokens are more than this share of the usable window."""
        return used > self.usable * threshold
