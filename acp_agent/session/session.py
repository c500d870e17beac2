"""`Session`: the actor behind one conversation. It takes prompts from its mailbox one by one and runs a turn for each.

It is the only writer of its log and the only one that swaps its context. Settings and cancelling do not queue: they act
at once, beside a running turn.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import anyio

from acp_agent.conversation.closing import closing_events
from acp_agent.conversation.events import (
    CallView,
    Event,
    LoggedEvent,
    NoteAdded,
    TitleChanged,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import Text, ToolCall, UserMessage, UserPart, new_id
from acp_agent.errors import (
    AgentError,
    CompactionError,
    ModelRequestError,
    SessionNotFoundError,
)
from acp_agent.session.commands import (
    BUILT_IN,
    REPORTS,
    UNDO,
    RecipeRun,
    builtin_command,
    commands,
    recipe_run,
    turn_limits,
)
from acp_agent.session.host import SessionHost
from acp_agent.session.mailbox import Mailbox, StopReason, Ticket
from acp_agent.session.options import change_event, session_options
from acp_agent.session.replay import replay
from acp_agent.session.titles import title_of
from acp_agent.tools.registry import ToolRegistry
from acp_agent.turn.calls import view_of
from acp_agent.turn.loop import run_turn
from acp_agent.turn.updates import (
    AgentSaid,
    CallFinished,
    CommandsUpdated,
    ModeUpdated,
    Option,
    OptionsUpdated,
    TitleUpdated,
)

CLOSE_SECONDS = 2.0
"""Bound on what a cancelled turn may still write."""

_log = logging.getLogger(__name__)


class Session:
    """One open conversation. `serve` must run for its prompts to be answered.

    :param host: its log, client and settings.
    """

    def __init__(self, host: SessionHost, tools: ToolRegistry) -> None:
        self.host = host
        self._tools = tools
        self._mailbox = Mailbox()
        self._running: Ticket | None = None
        self._turn_scope = anyio.CancelScope()
        self._serving = anyio.CancelScope()
        self._closed = False
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def session_id(self) -> str:
        """Its stable id."""
        return self.host.session_id

    # --- prompts ---

    def submit(self, parts: tuple[UserPart, ...]) -> Ticket:
        """Put a prompt behind those that wait. Synchronous, so that prompts keep their order.

        :raises AgentError: too many are waiting, or the session was closed.
        """
        if self._closed:
            raise SessionNotFoundError(self.session_id)
        ticket = Ticket(parts)
        self._mailbox.put(ticket)
        return ticket

    def cancel(self) -> None:
        """End the running turn with `cancelled`, or the one that was about to run; prompts behind it stay."""
        if self._running is not None:
            self._turn_scope.cancel()
        else:
            self._mailbox.cancel_first()

    def withdraw(self, ticket: Ticket) -> bool:
        """Take one prompt back.

        :returns: True where it was still waiting and never ran; otherwise its turn is cancelled.
        """
        if self._mailbox.remove(ticket):
            return True
        if self._running is ticket:
            self.cancel()
        return False

    async def serve(self) -> None:
        """Answer prompts until the session is closed."""
        with self._serving:
            try:
                async with anyio.create_task_group() as tasks:
                    self.host.run_in(tasks)
                    while True:
                        await self._answer(await self._mailbox.take())
            finally:
                self._release()

    async def close(self) -> None:
        """Answer every prompt with `cancelled`, end the running turn and take no more."""
        self._release()
        if self._running is not None:
            self._turn_scope.cancel()
        await self._idle.wait()
        # Before somebody else reads the log, which is told what a summary cost that nobody will use.
        await self.host.give_up()
        self._serving.cancel()
        await self.host.models.aclose()

    def _release(self) -> None:
        self._closed = True
        for ticket in self._mailbox.empty():
            ticket.answer("cancelled")

    async def _answer(self, ticket: Ticket) -> None:
        self._running, self._turn_scope, self._idle = ticket, anyio.CancelScope(), anyio.Event()
        try:
            ticket.answer(await self._turn(ticket))
        except Exception as error:
            ticket.answer(error)
        finally:
            ticket.answer("cancelled")  # counts only where the whole agent is being ended
            self._running = None
            self._idle.set()

    # --- one turn ---

    async def _turn(self, ticket: Ticket) -> StopReason:
        """Run one prompt to its end; cancelling is caught here and nowhere else."""
        stop: StopReason = "cancelled"
        prompted = self.host.context.prompted
        with self._turn_scope:
            try:
                await self._open_turn()
                if ticket.cancelled:
                    await self._log_unasked(ticket.parts)
                    return "cancelled"
                if not _says_anything(ticket.parts):
                    return "end_turn"
                stop = await self._run(ticket.parts)
                await self._close_turn(stop, None)
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                    await self._close_turn("cancelled", None)
                    if self.host.context.prompted == prompted:
                        await self._log_unasked(ticket.parts)
                raise
            except ModelRequestError as error:
                turn_from = self.host.context.turn_from
                await self._close_turn("error", str(error))
                raise await self._left_out(error, turn_from) from error
            except AgentError as error:
                await self._close_turn("error", str(error))
                raise
            except Exception as error:
                await self._close_turn("error", f"{type(error).__name__} inside the agent")
                raise
        return stop

    async def _open_turn(self) -> None:
        """Catch up with the log, and close what a killed process left open in it."""
        await self.host.log.refresh()
        if self.host.context.turn_from is not None:
            closing = closing_events(self.host.context, "interrupted", self._view_of)
            await self.host.append(*closing, TurnEnded("interrupted"), await self.host.read_instructions())
        self.host.compaction.automatic.begin_turn()
        await self.host.models.begin_turn()

    async def _run(self, parts: tuple[UserPart, ...]) -> StopReason:
        host = self.host
        try:
            run = recipe_run(await host.library(), parts)
        except Exception:
            # Whatever is wrong with the recipes, the prompt is kept.
            await host.append(UserPrompted(new_id("msg"), parts, sent=()))
            raise
        if run is not None and run.compacts:
            return await self._compact(run, parts)
        builtin = builtin_command(parts) if run is None else None
        if builtin is not None:
            from acp_agent.session.builtin import run_builtin

            await host.append(UserPrompted(new_id("msg"), parts, sent=()))
            await self._note(await run_builtin(host, *builtin))
            return "end_turn"
        try:
            await host.models.active(host.context.model)
            sent = None if run is None else (Text(await run.rendered()), *run.attachments)
        except AgentError:
            # No model is set, or the recipe is broken. The prompt is kept, but does not enter the context: it can be
            # sent again unchanged.
            await host.append(UserPrompted(new_id("msg"), parts, sent=()))
            raise
        await host.append(UserPrompted(new_id("msg"), parts, sent))
        await self._give_title(parts)
        for text in host.take_untold():
            await self._note(text)
        result = await run_turn(host, self._tools, turn_limits(host.settings, run))
        if run is not None and result.answer is not None:
            await host.compaction.after_recipe(run, result.answer.text)
        await host.compaction.automatic.end_turn()
        return result.stop_reason

    async def _compact(self, run: RecipeRun, parts: tuple[UserPart, ...]) -> StopReason:
        word = run.instructions.strip()
        if word in REPORTS:
            from acp_agent.session.builtin import report

            # Not logged: who asks what would change must not find that something did.
            await self.host.show(AgentSaid(new_id("msg"), await report(self.host, word, run)))
            return "end_turn"
        await self.host.append(UserPrompted(new_id("msg"), parts, sent=()))
        try:
            if word == UNDO:
                from acp_agent.session.builtin import undo_compaction

                await self._note(await undo_compaction(self.host))
            elif not await self.host.compaction.compact(run):
                await self._note("There is nothing to compact yet.")
        except CompactionError as error:
            await self._note(str(error))
        return "end_turn"

    async def _note(self, text: str) -> None:
        message_id = new_id("msg")
        await self.host.append(NoteAdded(message_id, text))
        await self.host.show(AgentSaid(message_id, text))

    async def _close_turn(self, stop: str, error: str | None) -> None:
        """Make the log legal, show how open calls ended, and log the turn's end."""
        context = self.host.context
        if context.turn_from is None:
            return
        open_calls = {call.id: call for call in context.open_calls}
        closing = closing_events(context, "cancelled" if stop == "cancelled" else "interrupted", self._view_of)
        try:
            await self.host.append(*closing, TurnEnded(stop, error))
        finally:
            # Also where another process has taken the session over: what is open in the editor has to end there.
            for event in closing:
                if isinstance(event, ToolReturned):
                    await self.host.show(_failed_call(open_calls[event.result.call_id], event))

    async def _log_unasked(self, parts: tuple[UserPart, ...]) -> None:
        """Keep a prompt that was cancelled before it was logged: it is shown again, and the model never sees it."""
        if _says_anything(parts):
            await self.host.append(UserPrompted(new_id("msg"), parts, sent=()), TurnEnded("cancelled"))

    async def _left_out(self, error: ModelRequestError, turn_from: int | None) -> ModelRequestError:
        """Take a prompt that the provider refused out of the context: every request after it would be refused as well.

        A turn that had come further stays: what it has done is worth more.
        """
        said = [entry.message for entry in self.host.context.entries if entry.seq >= (turn_from or 0)]
        if turn_from is None or not said or not all(isinstance(message, UserMessage) for message in said):
            return error
        await self.host.append(TurnRefused(turn_from))
        return type(error)(
            f"{error} The prompt was left out of the conversation, so that the next one can be answered.",
            partial=error.partial,
        )

    def _view_of(self, call: ToolCall) -> CallView:
        return view_of(self._tools, call)

    async def _give_title(self, parts: tuple[UserPart, ...]) -> None:
        title = title_of(parts)
        if self.host.context.title is None and title is not None:
            await self.host.append(TitleChanged(title))
            await self.host.show(TitleUpdated(title))

    # --- settings ---

    async def options(self) -> tuple[Option, ...]:
        """The options as they stand, for menus."""
        host = self.host
        name = await host.models.name(host.context.model)
        return session_options(host.context, name, await host.models.choices())

    async def set_option(self, option_id: str, value: str) -> tuple[Option, ...]:
        """Change an option at once, also while a turn runs.

        :returns: all options.
        :raises InvalidParamsError: no such option or value.
        """
        event = change_event(await self.options(), option_id, value, self.host.models.knows)
        if event is not None:
            # What somebody else appended, a running turn must learn from its own next append.
            if self._running is None:
                await self.host.log.refresh()
            await self._change(event)
        return await self.options()

    async def _change(self, event: Event) -> None:
        mode = self.host.context.mode
        await self.host.append(event)
        context = self.host.context
        if context.mode != mode:
            await self.host.show(ModeUpdated(context.mode))
        await self.host.show(OptionsUpdated(await self.options()))

    # --- what an editor is told when it opens the session ---

    async def show_offers(self) -> None:
        """Send what may be chosen from: the slash commands. Editors forget them with every new, load and resume."""
        await self.host.show(CommandsUpdated((*commands(await self.host.library()), *BUILT_IN)))
        if self.host.context.title is not None:
            await self.host.show(TitleUpdated(self.host.context.title))
        await self.show_usage()

    async def show_usage(self) -> None:
        """Send how full the window is, where that is known: before the first answer there is nothing to tell."""
        if self.host.context.baseline:
            try:
                await self.host.show_usage()
            except AgentError as error:
                # Without a model there is no window to speak of; the next prompt will say what to set.
                _log.info("no usage to show for %s: %s", self.session_id, error)

    async def replay(self, events: AsyncIterator[LoggedEvent]) -> None:
        """Show the whole log."""
        async for update in replay(events, self._view_of):
            await self.host.show(update)


def _says_anything(parts: tuple[UserPart, ...]) -> bool:
    return any(not isinstance(part, Text) or part.text.strip() for part in parts)


def _failed_call(call: ToolCall, event: ToolReturned) -> CallFinished:
    # Without the result's text, which is for the model: what the call had printed stays on the screen.
    return CallFinished(call.id, call.name, event.view, call.arguments, "failed", ())
