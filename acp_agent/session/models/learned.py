"""Learn the size of a model's window, and how the model counts tokens, from refusals
and counts.

A learned window is stored for other sessions, together with what the settings and the
provider said about the window then. If they say something else later, the learned
window is void.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from acp_agent.compaction.budget import SURE_SHARE
from acp_agent.compaction.estimate import DOUBT, MAX_CALIBRATION, estimate_messages
from acp_agent.conversation.context import Context
from acp_agent.errors import ContextOverflowError
from acp_agent.frozen import frozen
from acp_agent.llm.learned import WINDOW

LEAST_WINDOW = 1_000
"""Minimum tokens of a window, whatever a refusal says."""
_RATE = f"{WINDOW} rate"
_SOURCE = f"{WINDOW} source"
"""Names of facts about a model."""
MISSED = 1.25
"""A refusal that states this many times the tokens that we expected contradicts the
counts of the answers before it.
"""
_MOST_MISSES = 2
"""After this many such refusals, counts that are lower than our estimate are ignored.
"""


@frozen
class LearnedWindow:
    """What the refusals of one model have shown about its context window.

    :ivar tokens: maximum tokens of the window; None if no request was refused yet.
    :ivar guessed: whether this is an assumption: the provider has refused a request
        without stating its limit, or another session has learned it.
    :ivar rate: tokens by the provider's count for each token of our estimate.
    :ivar misses: number of refusals that contradict the counts of the answers before
        them.
    :ivar source: what the settings and the provider say about the window; see
        `Registry.resolve`.
    """

    tokens: int | None = None
    guessed: bool = False
    rate: float = 1.0
    misses: int = 0
    source: str = ""

    @classmethod
    def remembered(cls, facts: Mapping[str, str], source: str) -> LearnedWindow:
        """Return the window that other sessions have learned; an empty one if the
        settings or the provider now say something else.

        :param facts: see `LearnedFacts.of`.
        :param source: see `LearnedWindow`.
        """
        tokens = facts.get(WINDOW, "")
        if facts.get(_SOURCE) != source or not tokens.isdecimal():
            return cls(source=source)
        try:
            rate = float(facts.get(_RATE, ""))
        except ValueError:
            rate = 1.0
        rate = rate if 1 <= rate <= MAX_CALIBRATION else 1.0
        return cls(
            max(LEAST_WINDOW, int(tokens[:12])), guessed=True, rate=rate, source=source
        )

    def facts(self) -> dict[str, str | None]:
        """Return the facts that other sessions should know."""
        if self.tokens is None:
            return dict.fromkeys((WINDOW, _RATE, _SOURCE))
        return {
            WINDOW: str(self.tokens),
            _RATE: f"{self.rate:.3f}",
            _SOURCE: self.source,
        }

    @property
    def counts_low(self) -> bool:
        """Return whether the provider counts less in its answers than in its refusals."""
        return self.misses >= _MOST_MISSES

    def after_refusal(
        self,
        refusal: ContextOverflowError,
        used: int,
        estimate: int,
        *,
        counted: bool = False,
    ) -> LearnedWindow:
        """Learn from a request that was refused as too long.

        :param used: tokens of the request: the provider's last count plus our estimate
            of what was added since.
        :param estimate: tokens of the request by our estimate alone.
        :param counted: whether the provider has counted part of the request in an
            earlier answer.
        """
        learned = replace(
            self, rate=_rate(refusal.prompt or max(used, estimate * DOUBT), estimate)
        )
        if counted and refusal.prompt is not None and refusal.prompt > used * MISSED:
            learned = replace(learned, misses=self.misses + 1)
        if refusal.maximum is not None:
            return replace(
                learned, tokens=max(LEAST_WINDOW, refusal.maximum), guessed=False
            )
        # The answer was cut off after it had begun, so it is unknown how many tokens it
        # took.
        return learned if refusal.partial else learned._at_most(int(used * SURE_SHARE))

    def after_answer(self, counted: int, estimate: int) -> LearnedWindow:
        """Learn from the provider's count and our estimate of an answered request.

        Forget an assumed window that is smaller than the request.
        """
        if self.guessed and self.tokens is not None and counted > self.tokens:
            return LearnedWindow(misses=self.misses, source=self.source)
        return replace(self, rate=_rate(counted, estimate))

    def after_full(self, used: int, estimate: int) -> LearnedWindow:
        """Learn that a request and its answer filled the window; see `after_refusal`
        for the parameters.
        """
        return replace(self, rate=_rate(used, estimate))._at_most(used)

    def _at_most(self, tokens: int) -> LearnedWindow:
        tokens = max(LEAST_WINDOW, tokens)
        return (
            self
            if self.tokens is not None and self.tokens <= tokens
            else replace(self, tokens=tokens, guessed=True)
        )


def _rate(counted: float, estimate: int) -> float:
    return min(MAX_CALIBRATION, max(1.0, counted / max(1, estimate)))


@frozen
class RefusedCount:
    """A provider's count of a request that it refused.

    :ivar model: `provider/model`.
    :ivar revision: revision of the request's context.
    :ivar head: last event of that context.
    """

    model: str
    revision: int
    head: int
    tokens: int

    def used_by(self, context: Context, rate: float) -> int:
        """Return the tokens that a request takes by this count, or 0 if the
        conversation was shortened since.

        :param rate: tokens by the provider's count for each token of our estimate.
        """
        if context.revision != self.revision:
            return 0
        newer = (entry.message for entry in context.entries if entry.seq > self.head)
        return self.tokens + round(estimate_messages(newer) * rate)
