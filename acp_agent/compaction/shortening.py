"""Giants made shorter where they stand: a long pasted message, a huge result, the text that a call writes.

Owns which messages are made shorter, by how much, and what of each; how a text is cut, `left_out` knows. Ids, order,
the names of tools and the pairing of calls and results never change, nor does thinking in a provider's own form, which
is signed. Summaries are left alone, ours and a provider's: they hold what must stay word for word.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from acp_agent.compaction.estimate import (
    AUDIO_CHARACTERS_PER_TOKEN,
    CHARACTERS_PER_TOKEN,
    MESSAGE_TOKENS,
    estimate_message,
)
from acp_agent.compaction.left_out import SHORTEST_PIECE, LeftOut, cut_middle, cut_said
from acp_agent.conversation.context import Entry
from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.events import Rewritten
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Audio,
    CompactedBlock,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Resource,
    ResourceLink,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
    UserPart,
    data_length,
)
from acp_agent.llm.attached import is_picture

Rewrite: TypeAlias = Rewritten
"""A message that stays in a shorter form, at its place."""

FLOOR_TOKENS = 96
"""No message is made smaller than this to fit a budget."""
GRAIN = 16
"""Characters by which a text may be shorter than it would have to be."""
COLLAPSED = "shortened"
"""The one argument of a call whose own could not be kept."""


def fit(
    entries: Sequence[Entry], budget_tokens: int, turn_from: int | None, *, recall_hint: bool
) -> tuple[Rewrite, ...]:
    """The least shortening after which these entries take no more than a budget.

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
            smallest = _shorter(entries[index].message, FLOOR_TOKENS, LeftOut(entries[index].seq, recall_hint))
            floors[index] = max(FLOOR_TOKENS, estimate_message(smallest))
        goal = max(floors[index], size - over, size // 2)
        if goal < size:
            goals[index] = goal
            over -= size - goal
            heapq.heappush(heap, (last_resort, -goal, index))
    shortened = (_rewrite(entries[index], goals[index], recall_hint) for index in sorted(goals))
    return tuple(rewrite for rewrite in shortened if rewrite is not None)


def apply_rewrites(entries: Iterable[Entry], rewrites: Iterable[Rewrite]) -> tuple[Entry, ...]:
    """The entries with the shorter messages in their places; a summary is never replaced."""
    new = {rewrite.seq: rewrite.message for rewrite in rewrites}
    return tuple(
        replace(entry, message=new[entry.seq]) if entry.seq in new and not entry.summary else entry for entry in entries
    )


def _rewrite(entry: Entry, tokens: int, recall: bool) -> Rewrite | None:
    if _is_summary(entry):
        return None
    message = _shorter(entry.message, tokens, LeftOut(entry.seq, recall))
    return None if message is entry.message else Rewrite(entry.seq, message)


def _is_summary(entry: Entry) -> bool:
    return entry.summary or any(isinstance(part, CompactedBlock) for part in entry.message.parts)


def _shorter(message: Message, tokens: int, left_out: LeftOut) -> Message:
    """A message with its longest texts cut to one length so that it fits; as small as it gets where it cannot."""
    size = estimate_message(message)
    if size <= tokens:
        return message
    fewer = _with_fewer_images(message, tokens // 2, left_out)
    if estimate_message(fewer) <= tokens:
        return fewer
    capped = _longest(lambda cap: _capped(fewer, cap, left_out), tokens)
    if estimate_message(capped) > tokens:
        capped = _longest(lambda cap: _collapsed(message, cap, left_out), tokens)
    return capped if estimate_message(capped) < size else message


def _longest(make: Callable[[int], Message], tokens: int) -> Message:
    """What `make` gives for the largest cap on texts, in characters, that fits; for the smallest where none does."""
    best = make(SHORTEST_PIECE)
    if estimate_message(best) > tokens:
        return best
    low, high = SHORTEST_PIECE, tokens * CHARACTERS_PER_TOKEN
    while high - low > GRAIN:
        cap = (low + high) // 2
        tried = make(cap)
        if estimate_message(tried) <= tokens:
            best, low = tried, cap
        else:
            high = cap
    return best


def _with_fewer_images(message: Message, room: int, left_out: LeftOut) -> Message:
    """Only the newest images, as many as fit into so many tokens."""
    if isinstance(message, AssistantMessage):
        return message
    kept: list[UserPart] = []
    for part in reversed(message.parts):
        if isinstance(part, Image | Resource) and is_picture(part):
            room -= estimate_message(UserMessage("", (part,))) - MESSAGE_TOKENS
            kept.append(part if room >= 0 else Text(left_out.image(part)))
        else:
            kept.append(part)
    return _with_parts(message, tuple(reversed(kept)))


def _capped(message: Message, cap: int, left_out: LeftOut) -> Message:
    """No text in it longer than `cap` characters."""
    if isinstance(message, AssistantMessage):
        return replace(message, parts=tuple(_capped_answer(part, cap, left_out) for part in message.parts))
    typed = _typed(message)
    return _with_parts(message, tuple(_capped_part(part, cap, left_out, typed) for part in message.parts))


def _typed(message: UserMessage | ToolResult) -> str | None:
    """What of a message the user typed; None where that is all of it."""
    if isinstance(message, RecipePrompt):
        return "\n".join(part.text for part in message.typed if isinstance(part, Text))
    return None if isinstance(message, UserMessage) else ""


def _capped_part(part: UserPart, cap: int, left_out: LeftOut, typed: str | None) -> UserPart:
    match part:
        case Text():
            return replace(part, text=cut_said(part.text, cap, left_out, typed))
        case Resource():
            if part.text is not None:
                return replace(part, text=cut_middle(part.text, cap, left_out))
            too_long = not is_picture(part) and _as_sent(part) > cap
            return Text(left_out.file(part)) if too_long else part
        case Audio():
            too_long = data_length(part.data) * CHARACTERS_PER_TOKEN > cap * AUDIO_CHARACTERS_PER_TOKEN
            return Text(left_out.sound()) if too_long else part
        case _:
            return part


def _as_sent(part: Resource) -> int:
    """Characters of a file that is no text of its own; bytes that are no text are named and not sent."""
    if isinstance(part.blob, Stored):
        return part.blob.size if part.blob.text else 0
    return data_length(part.blob)


def _capped_answer(part: AssistantPart, cap: int, left_out: LeftOut) -> AssistantPart:
    match part:
        case Text():
            return replace(part, text=cut_middle(part.text, cap, left_out))
        case Thinking():
            return part if part.data else replace(part, text=cut_middle(part.text, cap, left_out))
        case ToolCall():
            if part.invalid is not None:
                return replace(part, invalid=cut_middle(part.invalid, cap, left_out))
            arguments: JsonObject = {key: _capped_value(value, cap, left_out) for key, value in part.arguments.items()}
            return replace(part, arguments=arguments)


def _capped_value(value: JsonValue, cap: int, left_out: LeftOut) -> JsonValue:
    if isinstance(value, str):
        return cut_middle(value, cap, left_out)
    if isinstance(value, list):
        return [_capped_value(inner, cap, left_out) for inner in value]
    if isinstance(value, dict):
        return {key: _capped_value(inner, cap, left_out) for key, inner in value.items()}
    return value


def _collapsed(message: Message, cap: int, left_out: LeftOut) -> Message:
    """The same where there are too many pieces: a user's message and a result become one text without images, and a
    call gets one argument with the text of all that it had."""
    if not isinstance(message, AssistantMessage):
        text = "\n\n".join(_as_text(part, left_out) for part in message.parts)
        return _with_parts(message, (Text(cut_middle(text, cap, left_out)),))
    parts: list[AssistantPart] = []
    for part in message.parts:
        if isinstance(part, ToolCall) and part.invalid is None:
            text = json.dumps(part.arguments)
            if len(text) > cap:
                parts.append(replace(part, arguments={COLLAPSED: cut_middle(text, cap, left_out)}))
                continue
        parts.append(_capped_answer(part, cap, left_out))
    return replace(message, parts=tuple(parts))


def _as_text(part: UserPart, left_out: LeftOut) -> str:
    match part:
        case Text():
            return part.text
        case Image():
            return left_out.image(part)
        case Audio():
            return left_out.sound()
        case ResourceLink():
            return f"{part.name} ({part.uri})"
        case CompactedBlock():
            return part.text
        case Resource():
            if part.text is not None:
                return f"{part.uri}:\n{part.text}"
            return left_out.image(part) if is_picture(part) else left_out.file(part)


def _with_parts(message: Message, parts: tuple[UserPart, ...]) -> Message:
    """The message with parts of the kinds that it had."""
    if isinstance(message, UserMessage):
        return replace(message, parts=parts)
    assert not isinstance(message, AssistantMessage)
    return replace(message, parts=tuple(part for part in parts if isinstance(part, Text | Image)))
