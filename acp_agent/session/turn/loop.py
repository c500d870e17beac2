"""A question: `Questions` renders and logs what the model reads of a prompt; `TurnLoop` asks the model, runs the tools
and asks again, until it has answered or a limit is reached."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from acp_agent.conversation.events import UserPrompted
from acp_agent.conversation.messages import AssistantMessage, Text, UserPart, new_id
from acp_agent.conversation.updates import Show
from acp_agent.errors import AgentError, ContextOverflowError, ImageRefusedError
from acp_agent.hooks.outcomes import Outcome
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.mailbox import Mailbox, StopReason, Ticket
from acp_agent.session.project.commands import command_words, says_anything, text_of
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.mcp import SessionMcp
from acp_agent.session.project.models import ActiveModel
from acp_agent.session.project.recipe_run import RecipeRun
from acp_agent.session.project.recipes import SessionRecipes
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.settings import SessionOptions
from acp_agent.session.turn.answer import AnswerStream
from acp_agent.session.turn.calls import ToolCalls
from acp_agent.session.turn.record import TurnRecord
from acp_agent.session.turn.stop_hooks import StopHooks


@dataclass(eq=False, slots=True)
class Questions:
    """Puts the questions of one session."""

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

    _options: SessionOptions
    _questions: Questions
    _requests: Requests
    _compaction: SessionCompaction
    _answers: AnswerStream
    _calls: ToolCalls
    _stop_hooks: StopHooks
    _record: TurnRecord
    _show: Show

    async def run(self, ticket: Ticket, run: RecipeRun | None) -> StopReason:
        """Answer one question.

        :param run: the recipe that it names; None for a question as it was typed.
        :raises AgentError: why there is no answer.
        """
        async with self._questions.running(run):
            hooked = await self._questions.put(ticket, run)
            if hooked.blocks or hooked.stop is not None:
                return "end_turn"
            await self._record.give_title(ticket.parts)
            self._stop_hooks.begin()
            settings, before = self._options.settings, self._requests.context.cost
            steers = settings.prompts_while_working == "steer"
            stop: StopReason | None = None
            for step in range(settings.max_turn_requests):
                if steers and step and await self._questions.join():
                    stop = "end_turn"
                    break
                await self._answers.show_notices()  # also if the last answer broke off
                active = await self._compaction.before_request()
                request, asked = self._requests.request(active), self._requests.context
                try:
                    answer = await self._answers.ask(active, request)
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
                await self._answers.ask_to_continue()
        elif answer.stop_reason != "pause_turn" and not await self._stop_hooks.after(answer.text):
            return "end_turn"
        return None


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
