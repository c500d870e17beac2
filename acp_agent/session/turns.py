"""`SessionTurns`: one prompt, from its first event in the log to the last.

It knows which prompts are commands, recipes or questions to the model, and keeps the log legal however a turn ends. It
knows nothing of prompts that wait, and is cancelled from outside.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from acp_agent.conversation.closing import closing_events
from acp_agent.conversation.events import (
    CallView,
    Event,
    NoteAdded,
    TitleChanged,
    ToolReturned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import Text, ToolCall, UserMessage, UserPart, new_id
from acp_agent.errors import AgentError, CompactionError, ConfigError, ModelAuthError, ModelRequestError, sentence
from acp_agent.session.commands import (
    REPORTS,
    UNDO,
    RecipeRun,
    builtin_command,
    command_words,
    compaction_word,
    recipe_run,
    turn_limits,
    unused_by_compaction,
)
from acp_agent.session.going_on import GoingOn
from acp_agent.session.host import SessionHost
from acp_agent.session.mailbox import StopReason, Ticket
from acp_agent.session.steering import Steering, says_anything, text_of
from acp_agent.session.titles import title_of
from acp_agent.tools.text import one_line
from acp_agent.turn.calls import view_of
from acp_agent.turn.host import TurnLimits
from acp_agent.turn.loop import run_turn
from acp_agent.turn.updates import AgentSaid, CallFinished, CallStatus, PromptTaken, TitleUpdated

if TYPE_CHECKING:
    from acp_agent.session.builtin import SetOption


class SessionTurns:
    """Answers the prompts of one session, one at a time.

    :param host: its log, client and settings.
    :param set_option: changes an option of the session, as an editor's menu does.
    :param steering: what joins the turn that runs.
    """

    def __init__(self, host: SessionHost, set_option: SetOption, steering: Steering) -> None:
        self._host = host
        self._set_option = set_option
        self._steering = steering
        self._ticket = Ticket(())

    async def answer(self, ticket: Ticket) -> StopReason:
        """Run one prompt to its end. However it ends, and also where it is cancelled, the log is legal afterwards.

        :raises AgentError: why there is no answer.
        """
        self._ticket = ticket
        self._host.trace = ticket.trace
        async with self._host.telling.turn():
            return await self._answer(ticket)

    async def _answer(self, ticket: Ticket) -> StopReason:
        prompted = self._host.context.prompted
        try:
            await self._open_turn()
            await self._host.loading.load()
            if says_anything(ticket.parts) and not ticket.cancelled and not await self._host.trust.settle():
                await self._log_unasked(ticket.parts)
                return "cancelled"
            await self._host.hooks.start()
            await self._host.hooks.renew()
            if ticket.cancelled:
                await self._log_unasked(ticket.parts)
                return "cancelled"
            if not says_anything(ticket.parts):
                return "end_turn"
            stop = await self._run(ticket.parts)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._close_turn("cancelled", None)
                if self._host.context.prompted == prompted:
                    await self._log_unasked(ticket.parts)
            raise
        except ModelRequestError as error:
            context = self._host.context
            # The newest prompt of the turn, where one has joined it.
            newest = None if context.turn_from is None else max(context.turn_from, context.prompted)
            await self._close_turn("error", str(error))
            raise await self._left_out(error, newest) from error
        except AgentError as error:
            if isinstance(error, ModelAuthError | ConfigError):
                self._host.renewing.doubt()
            await self._close_turn("error", str(error))
            raise
        except Exception as error:
            await self._close_turn("error", f"{type(error).__name__} inside the agent")
            raise
        # Not above, where its failure would close the turn once more.
        await self._close_turn(stop, None)
        return stop

    async def _open_turn(self) -> None:
        """Catch up with the log, and close what a killed process left open in it."""
        await self._host.log.refresh()
        if self._host.context.turn_from is not None:
            closing = closing_events(self._host.context, "interrupted", self.view_of)
            await self._host.append(*closing, TurnEnded("interrupted"), await self._host.read_instructions())

    async def _run(self, parts: tuple[UserPart, ...]) -> StopReason:
        host = self._host
        try:
            await host.renewing.renew()
            host.compaction.begin_turn()
            await host.models.begin_turn()
            host.recipes.invalidate()
            # Only who names a recipe waits for them.
            run = recipe_run(await host.recipes.library(), parts) if command_words(parts) else None
        except Exception:
            # Whatever is wrong with the settings or the recipes, the prompt is kept.
            await self._take(UserPrompted(new_id("msg"), parts, sent=()))
            raise
        if run is not None and (run := await self._completed(run, parts)) is None:
            return "end_turn"
        if run is not None and run.compacts:
            with host.hooks.running(run):
                return await self._compact(run, parts)
        builtin = builtin_command(parts) if run is None else None
        if builtin is not None:
            return await self._run_builtin(builtin, parts)
        async with host.run.of(run.recipe if run else None):
            with host.hooks.running(run):
                return await self._ask_model(run, parts)

    async def _completed(self, run: RecipeRun, parts: tuple[UserPart, ...]) -> RecipeRun | None:
        """The run with what was missing of its arguments, where the user can be asked for that; None where they have
        not given it, which ends the turn."""
        from acp_agent.recipes.arguments import missing_arguments

        missing = missing_arguments(run.recipe, run.arguments)
        if not missing:
            return run
        from acp_agent.session.missing import described, missing_values

        command = f"/{run.recipe.command}"
        wanted = [(argument.name, argument.description) for argument in missing]
        try:
            values = await missing_values(self._host.client.questions, command, wanted)
        except AgentError:
            await self._take(_prompted(parts, (), run))
            raise
        if values == "not asked":
            if self._host.client.questions.asks == "nothing":  # a program, which is to be told by an error
                return run
            await self._take(_prompted(parts, (), run))
            await self._note(f"`{command}` was not run: it needs {described(command, wanted)}")
            return None
        if values == "not given":
            await self._take(_prompted(parts, (), run))
            names = ", ".join(f"`{name}`" for name, _ in wanted)
            await self._note(f"`{command}` was not run: it needs {names}, which you have not given.")
            return None
        return replace(run, arguments={**run.arguments, **values})

    async def _run_builtin(self, command: tuple[str, str], parts: tuple[UserPart, ...]) -> StopReason:
        from acp_agent.session.builtin import only_tells, run_builtin

        if only_tells(*command):
            await self._taken(new_id("msg"), parts)
            await self._host.show(AgentSaid(new_id("msg"), await run_builtin(self._host, *command, self._set_option)))
        else:
            await self._take(UserPrompted(new_id("msg"), parts, sent=()))
            await self._note(await run_builtin(self._host, *command, self._set_option))
        return "end_turn"

    async def _ask_model(self, run: RecipeRun | None, parts: tuple[UserPart, ...]) -> StopReason:
        host = self._host
        try:
            active = await host.models.active(host.model)
            await host.mcp.renew()
            if run is None:
                sent = await host.mcp.sent(parts)
            else:
                text = Text(await run.rendered(around=host.surroundings(run.recipe)))
                sent = (text, *run.attachments, *await host.mcp.resources(parts))
            await host.attachments.check(parts if sent is None else sent, active.profile, active.name)
        except AgentError:
            # No model is set, the recipe is broken, or the model cannot be given what is attached. The prompt is kept,
            # but does not enter the context: it can be sent again unchanged.
            await self._take(_prompted(parts, (), run))
            raise
        hooked = await host.hooks.user_message(text_of(sent or parts))
        if hooked.blocks or hooked.stop is not None:
            await self._take(_prompted(parts, (), run))
            await self._note(f"A hook kept this prompt from the model. {hooked.stop or hooked.reason}".rstrip())
            return "end_turn"
        if hooked.message is not None:
            others = (part for part in sent or parts if not isinstance(part, Text))
            sent = (Text(hooked.message), *others)
        await self._take(_prompted(parts, sent, run))
        await host.hooks.add(hooked.context)
        await self._give_title(parts)
        stop = await self._work(turn_limits(host.settings, run))
        if stop != "cancelled":  # its open calls have no results yet; the next turn takes what is ready
            await host.compact_for_hooks()
            await host.compaction.end_turn()
        return stop

    async def _work(self, limits: TurnLimits) -> StopReason:
        """Run the model and its tools, and again for as long as hooks want to go on."""
        going_on = GoingOn(self._host, partial(self._note, apart=True))
        while True:
            spent_before = self._host.context.cost
            result = await run_turn(self._host, self._host.tools, limits, self._join)
            if result.stopped is not None:
                await self._note(f"A hook ended the turn. {result.stopped}".rstrip(), apart=True)
            elif result.stop_reason == "end_turn" and result.answer is not None:
                limits = limits.less(result.requests, self._host.context.cost - spent_before)
                if await going_on.after(result.answer.text):
                    continue
            return result.stop_reason

    async def _compact(self, run: RecipeRun, parts: tuple[UserPart, ...]) -> StopReason:
        word, rest = compaction_word(run)
        if word in REPORTS or (word and rest):
            from acp_agent.session.builtin import report

            # Not logged: who asks what would change must not find that something did.
            await self._taken(new_id("msg"), parts)
            await self._host.show(
                AgentSaid(new_id("msg"), await report(self._host, word, replace(run, instructions=rest)))
            )
            return "end_turn"
        await self._take(_prompted(parts, (), None if word == UNDO else run))
        if unused := unused_by_compaction(parts):
            command = f"/{run.recipe.command}"
            await self._note(
                f"Not used: {', '.join(map(one_line, unused))}. Only the words and addresses behind `{command}` say "
                "what a summary is to keep."
            )
        try:
            if word == UNDO:
                from acp_agent.session.builtin import undo_compaction

                await self._note(await undo_compaction(self._host))
            elif not await self._host.compaction.compact(run):
                await self._note("There is nothing to compact yet.")
        except CompactionError as error:
            await self._note(str(error))
        return "end_turn"

    async def _join(self) -> str | None:
        return await self._steering.join(partial(self._note, apart=True))

    async def _note(self, text: str, *, apart: bool = False) -> None:
        """Tell the user something that stays in the session.

        :param apart: whether answers of the model stand beside it: some editors join all messages of a turn.
        """
        message_id = new_id("msg")
        await self._host.append(NoteAdded(message_id, text))
        await self._host.show(AgentSaid(message_id, f"\n\n{text}\n\n" if apart else text))

    async def _close_turn(self, stop: str, error: str | None) -> None:
        """Make the log legal, show how open calls ended, and log the turn's end."""
        context = self._host.context
        if context.turn_from is None:
            return
        open_calls = {call.id: call for call in context.open_calls}
        reason = "cancelled" if stop == "cancelled" else "interrupted"
        closing = closing_events(context, reason, self.view_of, self._host.begun)
        # Also for an editor that does not read for a while: who shows something waits, until the connection ends.
        with anyio.CancelScope(shield=True):
            try:
                await self._host.append(*closing, TurnEnded(stop, error))
            finally:
                # Also where another process has taken the session over: what is open in the editor has to end there.
                for event in closing:
                    if isinstance(event, ToolReturned):
                        await self._host.show(_open_call(open_calls[event.result.call_id], event, stop))

    async def _log_unasked(self, parts: tuple[UserPart, ...]) -> None:
        """Keep a prompt that was cancelled before it was logged: it is shown again, and the model never sees it."""
        if says_anything(parts) and not self._ticket.provisional:
            await self._take(UserPrompted(new_id("msg"), parts, sent=()), TurnEnded("cancelled"))

    async def _take(self, prompted: UserPrompted, *more: Event) -> None:
        """Give the prompt its place in the conversation."""
        await self._host.append(prompted, *more)
        await self._taken(prompted.message_id, prompted.shown)

    async def _taken(self, message_id: str, parts: tuple[UserPart, ...]) -> None:
        self._ticket.take(message_id)
        # A cancel that comes now is too late: who sent it is told that it has its place.
        with anyio.CancelScope(shield=True):
            await self._host.show(PromptTaken(message_id, parts))

    async def _left_out(self, error: ModelRequestError, prompted: int | None) -> ModelRequestError:
        """Take a prompt that the provider refused out of the context: every request after it would be refused as well.

        A turn that had come further stays: what it has done is worth more.
        """
        said = [entry.message for entry in self._host.context.entries if entry.seq >= (prompted or 0)]
        if prompted is None or not said or not all(isinstance(message, UserMessage) for message in said):
            return error
        await self._host.leave_out(prompted)
        return type(error)(
            f"{sentence(error)} The prompt was left out of the conversation, so that the next one can be answered.",
            partial=error.partial,
        )

    def view_of(self, call: ToolCall) -> CallView:
        """What an editor shows of a call."""
        return view_of(self._host.tools, call)

    async def _give_title(self, parts: tuple[UserPart, ...]) -> None:
        title = title_of(parts)
        if self._host.context.title is None and title is not None:
            await self._host.append(TitleChanged(title))
            await self._host.show(TitleUpdated(title))
            self._host.naming.wanted(parts)


def _prompted(parts: tuple[UserPart, ...], sent: tuple[UserPart, ...] | None, run: RecipeRun | None) -> UserPrompted:
    """A prompt with the version of the recipe that it ran."""
    name, digest = (run.recipe.name, run.recipe.digest) if run is not None else ("", "")
    return UserPrompted(new_id("msg"), parts, sent, name, digest)


def _open_call(call: ToolCall, event: ToolReturned, stop: str) -> CallFinished:
    status: CallStatus = "cancelled" if stop == "cancelled" else "failed"
    # Without the result's text, which is for the model: what the call had printed stays on the screen.
    return CallFinished(call.id, call.name, event.view, call.arguments, status, ())
