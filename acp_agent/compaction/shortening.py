"""Giants made shorter where they stand: a long pasted message, a huge result, the text that a call writes.

Ids, order, the names of tools and the pairing of calls and results never change, nor does thinking in a provider's own
form, which is signed. Summaries are left alone, ours and a provider's: they hold what must stay word for word.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN, estimate_message, estimate_part
from acp_agent.compaction.left_out import SHORTEST_PIECE, LeftOut, cut_middle
from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import Rewritten
from acp_agent.conversation.messages import (
    AssistantPart,
    CompactedBlock,
    JsonValue,
    Message,
    Resource,
    Text,
    Thinking,
    ToolCall,
    UserPart,
)

Rewrite: TypeAlias = Rewritten
"""A message that stays in a shorter form, at its place."""

FLOOR_TOKENS = 96
"""No message is made smaller than this to fit a budget."""
GRAIN = 16
"""Characters by which a text may be shorter than it would have to be."""


def fit(
    entries: Sequence[Entry], budget_tokens: int, turn_from: int | None, *, recall_hint: bool
) -> tuple[Rewrite, ...]:
    """Return the least shortening after which these entries take no more than a budget.

    The largest message is brought down to half of its size, or to what is needed, again and again; of equals the oldest
    comes first, and the prompt of the running turn only after all others are at their floor. Where the floors together
    are above the budget, that is what remains.

    :param budget_tokens: estimated tokens of all entries.
    :param turn_from: seq of the prompt of the running turn; None where none runs.
    :param recall_hint: whether the model has the `recall` tool, and is told that it reads the whole.
    """
    sizes = [estimate_message(entry.message) for entry in entries]
    over = sum(sizes) - budget_tokens
    heap = [
        (entry.seq == turn_from, -size, index)
        for index, (entry, size) in enumerate(zip(entries, sizes, strict=True))
        if size > FLOOR_TOKENS and not _is_summary(entry)
    ]
    heapq.heapify(heap)
    floors: dict[int, int] = {}
    goals: dict[int, int] = {}
    while over > 0 and heap:
        last_resort, negative, index = heapq.heappop(heap)
        size = -negative
        if index not in floors:
            smallest = _shorter(entries[index], FLOOR_TOKENS, recall_hint)
            floors[index] = max(FLOOR_TOKENS, estimate_message(smallest))
        goal = max(floors[index], size - over, size // 2)
        if goal < size:
            goals[index] = goal
            over -= size - goal
            heapq.heappush(heap, (last_resort, -goal, index))
    shorter = ((entries[index], _shorter(entries[index], goals[index], recall_hint)) for index in sorted(goals))
    return tuple(Rewrite(entry.seq, message) for entry, message in shorter if message is not entry.message)


def apply_rewrites(entries: Iterable[Entry], rewrites: Iterable[Rewrite]) -> tuple[Entry, ...]:
    """Return the entries with the shorter messages in their places; a summary is never replaced."""
    new = {rewrite.seq: rewrite.message for rewrite in rewrites}
    return tuple(
        replace(entry, message=new[entry.seq]) if entry.seq in new and not entry.summary else entry for entry in entries
    )


def _is_summary(entry: Entry) -> bool:
    return entry.summary or any(isinstance(part, CompactedBlock) for part in entry.message.parts)


def _shorter(entry: Entry, tokens: int, recall: bool) -> Message:
    """Return the message with its longest parts cut to one length so that it fits; as small as it gets otherwise."""
    left_out = LeftOut(entry.seq, recall)
    size = estimate_message(entry.message)
    cap = tokens * CHARACTERS_PER_TOKEN - GRAIN
    shorter, now = entry.message, size
    while now > tokens and cap:
        parts = tuple(_capped(part, cap, left_out) for part in entry.message.parts)
        shorter: Message = replace(entry.message, parts=parts)
        now = estimate_message(shorter)
        smaller = min(cap - max(GRAIN, cap // 32), cap * tokens // now)
        cap = max(SHORTEST_PIECE, smaller) if cap > SHORTEST_PIECE else 0
    return shorter if now < size else entry.message


def _capped(part: UserPart | AssistantPart, cap: int, left_out: LeftOut) -> UserPart | AssistantPart:
    """Return the part with no text longer than `cap` characters; a large image, sound or file becomes a line."""
    match part:
        case Text():
            return replace(part, text=cut_middle(part.text, cap, left_out))
        case Thinking():
            return part if part.data else replace(part, text=cut_middle(part.text, cap, left_out))
        case ToolCall():
            if part.invalid is not None:
                return replace(part, invalid=cut_middle(part.invalid, cap, left_out))
            arguments = {key: _capped_value(value, cap, left_out) for key, value in part.arguments.items()}
            return replace(part, arguments=arguments)
        case Resource() if part.text is not None:
            return replace(part, text=cut_middle(part.text, cap, left_out))
        case _:
            too_large = estimate_part(part) * CHARACTERS_PER_TOKEN > cap
            return Text(left_out.attachment(part)) if too_large else part


def _capped_value(value: JsonValue, cap: int, left_out: LeftOut) -> JsonValue:
    """Return an argument; a long one that is no string becomes its JSON, cut."""
    text = value if isinstance(value, str) else json.dumps(value)
    return cut_middle(text, cap, left_out) if len(text) > cap else value
