"""Messages that a hook puts in the place of the whole conversation: a swap like that of a compaction, so that it can be
undone like one and everything stays in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextSwapped, Event, MessageSupplied, Receipt
from acp_agent.conversation.messages import Message, UserMessage, new_id
from acp_agent.errors import HookError

REPLACE = "replace"
"""Named in the swap where a strategy of compaction would be."""


def replacement(context: Context, messages: Sequence[Message], used: int, prefix_tokens: int) -> tuple[Event, ...]:
    """The events that put messages in the place of a context.

    The first stands where a summary would; the others are logged before the swap, as the tail that it keeps.

    :param messages: legal history, whose first is the user's.
    :param used: tokens of the context as it is.
    :param prefix_tokens: estimate of what stands before the messages.
    :raises HookError: they begin with no message of the user's.
    """
    first, others = messages[0] if messages else None, messages[1:]
    if not isinstance(first, UserMessage):
        raise HookError("A hook wanted to replace the conversation by messages that do not begin with the user's.")
    supplied = tuple(MessageSupplied(message) for message in others)
    swap = ContextSwapped(
        compaction_id=new_id("cmp"),
        message_id=new_id("msg"),
        trigger="hook",
        summary=f"A hook replaced the conversation by {len(messages)} of its own messages.",
        sent=first.parts,
        keep_from=context.head + 1,
        carried=replace(context.carried(), memory=context.memory),
        tokens_before=used,
        tokens_after=prefix_tokens + estimate_messages(messages),
        strategy=REPLACE,
        earlier=context.swaps,
        receipt=Receipt(summarised=len(context.entries)),
    )
    return (*supplied, swap)
