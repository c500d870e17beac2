"""`TurnRecord`: writes turns to the log, and shows them to the user."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from acp_agent.conversation.closing import (
    closing_events,
    was_cancelled,
)
from acp_agent.conversation.events import (
    Event,
    NoteAdded,
    PlanChanged,
    ToolReturned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    ToolCall,
    ToolResult,
    UserPart,
    new_id,
)
from acp_agent.conversation.updates import (
    AgentSaid,
    CallFinished,
    CallStatus,
    PlanUpdated,
    PromptTaken,
    SaidKind,
    Show,
)
from acp_agent.errors import (
    AgentError,
)
from acp_agent.session.attachments import whole
from acp_agent.session.commands import is_blank
from acp_agent.session.log import SessionLog
from acp_agent.session.mailbox import Ticket
from acp_agent.session.models.requests import Requests
from acp_agent.session.replay import replay
from acp_agent.session.titles import Titles
from acp_agent.session.toolbox import Toolbox
from acp_agent.tools.tool import CallResult

if TYPE_CHECKING:
    from acp_agent.session.recipes.run import RecipeRun


@dataclass(eq=False, slots=True)
class TurnRecord:
    """Logs the turns of one session. However a turn ends, it is closed so that every
    call has a result.

    :ivar titles: gives the session its titles.
    :ivar started_call: ID of the last call that was started in this process.
    """

    _log: SessionLog
    _toolbox: Toolbox
    _requests: Requests
    titles: Titles
    _show: Show
    started_call: str = ""

    async def recover(self) -> None:
        """Read new events from the log, and close a turn that a killed process left
        open.
        """
        await self._log.refresh()
        if self._log.context.turn_from is not None:
            closing = closing_events(
                self._log.context, "interrupted", self._toolbox.view_of
            )
            await self._log.append(*closing, TurnEnded("interrupted"))

    async def log_prompt(
        self,
        ticket: Ticket,
        sent: tuple[UserPart, ...] | None,
        recipe_run: RecipeRun | None = None,
        *more: Event,
        steers: bool = False,
    ) -> None:
        """Append a prompt to the log, and report that it was accepted.

        :param sent: what the model reads instead of the prompt: None for the prompt
            itself, empty for nothing.
        :param recipe_run: the run of the recipe that the prompt names.
        :param more: events to append after the prompt.
        :param steers: whether the prompt joins a running turn.
        """
        name, digest = (
            (recipe_run.recipe.name, recipe_run.recipe.digest)
            if recipe_run is not None
            else ("", "")
        )
        prompted = UserPrompted(
            new_id("msg"), ticket.parts, sent, name, digest, steers=steers
        )
        if steers or sent == ():
            await self._log.append(prompted, *more)
        else:
            instructions = await self._requests.instructions()
            await self._log.append_built(
                partial(self._requests.around_prompt, instructions, prompted)
            )
        await self.show_accepted(ticket, prompted.message_id)

    async def keep_cancelled(self, ticket: Ticket) -> None:
        """Log a prompt that was cancelled before it was accepted, unless it is
        provisional.
        """
        if not is_blank(ticket.parts) and not ticket.provisional:
            await self.recover()  # first close a turn that a killed process left open, since `TurnEnded` hides it
            await self.log_prompt(ticket, (), None, TurnEnded("cancelled"))

    async def show_accepted(self, ticket: Ticket, message_id: str) -> None:
        """Set the id of the prompt's message, and show that the prompt was accepted."""
        ticket.accept(message_id)
        # A cancel that arrives now is too late: the sender learns that the prompt was
        # accepted.
        with anyio.CancelScope(shield=True):
            await self._show(PromptTaken(message_id, ticket.parts))

    async def finish_call(self, call: ToolCall, returned: CallResult) -> None:
        """Append the result of a call, and show it."""
        result = ToolResult(call.id, returned.parts, returned.is_error)
        plan = () if returned.plan is None else (PlanChanged(returned.plan),)
        status: CallStatus = "failed" if returned.is_error else "completed"
        if was_cancelled(result):
            status = "cancelled"
        # Without the shield, a cancel in between would leave a logged result that the
        # user never sees.
        with anyio.CancelScope(shield=True):
            await self._log.append(
                ToolReturned(result, returned.view, returned.files, returned.before),
                *plan,
            )
            await self._show(
                CallFinished(
                    call.id,
                    call.name,
                    returned.view,
                    call.arguments,
                    status,
                    returned.parts,
                    refused_by=returned.refused_by,
                )
            )
            if returned.plan is not None:
                await self._show(PlanUpdated(returned.plan))

    async def note(self, text: str, kind: SaidKind, *, logged: bool = True) -> None:
        """Show a text to the user.

        :param logged: whether the text stays in the session.
        """
        message_id = new_id("msg")
        if logged:
            await self._log.append(NoteAdded(message_id, text))
        await self._show(AgentSaid(message_id, text, kind))

    async def replay(self) -> None:
        """Show the whole log."""
        async for update in replay(self._log.events(), self._toolbox.view_of):
            await self._show(await whole(update, self._log.read_blob))

    async def close(
        self, stop: str, error: str | None = None, *, refused: bool = False
    ) -> None:
        """Close the open turn, if there is one, and show that its open calls have
        ended.

        :param refused: see `TurnEnded`.
        """
        context = self._log.context
        if context.turn_from is None:
            return
        open_calls = {call.id: call for call in context.open_calls}
        reason = "cancelled" if stop == "cancelled" else "interrupted"
        closing = closing_events(
            context, reason, self._toolbox.view_of, self.started_call
        )
        # There is no time limit: showing waits until a slow editor reads or
        # disconnects.
        with anyio.CancelScope(shield=True):
            try:
                await self._log.append(*closing, TurnEnded(stop, error, refused))
            finally:
                # Even after a conflict, the calls that are open in the editor must end
                # there.
                status: CallStatus = "cancelled" if stop == "cancelled" else "failed"
                for event in closing:
                    if isinstance(event, ToolReturned):
                        call = open_calls[event.result.call_id]
                        # Omit the result's text, which is meant for the model, so that
                        # the call's output stays visible.
                        await self._show(
                            CallFinished(
                                call.id,
                                call.name,
                                event.view,
                                call.arguments,
                                status,
                                (),
                            )
                        )

    async def show_usage(self) -> None:
        """Show how full the window is. Show nothing if no model is set up."""
        with suppress(AgentError):
            await self._show(await self._requests.usage())
