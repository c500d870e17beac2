"""What refusals and counts show of a model: how large its window is, and how it counts."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.budget import SURE_SHARE
from acp_agent.compaction.estimate import DOUBT, MAX_CALIBRATION, estimate_messages
from acp_agent.conversation.context import Context
from acp_agent.errors import ContextOverflowError
from acp_agent.frozen import frozen

LEAST_WINDOW = 1_000
"""Tokens: no refusal, however odd, makes a window smaller."""


@frozen
class LearnedWindow:
    """What the refusals of one model have shown of its context window in this session.

    :ivar tokens: the most that the window holds; None while nothing was refused.
    :ivar guessed: whether the provider has refused a request without saying how much it takes.
    :ivar rate: tokens as the provider counts them for each of our estimate.
    """

    tokens: int | None = None
    guessed: bool = False
    rate: float = 1.0

    def after_refusal(self, refusal: ContextOverflowError, used: int, estimate: int) -> LearnedWindow:
        """Learn from a request that was refused for its length.

        :param used: its tokens by the provider's last count and our estimate of what came since.
        :param estimate: its tokens by our estimate alone.
        """
        learned = replace(self, rate=_rate(refusal.prompt or max(used, estimate * DOUBT), estimate))
        if refusal.maximum is not None:
            return replace(learned, tokens=max(LEAST_WINDOW, refusal.maximum), guessed=False)
        # An answer that broke off was begun: it is not known how much it took.
        return learned if refusal.partial else learned._at_most(int(used * SURE_SHARE))

    def after_answer(self, counted: int, estimate: int) -> LearnedWindow:
        """Learn from the provider's count of a request that it has answered, and ours."""
        return replace(self, rate=_rate(counted, estimate))

    def after_full(self, used: int, estimate: int) -> LearnedWindow:
        """Learn that a request and its answer have filled the window; the parameters are those of `after_refusal`."""
        return self.after_answer(used, estimate)._at_most(used)

    def _at_most(self, tokens: int) -> LearnedWindow:
        tokens = max(LEAST_WINDOW, tokens)
        return self if self.tokens is not None and self.tokens <= tokens else replace(self, tokens=tokens, guessed=True)


def _rate(counted: float, estimate: int) -> float:
    return min(MAX_CALIBRATION, max(1.0, counted / max(1, estimate)))


@frozen
class RefusedCount:
    """A provider's count of a request that it has refused.

    :ivar model: `provider/model`.
    :ivar revision: of the context that the request was made of; and `head`, its last event.
    """

    model: str
    revision: int
    head: int
    tokens: int

    def used_by(self, context: Context, rate: float) -> int:
        """Return the tokens that a request takes by this count; 0 if its conversation was made short since.

        :param rate: tokens as the provider counts them for each of our estimate.
        """
        if context.revision != self.revision:
            return 0
        newer = (entry.message for entry in context.entries if entry.seq > self.head)
        return self.tokens + round(estimate_messages(newer) * rate)
