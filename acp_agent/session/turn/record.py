"""`TurnRecord`: the beginning and the end of turns in the log, and what the user sees of both."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio

from acp_agent.conversation.closing import closing_events
from acp_agent.conversation.events import (
    CallView,
    Event,
    NoteAdded,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import ToolCall, UserMessage, new_id
from acp_agent.conversation.updates import AgentSaid, CallFinished, CallStatus, PromptTaken, Show
from acp_agent.errors import AgentError, ModelRequestError, sentence
from acp_agent.session.log import SessionLog
from acp_agent.session.mailbox import Ticket
from acp_agent.session.notices import Notices
from acp_agent.session.project.commands import says_anything
from acp_agent.session.project.mcp import SessionMcp
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.workspace import ReadInstructions
from acp_agent.session.titles import Titles
from acp_agent.tools.text import one_line


@dataclass(eq=False, slots=True)
class TurnRecord:
    """Logs the prompts of one session and how their turns end, so that the log is legal however that is.

    :ivar titles: gives the session its titles.
    :ivar begun_call: the id of the call that began to run last, in this process.
    """

    _log: SessionLog
    _instructions: ReadInstructions
    _mcp: SessionMcp
    _requests: Requests
    titles: Titles
    _notices: Notices
    _show: Show
    begun_call: str = ""

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Frame the work on one prompt: notices are shown meanwhile."""
        async with self._notices.turn():
            yield

    async def open(self) -> None:
        """Catch up with the log, and close a turn that a killed process left open in it."""
        await self._log.refresh()
        if self._log.context.turn_from is not None:
            closing = closing_events(self._log.context, "interrupted", self.view_of)
            await self._log.append(*closing, TurnEnded("interrupted"), await self._instructions())

    @asynccontextmanager
    async def closing(self) -> AsyncGenerator[None]:
        """Close the open turn in the log if the work on a prompt fails or is cancelled."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.close("cancelled")
            raise
        except Exception as error:
            context = self._log.context
            newest = None if context.turn_from is None else max(context.turn_from, context.prompted)
            inside = f"{type(error).__name__} inside the agent"
            await self.close("error", str(error) if isinstance(error, AgentError) else inside)
            said = [entry.message for entry in self._log.context.entries if newest is not None and entry.seq >= newest]
            is_unanswered = bool(said) and all(isinstance(message, UserMessage) for message in said)
            if newest is None or not (isinstance(error, ModelRequestError) and is_unanswered):
                raise
            await self._leave_out(newest)
            left_out = "The prompt was left out of the conversation, so that the next one can be answered."
            raise type(error)(f"{sentence(error)} {left_out}", partial=error.partial) from error

    async def take(self, ticket: Ticket, prompted: UserPrompted, *more: Event) -> None:
        """Append a prompt to the log, and report that it was accepted."""
        await self._log.append(prompted, *more)
        await self.show_taken(ticket, prompted.message_id)

    async def keep_cancelled(self, ticket: Ticket) -> None:
        """Log a prompt that was cancelled before it was accepted, unless it is provisional."""
        if says_anything(ticket.parts) and not ticket.provisional:
            await self.take(ticket, UserPrompted(new_id("msg"), ticket.parts, sent=()), TurnEnded("cancelled"))

    async def show_taken(self, ticket: Ticket, message_id: str) -> None:
        """Set the id of the prompt's message, and show that the prompt was accepted."""
        ticket.take(message_id)
        # A cancel that comes now is too late: its sender learns that the prompt was accepted.
        with anyio.CancelScope(shield=True):
            await self._show(PromptTaken(message_id, ticket.parts))

    async def note(self, text: str, *, apart: bool = False, logged: bool = True) -> None:
        """Tell the user something.

        :param apart: whether answers of the model are next to it: some editors join all messages of a turn.
        :param logged: whether it stays in the session.
        """
        message_id = new_id("msg")
        if logged:
            await self._log.append(NoteAdded(message_id, text))
        await self._show(AgentSaid(message_id, f"\n\n{text}\n\n" if apart else text))

    async def close(self, stop: str, error: str | None = None) -> None:
        """Close the open turn, if there is one, and show how its open calls ended."""
        context = self._log.context
        if context.turn_from is None:
            return
        open_calls = {call.id: call for call in context.open_calls}
        reason = "cancelled" if stop == "cancelled" else "interrupted"
        closing = closing_events(context, reason, self.view_of, self.begun_call)
        # Also for an editor that does not read for a while: showing waits until the connection ends.
        with anyio.CancelScope(shield=True):
            try:
                await self._log.append(*closing, TurnEnded(stop, error))
            finally:
                # Also after a conflict: what is open in the editor has to end there.
                status: CallStatus = "cancelled" if stop == "cancelled" else "failed"
                for event in closing:
                    if isinstance(event, ToolReturned):
                        call = open_calls[event.result.call_id]
                        # Without the result's text, which is for the model: what the call had printed stays visible.
                        await self._show(CallFinished(call.id, call.name, event.view, call.arguments, status, ()))

    async def _leave_out(self, turn_from: int) -> None:
        """Take a turn whose prompt was refused out of the context, and bring back what was compacted in it, since a
        summary may say again what was refused.

        :param turn_from: sequence number of its prompt.
        """
        # A cancel between the two would leave the user untold of what is in the log.
        with anyio.CancelScope(shield=True):
            await self._log.append(TurnRefused(turn_from))
            await self.show_usage()

    async def leave_out_open_turn(self) -> None:
        """Take the open turn out of the context, since the model refused to answer."""
        if self._log.context.turn_from is not None:
            await self._leave_out(self._log.context.turn_from)

    async def show_usage(self) -> None:
        """Show how full the window is; without a model there is none."""
        with suppress(AgentError):
            await self._show(await self._requests.usage())

    def view_of(self, call: ToolCall) -> CallView:
        """Return what an editor shows of a call before anything is known of it but its arguments."""
        tool = self._mcp.tools.get(call.name)
        return tool.preview(call.arguments) if tool else CallView(one_line(call.name) or "(no name)")
