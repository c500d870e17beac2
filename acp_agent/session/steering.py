"""`Steering`: prompts that come while a turn runs and join it at its next step, where the user's settings say so.

It owns which of them join, and that each is answered as the turn is, unless it cannot be sent at all. Commands and
recipes have turns of their own, and what was sent behind one of those waits with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from acp_agent.conversation.events import UserPrompted
from acp_agent.conversation.messages import Text, UserPart, new_id
from acp_agent.errors import AgentError
from acp_agent.session.commands import command_words
from acp_agent.session.mailbox import Mailbox, StopReason, Ticket
from acp_agent.turn.updates import PromptTaken

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost


class Steering:
    """:param host: the session's log, client and settings.
    :param mailbox: the prompts that wait.
    """

    def __init__(self, host: SessionHost, mailbox: Mailbox) -> None:
        self._host = host
        self._mailbox = mailbox
        self._joined: list[Ticket] = []

    def has(self, ticket: Ticket) -> bool:
        """Whether this prompt has joined the running turn."""
        return ticket in self._joined

    def settle(self, outcome: StopReason | Exception) -> None:
        """Answer all that have joined the turn, which is over."""
        for ticket in self._joined:
            ticket.answer(outcome)
        self._joined.clear()

    async def join(self, note: Callable[[str], Awaitable[None]]) -> str | None:
        """Let the model read what has come since its last answer.

        :param note: tells the user something, and keeps it in the log.
        :returns: why a hook has ended the turn; None where none did.
        """
        while self._host.settings.prompts_while_working == "steer":
            ticket = self._mailbox.take_if(_joins)
            if ticket is None:
                break
            self._joined.append(ticket)
            stopped = await self._add(ticket, note)
            if stopped is not None:
                return stopped
        return None

    async def _add(self, ticket: Ticket, note: Callable[[str], Awaitable[None]]) -> str | None:
        host, parts = self._host, ticket.parts
        try:
            sent, kept = await host.mcp.sent(parts), ""
            active = await host.models.active(host.model)
            await host.attachments.check(parts if sent is None else sent, active.profile, active.name)
            hooked = await host.hooks.user_message(text_of(sent or parts))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._take(ticket, ())
            raise
        except AgentError as error:
            # The turn is about more than this; the prompt is kept, and answered as in a turn of its own.
            await self._take(ticket, (), failed=error)
            return None
        if hooked.blocks or hooked.stop is not None:
            sent = ()
            kept = f"A hook kept this prompt from the model. {hooked.reason}".rstrip() if hooked.stop is None else ""
        elif hooked.message is not None:
            sent = (Text(hooked.message), *(part for part in sent or parts if not isinstance(part, Text)))
        await self._take(ticket, sent)
        if kept:
            await note(kept)
        await host.hooks.add(hooked.context)
        return hooked.stop

    async def _take(self, ticket: Ticket, sent: tuple[UserPart, ...] | None, failed: AgentError | None = None) -> None:
        message_id = new_id("msg")
        await self._host.append(UserPrompted(message_id, ticket.parts, sent, steers=True))
        if failed is None:
            ticket.take(message_id)
        else:
            self._joined.remove(ticket)
            ticket.answer(failed)
        # A cancel that comes now is too late: who sent it is told that it has its place.
        with anyio.CancelScope(shield=True):
            await self._host.show(PromptTaken(message_id, ticket.parts))


def says_anything(parts: tuple[UserPart, ...]) -> bool:
    """Whether a prompt is more than white space."""
    return any(not isinstance(part, Text) or part.text.strip() for part in parts)


def text_of(parts: tuple[UserPart, ...]) -> str:
    """The text of a prompt, without what is attached to it."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _joins(ticket: Ticket) -> bool:
    return not ticket.cancelled and says_anything(ticket.parts) and command_words(ticket.parts) is None
