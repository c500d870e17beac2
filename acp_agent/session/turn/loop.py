"""A prompt for the model: `PromptSubmitter` renders and logs it; `TurnLoop` asks the model, saves and shows the answer
as it comes, runs the tools and asks again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from acp_agent.conversation.events import AssistantAnswered, ContinuationAsked, PartialAnswer, UserPrompted
from acp_agent.conversation.messages import AssistantMessage, AssistantPart, Text, ToolCall, UserPart, new_id
from acp_agent.conversation.updates import AgentSaid, AgentThought, Notice, Show
from acp_agent.errors import AgentError, ContextOverflowError, ImageRefusedError, ModelStreamError
from acp_agent.hooks.outcomes import Outcome
from acp_agent.llm.provider import Answered, ModelRequest, Retrying, TextDelta, ThinkingDelta
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.log import SessionLog
from acp_agent.session.mailbox import Mailbox, StopReason, Ticket
from acp_agent.session.notices import Notices
from acp_agent.session.project.commands import command_words, says_anything, text_of
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.mcp import SessionMcp
from acp_agent.session.project.models import ActiveModel
from acp_agent.session.project.recipe_run import RecipeRun
from acp_agent.session.project.recipes import SessionRecipes
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.settings import SessionOptions
from acp_agent.session.turn.answer import StopHooks, ToolCalls
from acp_agent.session.turn.record import TurnRecord

GATHER_SECONDS = 0.03
"""How long deltas are gathered behind something that was shown, so that they are saved and shown together."""
MAX_WAITING = 2_048
"""Deltas that may wait to be shown; the model is read no further while an editor takes no more."""
GO_ON = (
    "Your last answer was cut off because the context window was full. The earlier part of the conversation has been "
    "compacted. Go on exactly where the answer stopped, and do not repeat what it says."
)

Delta: TypeAlias = TextDelta | ThinkingDelta


@dataclass(eq=False, slots=True)
class PromptSubmitter:
    """Renders the prompts of one session, runs their hooks and logs them."""

    _requests: Requests
    _mcp: SessionMcp
    _recipes: SessionRecipes
    _hooks: SessionHooks
    _options: SessionOptions
    _mailbox: Mailbox
    _record: TurnRecord

    @asynccontextmanager
    async def running(self, run: RecipeRun | None) -> AsyncGenerator[None]:
        """Take the tools of the MCP servers as they are now, and apply a recipe's model, mode and hooks."""
        await self._mcp.renew()
        async with self._options.of_recipe(run.recipe if run else None):
            with self._hooks.running(run):
                yield

    async def put(self, ticket: Ticket, run: RecipeRun | None = None, *, steers: bool = False) -> Outcome:
        """Put a prompt to the model, unless a hook does not want that.

        :param run: the recipe that it names; None for a question as it was typed.
        :param steers: whether it joins a turn that runs.
        :returns: what the hooks answered.
        :raises AgentError: no model is set, the recipe is broken, or an attachment cannot be sent.
        """
        try:
            sent, hooked = await self._prepare(ticket.parts, run)
        except AgentError:
            # The prompt is kept outside of the context, so that it can be sent again unchanged.
            await self._record.take(ticket, prompted(ticket.parts, (), run, steers=steers))
            raise
        refused = hooked.blocks or hooked.stop is not None
        await self._record.take(ticket, prompted(ticket.parts, () if refused else sent, run, steers=steers))
        if refused:
            why = hooked.stop or hooked.reason
            await self._record.note(f"A hook kept this prompt from the model. {why}".rstrip(), apart=steers)
        else:
            await self._hooks.add(hooked.context)
        return hooked

    async def join(self) -> bool:
        """Put the prompts that have come since the last answer; return whether a hook has ended the turn.

        Commands and recipes have turns of their own, and a prompt behind one of those waits with it.
        """
        while (ticket := self._mailbox.join(_may_join)) is not None:
            try:
                hooked = await self.put(ticket, steers=True)
            except anyio.get_cancelled_exc_class():
                if not ticket.message_id:
                    with anyio.CancelScope(shield=True):
                        await self._record.take(ticket, prompted(ticket.parts, (), steers=True))
                raise
            except AgentError as error:
                if not ticket.message_id:
                    raise  # the log takes nothing, which ends the turn
                ticket.answer(error)  # the turn is about more than this: it is answered as in a turn of its own
            else:
                if hooked.stop is not None:
                    return True
        return False

    async def _prepare(
        self, parts: tuple[UserPart, ...], run: RecipeRun | None
    ) -> tuple[tuple[UserPart, ...] | None, Outcome]:
        """Return what the model reads in a prompt's place, None for the prompt itself, and what the hooks answered."""
        active = await self._requests.active()
        if run is None:
            sent = await self._mcp.sent(parts)
        else:
            text = Text(await self._recipes.render(run))
            sent = (text, *run.attachments, *await self._mcp.resources(parts))
        await active.attachments.check(parts if sent is None else sent, active.profile, active.name)
        hooked = await self._hooks.user_message(text_of(sent or parts))
        if hooked.message is not None:
            others = (part for part in sent or parts if not isinstance(part, Text))
            sent = (Text(hooked.message), *others)
        return sent, hooked


@dataclass(eq=False, slots=True)
class TurnLoop:
    """Answers the questions of one session. The caller closes the log if a turn fails or is cancelled."""

    _log: SessionLog
    _options: SessionOptions
    _submitter: PromptSubmitter
    _requests: Requests
    _compaction: SessionCompaction
    _calls: ToolCalls
    _stop_hooks: StopHooks
    _record: TurnRecord
    _notices: Notices
    _show: Show

    async def run(self, ticket: Ticket, run: RecipeRun | None) -> StopReason:
        """Answer one question.

        :param run: the recipe that it names; None for a question as it was typed.
        :raises AgentError: why there is no answer.
        """
        async with self._submitter.running(run):
            hooked = await self._submitter.put(ticket, run)
            if hooked.blocks or hooked.stop is not None:
                return "end_turn"
            await self._record.titles.take(ticket.parts)
            self._stop_hooks.begin()
            settings, before = self._options.settings, self._requests.context.cost
            steers = settings.prompts_while_working == "steer"
            stop: StopReason | None = None
            for step in range(settings.max_turn_requests):
                if steers and step and await self._submitter.join():
                    stop = "end_turn"
                    break
                await self._show_notices()  # also if the last answer broke off
                active = await self._compaction.before_request()
                request, asked = self._requests.request(active), self._requests.context
                try:
                    answer = await self._ask(active, request)
                except ImageRefusedError as error:
                    # Every later request would be refused for it as well.
                    if error.partial or not active.attachments.leave_out(request, active.profile):
                        raise
                    continue
                except ContextOverflowError as refusal:
                    await self._compaction.after_refusal(active, refusal)
                    continue
                self._requests.learn_answer(active, answer, asked)
                stop = await self._act_on(answer, active, run)
                spent = self._requests.context.cost - before
                if stop is not None or (settings.max_turn_cost is not None and spent >= settings.max_turn_cost):
                    break
            # A cancelled turn's open calls have no results yet; the next turn uses a summary that is ready.
            if stop != "cancelled":
                await self._compaction.end_turn()
            return stop or "max_turn_requests"

    async def _act_on(self, answer: AssistantMessage, active: ActiveModel, run: RecipeRun | None) -> StopReason | None:
        """Do what an answer asks for; return why the turn ends, or None if the model is to be asked again."""
        if answer.stop_reason == "refusal":
            await self._record.leave_out_open_turn()
            return "refusal"
        await self._show(await self._requests.usage())
        if answer.tool_calls:
            return await self._calls.run(answer.tool_calls, run.recipe if run else None)
        if answer.stop_reason in ("max_tokens", "context_overflow"):
            if not await self._compaction.after_cut(active, answer):
                return "max_tokens"
            if answer.text.strip():
                await self._log.append(ContinuationAsked(new_id("msg"), GO_ON))
        elif answer.stop_reason != "pause_turn" and not await self._stop_hooks.after(answer.text):
            return "end_turn"
        return None

    async def _ask(self, active: ActiveModel, request: ModelRequest) -> AssistantMessage:
        """Ask the model once and append its answer to the log.

        However this ends, what streamed is in the log, and the user has seen it.

        :returns: the answer as appended; its calls have our own ids, and it has none if it was cut off.
        :raises ModelError: see `Provider.stream`.
        """
        answered, ended, message_id = None, anyio.Event(), new_id("msg")
        send, receive = anyio.create_memory_object_stream[Delta](MAX_WAITING)
        whole = await active.resolved(request)
        self._notices.streaming = True
        try:
            stream = active.provider.stream(whole)
            async with receive, anyio.create_task_group() as tasks, send, aclosing(stream):
                tasks.start_soon(self._save_and_show, message_id, receive, ended)
                try:
                    async for event in stream:
                        if isinstance(event, TextDelta | ThinkingDelta):
                            try:
                                send.send_nowait(event)  # `send` yields to other tasks each time, which takes 10 µs
                            except anyio.WouldBlock:
                                await send.send(event)
                        elif isinstance(event, Retrying) and event.delay:
                            await self._show(Notice("warning", f"{event.reason}. Trying again in {event.delay:.1f} s."))
                        elif isinstance(event, Answered):
                            answered = event
                finally:
                    ended.set()  # what is left is saved at once, also where this is cancelled
        except ExceptionGroup as failures:
            error, partial = _first(failures), self._log.context.partial
            if not isinstance(error, ContextOverflowError) or partial is None or not partial.text.strip():
                raise error from None
            message = AssistantMessage(message_id, (Text(partial.text),), active.name, "context_overflow")
        else:
            if answered is None:
                raise ModelStreamError(
                    "The model's answer ended without an end. What arrived is kept; prompt again to go on."
                )
            parts = _own_parts(answered)
            message = AssistantMessage(message_id, parts, active.name, answered.stop_reason, answered.usage)
        await self._log.append(AssistantAnswered(message))
        await self._show_notices()
        return message

    async def _save_and_show(
        self, message_id: str, receive: MemoryObjectReceiveStream[Delta], ended: anyio.Event
    ) -> None:
        """Save what arrives, then show it, so that nothing is on the screen that a kill could lose."""
        # A cancel in between would leave it saved and never seen. It ends with the stream.
        with anyio.CancelScope(shield=True):
            async for delta in receive:
                waiting = receive.statistics().current_buffer_used
                deltas = [delta, *(receive.receive_nowait() for _ in range(waiting))]
                text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
                thinking = "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))
                await self._log.append(PartialAnswer(message_id, text, thinking))
                for kind, neighbours in groupby(deltas, type):
                    joined = "".join(delta.text for delta in neighbours)
                    update = AgentSaid if kind is TextDelta else AgentThought
                    await self._show(update(message_id, joined))
                with anyio.move_on_after(GATHER_SECONDS):
                    await ended.wait()

    async def _show_notices(self) -> None:
        """Show the notices that waited for the end of an answer."""
        self._notices.streaming = False
        await self._notices.flush()


def prompted(
    parts: tuple[UserPart, ...],
    sent: tuple[UserPart, ...] | None,
    run: RecipeRun | None = None,
    *,
    steers: bool = False,
) -> UserPrompted:
    """Return the event of a prompt, with the version of the recipe that it runs."""
    name, digest = (run.recipe.name, run.recipe.digest) if run is not None else ("", "")
    return UserPrompted(new_id("msg"), parts, sent, name, digest, steers=steers)


def _may_join(ticket: Ticket) -> bool:
    return not ticket.cancelled and says_anything(ticket.parts) and command_words(ticket.parts) is None


def _own_parts(answered: Answered) -> tuple[AssistantPart, ...]:
    """Return the parts with ids of ours; without calls if the answer was cut off, since the last may be incomplete."""
    cut_off = answered.stop_reason in ("max_tokens", "context_overflow", "refusal")
    return tuple(
        replace(part, id=new_id("call")) if isinstance(part, ToolCall) else part
        for part in answered.parts
        if not (cut_off and isinstance(part, ToolCall))
    )


def _first(failure: Exception) -> Exception:
    """Return the failure of a task group in which only one task can fail before the others are cancelled."""
    while isinstance(failure, ExceptionGroup):
        failure = cast("ExceptionGroup[Exception]", failure).exceptions[0]
    return failure
