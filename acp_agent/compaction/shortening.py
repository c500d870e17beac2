"""Shortens messages in place: long pasted texts, large results, long arguments of tool
calls, old images.

A text keeps its beginning and its end, with a line in between that says how much was
left out and how to read it. IDs, order, tool names and the pairing of calls and results
never change. Thinking in a provider's own form does not change either, since it is
signed. Summaries are not shortened.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from acp_agent.compaction.budget import since_prompt
from acp_agent.compaction.estimate import (
    CHARACTERS_PER_TOKEN,
    count_images,
    estimate_message,
    estimate_part,
)
from acp_agent.compaction.state import CompactionPolicy
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Audio,
    CompactedBlock,
    Entry,
    Image,
    JsonValue,
    Message,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    UserPart,
)
from acp_agent.conversation.swaps import Rewritten
from acp_agent.frozen import frozen
from acp_agent.llm.parts import address, is_picture

Rewrite: TypeAlias = Rewritten
"""A shorter form of a message, which replaces it at its place."""

SHORTEST_PIECE = 192
"""Length of the shortest form of a text in characters. It has room for the line about
the missing part and a little of both ends.
"""
HEAD_SHARE = 2 / 3
SNAP_SHARE = 1 / 4
"""Maximum share of the beginning or end of a text to drop so that the cut is at a line
break.
"""
FLOOR_TOKENS = 96
"""Minimum size in tokens to which a message is shortened to fit a budget."""
GRAIN = 16
"""Minimum step, in characters, by which the limit of all texts is lowered."""


@frozen
class LeftOut:
    """Describes parts of a log entry that are omitted from the context."""

    seq: int
    recall: bool  # whether the model has the tool

    @property
    def where(self) -> str:
        """Return how to read the whole entry, or an empty string if the model has no
        tool for it.
        """
        return f"; `recall` reads entry #{self.seq} in full" if self.recall else ""

    def middle(self, text: str) -> str:
        """Return the line that replaces this text."""
        lines = text.count("\n")
        counted = f" ({lines:,} lines)" if lines else ""
        return f"[... {len(text):,} characters{counted} left out{self.where} ...]"

    def attachment(
        self, part: Image | Audio | Resource | ResourceLink | CompactedBlock
    ) -> str:
        """Return the line that replaces an image, a sound or a file."""
        kind = (
            "image"
            if is_picture(part)
            else "sound"
            if isinstance(part, Audio)
            else "file"
        )
        uri = None if isinstance(part, Audio | CompactedBlock) else part.uri
        named = f" {address(uri)[:80]}" if uri else ""
        return f"[{kind}{named} left out{self.where}]"


def cut_middle(text: str, limit: int, left_out: LeftOut) -> str:
    """Return the text cut to `limit` characters, with a line in place of its middle.
    Return it unchanged if this would save nothing.

    :param limit: at least `SHORTEST_PIECE`.
    """
    if len(text) <= limit:
        return text
    room = limit - len(left_out.middle(text)) - 2
    head = text[: max(0, int(room * HEAD_SHARE))]
    tail = text[len(text) - max(0, room - len(head)) :]
    end = head.rfind("\n") + 1
    if end > len(head) * (1 - SNAP_SHARE):
        head = head[:end]
    begin = tail.find("\n") + 1
    if 0 < begin < len(tail) * SNAP_SHARE:
        tail = tail[begin:]
    line = left_out.middle(text[len(head) : len(text) - len(tail)])
    shorter = "\n".join(
        piece for piece in (head.removesuffix("\n"), line, tail) if piece
    )
    return shorter if len(shorter) < len(text) else text


def fit(
    entries: Sequence[Entry],
    budget_tokens: int,
    turn_from: int | None,
    *,
    recall_hint: bool,
) -> tuple[Rewrite, ...]:
    """Return the rewrites that shorten these entries to a budget, changing as little as
    possible.

    The largest message is repeatedly shortened to half of its size, or by less if that
    is enough. Of messages with equal size, the oldest comes first. The prompt of the
    running turn is shortened only after all others have their smallest size. If even
    the smallest sizes exceed the budget, the result exceeds it too.

    :param budget_tokens: maximum estimated tokens of all entries.
    :param turn_from: seq of the prompt of the running turn; None if no turn is running.
    :param recall_hint: whether the model has the `recall` tool, so that the lines can
        name it.
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
    shorter = (
        (entries[index], _shorter(entries[index], goals[index], recall_hint))
        for index in sorted(goals)
    )
    return tuple(
        Rewrite(entry.seq, message)
        for entry, message in shorter
        if message is not entry.message
    )


def apply_rewrites(
    entries: Iterable[Entry], rewrites: Iterable[Rewrite]
) -> tuple[Entry, ...]:
    """Return the entries with the shorter messages in place. Summaries are never
    replaced.
    """
    new = {rewrite.seq: rewrite.message for rewrite in rewrites}
    return tuple(
        replace(entry, message=new[entry.seq])
        if entry.seq in new and not entry.summary
        else entry
        for entry in entries
    )


def _is_summary(entry: Entry) -> bool:
    return entry.summary or any(
        isinstance(part, CompactedBlock) for part in entry.message.parts
    )


def _shorter(entry: Entry, tokens: int, recall: bool) -> Message:
    """Return the message with all of its texts cut to the same limit: the largest limit
    at which the message fits, or `SHORTEST_PIECE` if it never does.
    """
    left_out = LeftOut(entry.seq, recall)
    size = estimate_message(entry.message)
    cap = tokens * CHARACTERS_PER_TOKEN - GRAIN
    shorter = entry.message
    now = size
    while now > tokens and cap:
        parts = tuple(_capped(part, cap, left_out) for part in entry.message.parts)
        shorter: Message = replace(entry.message, parts=parts)
        now = estimate_message(shorter)
        smaller = min(cap - max(GRAIN, cap // 32), cap * tokens // now)
        cap = max(SHORTEST_PIECE, smaller) if cap > SHORTEST_PIECE else 0
    return shorter if now < size else entry.message


def _capped(
    part: UserPart | AssistantPart, cap: int, left_out: LeftOut
) -> UserPart | AssistantPart:
    """Return the part with no text longer than `cap` characters. A large image, sound
    or file becomes a line.
    """
    match part:
        case Text():
            return replace(part, text=cut_middle(part.text, cap, left_out))
        case Thinking():
            return (
                part
                if part.data
                else replace(part, text=cut_middle(part.text, cap, left_out))
            )
        case ToolCall():
            if part.invalid is not None:
                return replace(part, invalid=cut_middle(part.invalid, cap, left_out))
            arguments = {
                key: _capped_value(value, cap, left_out)
                for key, value in part.arguments.items()
            }
            return replace(part, arguments=arguments)
        case Resource() if part.text is not None:
            return replace(part, text=cut_middle(part.text, cap, left_out))
        case _:
            too_large = estimate_part(part) * CHARACTERS_PER_TOKEN > cap
            return Text(left_out.attachment(part)) if too_large else part


def _capped_value(value: JsonValue, cap: int, left_out: LeftOut) -> JsonValue:
    """Return an argument of at most `cap` characters. A longer value that is not a
    string is replaced by its JSON text, cut in the middle.
    """
    text = value if isinstance(value, str) else json.dumps(value)
    return cut_middle(text, cap, left_out) if len(text) > cap else value


def fewer_images(
    entries: Sequence[Entry], policy: CompactionPolicy, *, recall: bool
) -> tuple[Rewrite, ...]:
    """Return rewrites that replace the oldest images with lines of text, halving their
    number until the rest fits.

    Images since the newest prompt are replaced last.

    :param recall: whether the model has the `recall` tool.
    """
    messages = [entry.message for entry in entries]
    most = count_images(messages)
    newest = count_images(since_prompt(messages))
    rewrites: tuple[Rewrite, ...] = ()
    while most and policy.limits.exceeded(
        [entry.message for entry in apply_rewrites(entries, rewrites)]
    ):
        most = max(most // 2, newest) if most > newest else most // 2
        rewrites = _mask_images(entries, most, recall_hint=recall)
    return rewrites


def _mask_images(
    entries: Sequence[Entry], max_images: int, *, recall_hint: bool
) -> tuple[Rewrite, ...]:
    """Replace the oldest images in user messages and results until at most `max_images`
    are left.
    """
    surplus = (
        count_images(entry.message for entry in entries if not entry.summary)
        - max_images
    )
    rewrites: list[Rewrite] = []
    for entry in entries:
        message = entry.message
        if (
            entry.summary
            or isinstance(message, AssistantMessage)
            or not count_images([message])
        ):
            continue
        left_out = LeftOut(entry.seq, recall_hint)
        parts: list[UserPart] = []
        for part in message.parts:
            if surplus > 0 and isinstance(part, Image | Resource) and is_picture(part):
                surplus -= 1
                parts.append(Text(left_out.attachment(part)))
            else:
                parts.append(part)
        if tuple(parts) != message.parts:
            rewrites.append(Rewrite(entry.seq, replace(message, parts=tuple(parts))))
    return tuple(rewrites)
