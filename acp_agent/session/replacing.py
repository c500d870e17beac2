"""Put a hook's messages in the place of the whole conversation: a swap that is undone like a compaction's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextSwapped, Event, MessageSupplied, Receipt
from acp_agent.conversation.messages import Message, UserMessage, new_id
from acp_agent.errors import HookError
from acp_agent.session.reports import finished

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

REPLACE = "replace"
"""Strategy of a swap by which a hook put its own messages in the place of the conversation."""


async def replace_conversation(host: SessionHost, messages: Sequence[Message]) -> None:
    """Put a hook's messages in the place of a session's conversation.

    :raises HookError: they cannot stand there.
    """
    swaps: list[ContextSwapped] = []
    used = host.requests.used(await host.models.active(host.model))

    def build(context: Context) -> tuple[Event, ...]:
        events = replacement(context, messages, used, host.requests.prefix_tokens())
        swaps.extend(event for event in events if isinstance(event, ContextSwapped))
        return events

    await host.give_up()
    with anyio.CancelScope(shield=True):
        await host.log.append_built(build)
        await host.show(finished(swaps[-1]))
        await host.show_usage()


def replacement(context: Context, messages: Sequence[Message], used: int, prefix_tokens: int) -> tuple[Event, ...]:
    """Return the events that put a hook's messages in the place of a context.

    The first stands where a summary would; the others are logged before the swap, as the tail that it keeps.

    :param messages: legal history, whose first is the user's.
    :param used: tokens of the context as it is.
    :param prefix_tokens: estimate of what stands before the messages.
    :raises HookError: they begin with no message of the user's.
    """
    first, others = messages[0] if messages else None, messages[1:]
    if not isinstance(first, UserMessage):
        raise HookError("A hook wanted to replace the conversation by messages that do not begin with the user's.")
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
    return (*(MessageSupplied(message) for message in others), swap)
