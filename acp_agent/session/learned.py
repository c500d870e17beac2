"""`LearnedWindow`: what a session has learned of one model's window from the requests that it sent.

Owns what refusals and answers teach, whatever their order. Pure: knows no provider, no session and no context; how much
of it holds how long is said at each method.
"""

from __future__ import annotations

import math
from dataclasses import replace

from acp_agent.compaction.budget import MARGIN_SHARE, MIN_OUTPUT
from acp_agent.compaction.estimate import MAX_CALIBRATION
from acp_agent.frozen import frozen

LEAST_WINDOW = 1_000
"""Tokens: no refusal, however odd, makes a window smaller."""
DOUBT = 4 / 3
"""What our count of a refused request may have to be multiplied by, where the provider does not say its own."""
AFTER_REFUSAL = 4
"""The part of a stated window that is asked for as an answer, after a request was refused: what is left of the
conversation may be more than we count, too."""


@frozen
class LearnedWindow:
    """What is known besides the provider's own word, its table and the configuration.

    :ivar stated: tokens that the provider has said it takes, in a refusal; None where it has said nothing.
    :ivar suspected: tokens that it is taken to take at most: more was refused, or filled the window.
    :ivar accepted: tokens that it has had in its window at once, the answer's included.
    :ivar refused_rate: tokens as the provider has counted them in a refusal for each of our estimate; None where it has
        not.
    :ivar answered_rate: the same by its last answer.
    :ivar answer: longest answer that is asked for; None for the model's own bound.
    :ivar next_answer: the same, until the model has answered or the turn has ended.
    :ivar fits: until then, too: whether what was refused fits with that answer.
    """

    stated: int | None = None
    suspected: int | None = None
    accepted: int = 0
    refused_rate: float | None = None
    answered_rate: float = 1.0
    answer: int | None = None
    next_answer: int | None = None
    fits: bool = False

    def window(self, known: int) -> int:
        """Tokens of the window: never more than was stated, and never less than was accepted, up to that.

        :param known: tokens that are known without any refusal.
        """
        most = self._most(known)
        return most if self.suspected is None else min(most, max(self.suspected, self.accepted))

    def is_guess(self, known: int) -> bool:
        """Whether nobody has said that the window is as small as it is taken to be."""
        return self.window(known) < self._most(known)

    def likely(self, most: int) -> int:
        """Tokens that are likely to fit where nobody says how many do: what was accepted, or what our count may be
        wrong by less; there is one more try.

        :param most: a little less than what was refused.
        """
        return max(int(most / DOUBT), min(most, self.accepted))

    @property
    def rate(self) -> float:
        """Tokens as the provider counts them for each of our estimate. Before any refusal, our count is not doubted:
        what a provider puts around a short prompt would have a long one that fits cut. And a prompt that fits with a
        shorter answer is not doubted for having been refused with a longer one.
        """
        refused = any(known is not None for known in (self.stated, self.suspected, self.refused_rate))
        return self.measured_rate if refused and not self.fits else 1.0

    @property
    def measured_rate(self) -> float:
        """The same by its refusal, or by its last answer where a refusal does not count."""
        return self.answered_rate if self.refused_rate is None else self.refused_rate

    def longest(self, answer: int) -> int:
        """Upper bound of the next answer, given the model's own."""
        return min(bound for bound in (answer, self.answer, self.next_answer) if bound is not None)

    # --- what teaches it ---

    def states(self, tokens: int) -> LearnedWindow:
        """The provider has said how much it takes. Holds while the session is open."""
        return replace(self, stated=_least(tokens, self.stated))

    def suspects(self, tokens: int) -> LearnedWindow:
        """More than this was refused without a number, or filled the window. Holds while the session is open; what was
        accepted nevertheless counts for more."""
        return replace(self, suspected=_least(tokens, self.suspected))

    def accepts(self, tokens: int) -> LearnedWindow:
        """The model has answered: prompt and answer together took so many tokens."""
        return replace(self, accepted=max(tokens, self.accepted), next_answer=None, fits=False)

    def counts(self, prompt: int, estimate: int) -> LearnedWindow:
        """The provider has counted a prompt that it refused. Holds until it counts another one in a refusal.

        :param prompt: its tokens by the provider's count.
        :param estimate: by ours.
        """
        return replace(self, refused_rate=_rate(prompt, estimate))

    def measures(self, prompt: int, estimate: int) -> LearnedWindow:
        """The same of a prompt that it has answered; holds until its next answer, also after a compaction."""
        return replace(self, answered_rate=_rate(prompt, estimate))

    def asks_for(self, tokens: int, later: int | None = None, *, fits: bool = False) -> LearnedWindow:
        """The next answer must be no longer than this.

        :param later: upper bound while the session is open; None for none but the model's own.
        :param fits: whether the same prompt is sent again with it, since that is known to fit.
        """
        bounds = [bound for bound in (later, self.answer) if bound is not None]
        return replace(self, next_answer=tokens, answer=min(bounds, default=None), fits=fits)

    def next_turn(self) -> LearnedWindow:
        """A turn begins."""
        return replace(self, next_answer=None, fits=False)

    def _most(self, known: int) -> int:
        return known if self.stated is None else min(known, self.stated)


def shorter_answer(stated: int, prompt: int | None, used: int, answer: int, rate: float = 1.0) -> int | None:
    """The longest answer beside which a refused prompt fits, where it does and the answer is worth it; None where the
    conversation has to become short.

    :param stated: tokens that the provider takes.
    :param prompt: tokens that it has counted before the answer, where it says so.
    :param used: the same by our count.
    :param answer: tokens that were asked for.
    :param rate: by which our count was corrected.
    """
    if prompt is None:
        if used + answer <= stated:
            return None
        prompt = _doubted(used, rate)
    room = stated - int(stated * MARGIN_SHARE) - prompt
    return room if min(MIN_OUTPUT, stated // 4) <= room < answer else None


def own_window(stated: int, prompt: int | None, used: int, rate: float = 1.0) -> int:
    """A stated window by our own count, given how much we count of a prompt that did not fit.

    :param prompt: tokens that the provider has counted before the answer, where it says so.
    :param used: the same by our count.
    :param rate: by which that was corrected.
    """
    counted = max(stated, prompt or _doubted(used, rate))
    return min(stated, stated * used // counted)


def _doubted(used: int, rate: float) -> int:
    """What so many tokens may be by a count that nobody tells; what our count was corrected by is not doubted again."""
    return math.ceil(used * max(1.0, DOUBT / rate))


def _rate(prompt: int, estimate: int) -> float:
    return min(MAX_CALIBRATION, max(1.0, prompt / max(1, estimate)))


def _least(tokens: int, before: int | None) -> int:
    return max(LEAST_WINDOW, tokens if before is None else min(tokens, before))
