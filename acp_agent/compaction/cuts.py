"""Cuts of a history: finds the places where providers accept a cut, and chooses one by
size.

A place is an index of an entry. A cut there replaces `entries[:index]` with a user
message that contains a summary, and keeps `entries[index:]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from acp_agent.compaction.estimate import estimate_message
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Entry,
    Message,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.conversation.swaps import Pinned
from acp_agent.frozen import frozen


@frozen
class Cut:
    """The division of a history by one compaction.

    :ivar summarised: entries before the cut, in order; never empty.
    :ivar pinned: the prompt of the running turn if it is among these entries. It is
        kept word for word.
    :ivar kept: entries after the cut.
    """

    summarised: tuple[Entry, ...]
    pinned: tuple[Pinned, ...]
    kept: tuple[Entry, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages of `summarised`."""
        return tuple(entry.message for entry in self.summarised)

    @property
    def retained(self) -> tuple[Entry, ...]:
        """Return the entries that are kept word for word, on both sides of the cut."""
        return (
            *(
                Entry(pin.seq, pin.message, shortened=pin.shortened)
                for pin in self.pinned
            ),
            *self.kept,
        )


def plan_cut(
    entries: tuple[Entry, ...],
    turn_from: int | None,
    tail_tokens: int,
    *,
    leave_tail: bool = True,
    keep_reasoning: bool = False,
    estimate: Callable[[Message], int] = estimate_message,
) -> Cut | None:
    """Return the cut of this history, or None if nothing may be replaced.

    The newest messages are kept, up to `tail_tokens`, beginning at a legal place. If
    everything would fit into the tail, as much as possible is summarised. The prompt of
    a running turn and the steps that the model has not answered yet are always kept. If
    the newest step alone is larger than the tail, there is no tail.

    :param turn_from: seq of the prompt of the running turn; None if no turn is running.
    :param tail_tokens: maximum size of the kept messages in tokens.
    :param leave_tail: whether at least the newest step must be kept after the summary.
        Only a compaction that the user requested may replace everything.
    :param keep_reasoning: whether the messages are replaced by the provider's own
        compaction, after which the kept messages should retain their reasoning. No
        prompt is pinned in that case.
    :param estimate: returns the tokens of a message.
    """
    # A cut has to replace at least one entry besides an earlier summary and the prompt,
    # which is kept anyway.
    replaceable = (
        index
        for index, entry in enumerate(entries, 1)
        if not entry.summary and entry.seq != turn_from
    )
    first = next(replaceable, len(entries) + 1)
    places = legal_cuts(entries, turn_from)
    if keep_reasoning:
        places = [place for place in places if _keeps_reasoning(entries, place)]
    useful = [place for place in places if first <= place <= len(entries) - leave_tail]
    if not useful:
        return None
    tail = _tail_from(entries, places, tail_tokens, estimate)
    cut = tail if tail in useful else useful[-1]
    summarised = entries[:cut]
    prompt = tuple(
        Pinned(entry.seq, entry.message, entry.shortened)
        for entry in summarised
        if entry.seq == turn_from
        and not entry.summary
        and isinstance(entry.message, UserMessage)
    )
    return Cut(summarised, () if keep_reasoning else prompt, entries[cut:])


def _tail_from(
    entries: tuple[Entry, ...],
    places: list[int],
    tail_tokens: int,
    estimate: Callable[[Message], int],
) -> int | None:
    """Return the first legal place from which on all entries fit into the tail, or None
    if there is none.
    """
    best: int | None = None
    index = len(entries)
    tokens = 0
    for place in reversed(places):
        tokens += sum(estimate(entry.message) for entry in entries[place:index])
        if tokens > tail_tokens:
            break
        index = best = place
    return best


def legal_cuts(entries: tuple[Entry, ...], turn_from: int | None) -> list[int]:
    """Return every place at which the history may be cut, in order. The last one may be
    the end of the history.

    Providers return these errors for a history that is cut at other places:

    - Between an answer that calls tools and all of its results, Anthropic: "unexpected
      `tool_use_id` found in `tool_result` blocks", or "`tool_use` ids were found
      without `tool_result` blocks immediately after"; OpenAI Responses: "No tool call
      found for function call output"; Chat Completions: a `tool` message must follow
      one with `tool_calls`.
    - Between consecutive answers, such as a paused one and its continuation, if an
      earlier one contains the thinking for a later one's call, Anthropic: "Expected
      `thinking` or `redacted_thinking`, but found `tool_use`"; OpenAI Responses: a
      `function_call` "was provided without its required 'reasoning' item".

    :param turn_from: seq of the prompt of the running turn; None if no turn is running.
    """
    places: list[int] = []
    pending: set[str] = set()  # ids of the newest answer's calls without a result
    for index in range(unanswered_from(entries, turn_from) + 1):
        message = entries[index].message if index < len(entries) else None
        # A transcript of another agent may begin with a result whose call is missing.
        if (
            not pending
            and not isinstance(message, ToolResult)
            and not _splits_thinking(entries, index)
        ):
            places.append(index)
        if isinstance(message, AssistantMessage):
            pending = {call.id for call in message.tool_calls}
        elif isinstance(message, ToolResult):
            pending.discard(message.call_id)
    return places


def _keeps_reasoning(entries: tuple[Entry, ...], place: int) -> bool:
    """Return whether the kept messages retain their reasoning after a provider's own
    compaction with this cut.

    The first kept message must not have the same role as the last summarised message.

    Source: platform.claude.com, "Compaction and thinking blocks".
    """
    if place in (0, len(entries)):
        return True
    is_answer = isinstance(entries[place].message, AssistantMessage)
    after_answer = isinstance(entries[place - 1].message, AssistantMessage)
    return is_answer != after_answer


def _splits_thinking(entries: tuple[Entry, ...], index: int) -> bool:
    """Return whether a call after this place needs the thinking of an answer directly
    before it.
    """
    after = (entries[later] for later in range(index, len(entries)))
    before = (entries[earlier] for earlier in range(index - 1, -1, -1))
    calls = _answers_contain(after, lambda part: isinstance(part, ToolCall))
    # Thinking without `data` is never sent to a provider.
    return calls and _answers_contain(
        before, lambda part: isinstance(part, Thinking) and part.data
    )


def unanswered_from(entries: tuple[Entry, ...], turn_from: int | None) -> int:
    """Return the index of the first entry that must be kept in a running turn, or the
    number of entries if no turn is running.

    This entry is the newest answer of the turn, or the prompt if there is no answer
    yet. Providers would accept a cut after it, but the model would lose the results of
    its newest tool calls.
    """
    if turn_from is None:
        return len(entries)
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if entry.summary or entry.seq < turn_from:
            return index + 1
        if isinstance(entry.message, AssistantMessage):
            return index
    return 0


def _answers_contain(
    entries: Iterable[Entry], wanted: Callable[[AssistantPart], object]
) -> bool:
    """Return whether one of the answers at the beginning of these entries contains such
    a part.
    """
    for entry in entries:
        if not isinstance(entry.message, AssistantMessage):
            return False
        if any(wanted(part) for part in entry.message.parts):
            return True
    return False
