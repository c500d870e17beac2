"""Replaces a session's conversation with the messages of a hook."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextSwapped, Event, MessageSupplied
from acp_agent.conversation.messages import Message, UserMessage, new_id
from acp_agent.conversation.swaps import REPLACE, Receipt
from acp_agent.conversation.updates import Show
from acp_agent.errors import AgentError, HookError
from acp_agent.session.compact.report import finished
from acp_agent.session.log import SessionLog
from acp_agent.session.models.requests import Requests
from acp_agent.tools.text import counted


async def replace_context(
    messages: Sequence[Message], log: SessionLog, requests: Requests, show: Show
) -> None:
    """Replace the conversation with a hook's messages, and show the replacement.

    :raises HookError: if the first message is not from the user.
    """
    used = requests.used(await requests.active())
    prefix = requests.prefix_tokens()
    build = partial(replacement_events, messages, used, prefix)
    with anyio.CancelScope(shield=True):
        *_, swap = await log.append_built(build)
        await show(finished(swap))
        # The swap has succeeded, whether or not the usage can be shown.
        with suppress(AgentError):
            await show(await requests.usage())


def replacement_events(
    messages: Sequence[Message], used: int, prefix_tokens: int, context: Context
) -> tuple[*tuple[Event, ...], ContextSwapped]:
    """Return the events that replace a context with a hook's messages.

    The first message takes the place of a summary. The others are logged before the
    swap, as the tail that it keeps.

    :param messages: a valid history that begins with a user message.
    :param used: tokens of the current context.
    :param prefix_tokens: estimated tokens of the system prompt and the tools.
    :raises HookError: if the first message is not from the user.
    """
    first = messages[0] if messages else None
    others = messages[1:]
    if not isinstance(first, UserMessage):
        raise HookError(
            "A hook tried to replace the conversation, but the first of its messages is not from the user."
        )
    swap = ContextSwapped(
        compaction_id=new_id("cmp"),
        message_id=new_id("msg"),
        trigger="hook",
        summary=f"A hook replaced the conversation with {counted(len(messages), 'message')} of its own.",
        sent=first.parts,
        keep_from=context.head + 1,
        carried=context.carried(),
        tokens_before=used,
        tokens_after=prefix_tokens + estimate_messages(messages),
        strategy=REPLACE,
        earlier=context.swaps,
        receipt=Receipt(summarised=len(context.entries)),
    )
    return (*(MessageSupplied(message) for message in others), swap)
