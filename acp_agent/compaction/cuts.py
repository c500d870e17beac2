"""Where a context may be cut: what is summarised, and what stays word for word behind the summary.

A cut is legal where no call loses its result and no answer loses a part: before a user's message, or before an answer.
A parallel batch of calls lies between two such places, so it is never split.
"""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.compaction.estimate import estimate_message
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import Pinned
from acp_agent.conversation.messages import AssistantMessage, ToolResult, UserMessage


@dataclass(frozen=True, slots=True)
class Cut:
    """A plan for one compaction.

    :ivar summarised: entries that the summary takes the place of, in order; never empty.
    :ivar pinned: of those, what nevertheless stays word for word: the prompt of the running turn.
    :ivar kept: entries that stay behind the cut.
    """

    summarised: tuple[Entry, ...]
    pinned: tuple[Pinned, ...]
    kept: tuple[Entry, ...]


def plan_cut(context: Context, tail_tokens: int) -> Cut | None:
    """Choose what a compaction of this context replaces; None where there is nothing that it may replace.

    The newest messages stay, up to `tail_tokens`, from a legal place on. Where all that could be replaced would fit
    into the tail, as much as possible is summarised: somebody asked for a short context, and a cut that removes nothing
    is none. The prompt of a running turn and the steps that the model has not answered yet always stay.

    :param tail_tokens: estimate of the tokens to keep word for word.
    """
    entries = context.entries
    limit = _unanswered_from(context)
    places = [index for index in range(limit + 1) if index == len(entries) or _may_stand_first(entries[index])]
    if not places:
        return None
    cut = _tail_from(entries, places, tail_tokens)
    if not _replaces_anything(context, cut):
        cut = places[-1]
    if not _replaces_anything(context, cut):
        return None
    summarised = entries[:cut]
    prompt = tuple(
        Pinned(entry.seq, entry.message)
        for entry in summarised
        if entry.seq == context.turn_from and isinstance(entry.message, UserMessage)
    )
    return Cut(summarised, prompt, entries[cut:])


def _replaces_anything(context: Context, cut: int) -> bool:
    """Whether there is something before this place that is neither a summary itself nor the running turn's prompt."""
    return any(not entry.summary and entry.seq != context.turn_from for entry in context.entries[:cut])


def _unanswered_from(context: Context) -> int:
    """Index of the first entry that must stay: the newest answer whose results the model has not answered, or the
    prompt that it has not answered at all."""
    entries = context.entries
    if context.turn_from is None:
        return len(entries)
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if entry.summary or entry.seq < context.turn_from:
            return index + 1
        if not isinstance(entry.message, ToolResult):
            # The newest answer with its results, or the prompt itself.
            return index
    return 0


def _may_stand_first(entry: Entry) -> bool:
    return isinstance(entry.message, UserMessage | AssistantMessage)


def _tail_from(entries: tuple[Entry, ...], places: list[int], tail_tokens: int) -> int:
    """The earliest legal place from which everything on fits into the tail; the last place where none does."""
    best = places[-1]
    legal = set(places)
    tokens = 0
    for index in range(len(entries) - 1, -1, -1):
        tokens += estimate_message(entries[index].message)
        if tokens > tail_tokens:
            break
        if index in legal:
            best = min(best, index)
    return best
