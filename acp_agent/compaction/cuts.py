"""Where a compaction cuts: what is summarised, and what stays word for word behind the summary.

Which places are legal is `invariants`' matter; this chooses one of them by size.
"""

from __future__ import annotations

from collections.abc import Callable

from acp_agent.compaction.estimate import estimate_message
from acp_agent.compaction.invariants import legal_cuts
from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import Pinned
from acp_agent.conversation.messages import Message, UserMessage
from acp_agent.frozen import frozen


@frozen
class Cut:
    """A plan for one compaction.

    :ivar summarised: entries that the summary takes the place of, in order; never empty.
    :ivar pinned: of those, what nevertheless stays word for word: the prompt of the running turn.
    :ivar kept: entries that stay behind the cut.
    """

    summarised: tuple[Entry, ...]
    pinned: tuple[Pinned, ...]
    kept: tuple[Entry, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return those of `summarised`."""
        return tuple(entry.message for entry in self.summarised)


def plan_cut(
    entries: tuple[Entry, ...],
    turn_from: int | None,
    tail_tokens: int,
    *,
    leave_tail: bool = True,
    estimate: Callable[[Message], int] = estimate_message,
) -> Cut | None:
    """Choose what a compaction of this history replaces; None where there is nothing that it may replace.

    The newest messages stay, up to `tail_tokens`, from a legal place on. Where all that could be replaced would fit
    into the tail, as much as possible is summarised. The prompt of a running turn and the steps that the model has not
    answered yet always stay. A newest step that is larger than the tail is no tail.

    :param turn_from: seq of the prompt of the running turn; None where none runs.
    :param leave_tail: whether something has to stay behind the summary, if only the newest step; only a compaction
        that a person asked for may leave nothing.
    """
    # Before the first of these there is nothing but an earlier summary and the prompt that stays anyway.
    replaceable = (index for index, entry in enumerate(entries, 1) if not entry.summary and entry.seq != turn_from)
    first = next(replaceable, len(entries) + 1)
    places = legal_cuts(entries, turn_from)
    useful = [place for place in places if first <= place <= len(entries) - leave_tail]
    if not useful:
        return None
    tail = _tail_from(entries, places, tail_tokens, estimate)
    cut = tail if tail in useful else useful[-1]
    summarised = entries[:cut]
    prompt = tuple(
        Pinned(entry.seq, entry.message, entry.shortened)
        for entry in summarised
        if entry.seq == turn_from and not entry.summary and isinstance(entry.message, UserMessage)
    )
    return Cut(summarised, prompt, entries[cut:])


def _tail_from(
    entries: tuple[Entry, ...], places: list[int], tail_tokens: int, estimate: Callable[[Message], int]
) -> int | None:
    """Return the earliest legal place from which everything on fits into the tail; None where there is none."""
    best: int | None = None
    index = len(entries)
    tokens = 0
    for place in reversed(places):
        tokens += sum(estimate(entry.message) for entry in entries[place:index])
        if tokens > tail_tokens:
            break
        index = best = place
    return best
