"""`TurnRecord`: writes turns to the log, and shows the user what was written."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.conversation.closing import (
    closing_events,
    leaving_out_refused,
    was_cancelled,
)
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    ContextSwapped,
    Event,
    MessageSupplied,
    NoteAdded,
    PlanChanged,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    Message,
    ToolCall,
    ToolResult,
    UserMessage,
    UserPart,
    new_id,
)
from acp_agent.conversation.swaps import REPLACE, Receipt
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
    HookError,
    ModelRequestError,
    RequestRefusedError,
    sentence,
)
from acp_agent.session.attachments import whole
from acp_agent.session.commands import is_blank
from acp_agent.session.compact.report import finished
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
    :ivar begun_call: the id of the last call that began to run in this process.
    """

    _log: SessionLog
    _toolbox: Toolbox
    _requests: Requests
    titles: Titles
    _show: Show
    begun_call: str = ""

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

    @asynccontextmanager
    async def closed_on_failure(self) -> AsyncGenerator[None]:
        """Close the open turn if the body raises, and remove a prompt that the provider
        refused from the context.
        """
        try:
            yield
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.close("cancelled")
            raise
        except Exception as error:
            context = self._log.context
            newest = (
                None
                if context.turn_from is None
                else max(context.turn_from, context.prompted)
            )
            inside = f"{type(error).__name__} inside the agent"
            said = [
                entry.message
                for entry in context.entries
                if newest is not None and entry.seq >= newest
            ]
            is_unanswered = bool(said) and all(
                isinstance(message, UserMessage) for message in said
            )
            is_refused = isinstance(error, RequestRefusedError) and not is_unanswered
            told = str(error) if isinstance(error, AgentError) else inside
            await self.close("error", told, refused=is_refused)
            if newest is None or not (
                isinstance(error, ModelRequestError) and is_unanswered
            ):
                raise
            before = self._log.context.refusals
            await self._leave_out(newest)
            left_out = "The prompt was left out of the conversation, so that the next one can be answered."
            if before:
                left_out += f" {self._ways_out()}"
            raise type(error)(
                f"{sentence(error)} {left_out}", partial=error.partial
            ) from error

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
            await self.recover()  # first close a turn that a killed process left open, since `TurnEnded` would hide it
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
                )
            )
            if returned.plan is not None:
                await self._show(PlanUpdated(returned.plan))

    async def note(self, text: str, kind: SaidKind, *, logged: bool = True) -> None:
        """Show the user a text.

        :param logged: whether the text stays in the session.
        """
        message_id = new_id("msg")
        if logged:
            await self._log.append(NoteAdded(message_id, text))
        await self._show(AgentSaid(message_id, text, kind))

    async def replace_context(self, messages: Sequence[Message]) -> None:
        """Replace the conversation with a hook's messages.

        :raises HookError: if the messages do not begin with the user's.
        """
        used = self._requests.used(await self._requests.active())
        prefix = self._requests.prefix_tokens()
        with anyio.CancelScope(shield=True):
            *_, swap = await self._log.append_built(
                partial(replacement, messages, used, prefix)
            )
            await self._show(finished(swap))
            await self.show_usage()

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
            context, reason, self._toolbox.view_of, self.begun_call
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

    async def _leave_out(self, turn_from: int) -> None:
        """Remove a turn whose prompt was refused from the context.

        This also reverts the compactions in the turn, since a summary may repeat what
        was refused.

        :param turn_from: sequence number of the turn's prompt.
        """
        # Without the shield, a cancel between the two would leave the user unaware of
        # the change.
        with anyio.CancelScope(shield=True):
            await self._log.append(TurnRefused(turn_from))
            await self.show_usage()

    async def leave_out_open_turn(self) -> None:
        """Remove the open turn from the context, since the model refused to answer."""
        if self._log.context.turn_from is not None:
            await self._leave_out(self._log.context.turn_from)

    async def leave_out_refused(self) -> bool:
        """Leave out the part of the context that a provider has refused twice, and tell
        the user.

        :returns: whether anything was left out.
        """
        context = self._log.context
        left_out = leaving_out_refused(context)
        if left_out is None:
            return False
        turn = context.refused_turn
        is_step = (
            turn is not None
            and not turn.is_shortened
            and left_out.from_seq > turn.from_seq
        )
        what = (
            "the last step of the earlier turn"
            if is_step
            else "the rest of the earlier turn"
        )
        with anyio.CancelScope(shield=True):
            await self._log.append(left_out)
            await self.show_usage()
        await self.note(
            f"The provider refused the conversation again, so {what} was left out of it. The session's log keeps it.",
            "note",
        )
        return True

    async def note_refusal(self, model: str, explanation: str) -> None:
        """Tell the user why the model refused to answer, if that is known, and what to
        do after repeated refusals.

        :param model: `provider/model`.
        :param explanation: the provider's words; may be empty.
        """
        is_repeated = self._log.context.refusals > 1
        if not explanation and not is_repeated:
            return
        why = (
            f"{model} refused to answer: {explanation}"
            if explanation
            else f"{model} refused to answer."
        )
        ways_out = f" {self._ways_out()}" if is_repeated else ""
        await self.note(f"{sentence(why)}{ways_out}", "veto")

    def _ways_out(self) -> str:
        """Return advice for a series of refused prompts."""
        prompts = [entry.seq for entry in self._log.context.entries if entry.typed]
        fork = "fork the session before it"
        if prompts:
            command = (
                f"acp-agent sessions fork {self._log.session_id} --at {prompts[-1] - 1}"
            )
            fork = f"fork the session before it (`{command}` leaves out the newest prompt that was answered)"
        return (
            "Prompts have been refused one after another, so most likely the cause is something earlier in the"
            f" conversation, or in an instruction file such as AGENTS.md: {fork}, start a new session, or change the"
            " file."
        )

    async def show_usage(self) -> None:
        """Show how full the window is. Show nothing if no model is set up."""
        with suppress(AgentError):
            await self._show(await self._requests.usage())


def replacement(
    messages: Sequence[Message], used: int, prefix_tokens: int, context: Context
) -> tuple[*tuple[Event, ...], ContextSwapped]:
    """Return the events that replace a context with a hook's messages.

    The first message takes the place of a summary. The others are logged before the
    swap, as the tail that it keeps.

    :param messages: a valid history that begins with a user message.
    :param used: tokens of the current context.
    :param prefix_tokens: estimated tokens of the system prompt and the tools.
    :raises HookError: if the messages do not begin with the user's.
    """
    first = messages[0] if messages else None
    others = messages[1:]
    if not isinstance(first, UserMessage):
        raise HookError(
            "A hook wanted to replace the conversation by messages that do not begin with the user's."
        )
    swap = ContextSwapped(
        compaction_id=new_id("cmp"),
        message_id=new_id("msg"),
        trigger="hook",
        summary=f"A hook replaced the conversation by {len(messages)} of its own messages.",
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
