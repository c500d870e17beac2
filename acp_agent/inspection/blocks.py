"""What the model saw before a compaction and what it sees behind it, in the layers that a compaction has."""

from __future__ import annotations

from collections.abc import Mapping

from acp_agent.compaction.estimate import estimate_message, estimate_part
from acp_agent.compaction.frame import layer_of
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.swaps import ContextSwapped
from acp_agent.inspection.texts import message_text, part_text
from acp_agent.inspection.views import Block, Layer


def blocks_before(context: Context, swap: ContextSwapped, pins: Mapping[int, str]) -> tuple[Block, ...]:
    """The context that a swap replaces: what leaves, what stays.

    :param context: as it was before the swap.
    :param pins: the texts that the user has pinned, by where they stand in the log.
    """
    pinned = {pin.seq for pin in swap.pinned}
    carried = "\n".join(part_text(part) for part in swap.sent if layer_of(part) == "pinned")

    def stays_word_for_word(entry: Entry) -> bool:
        said = message_text(entry.message)
        typed = entry.message.role == "user" and not entry.note
        text = pins.get(entry.seq) or (said if typed else "")
        return bool(text) and text in carried

    def layer(entry: Entry) -> Layer:
        if entry.seq in pinned:
            return "pinned"
        if not swap.sent or entry.seq >= swap.keep_from:
            return "tail"
        return "pinned" if stays_word_for_word(entry) else "replaced"

    return tuple(block for entry in context.entries for block in _blocks(entry, layer(entry)))


def blocks_after(context: Context, swap: ContextSwapped) -> tuple[Block, ...]:
    """The context behind a swap.

    :param context: as it was right behind it.
    """
    pinned = {pin.seq for pin in swap.pinned}
    return tuple(
        block for entry in context.entries for block in _blocks(entry, "pinned" if entry.seq in pinned else "tail")
    )


def _blocks(entry: Entry, layer: Layer) -> tuple[Block, ...]:
    """A message as a block; a summary as one for each of its layers."""
    message = entry.message
    if not entry.summary:
        tokens, text = estimate_message(message), message_text(message)
        return (Block(layer, message.role, entry.seq, tokens, text, entry.shortened),)
    return tuple(
        Block(layer_of(part), message.role, entry.seq, estimate_part(part), part_text(part)) for part in message.parts
    )
