"""`Turn`: one prompt, from its first event in the log to the last.

A turn is either a slash command or a conversation with the model: call the model, run
its tool calls, repeat.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from acp_agent.conversation.events import ContextAdded, ContinuationAsked, TurnEnded
from acp_agent.conversation.messages import AssistantMessage, new_id
from acp_agent.conversation.updates import SaidKind
from acp_agent.errors import (
    AgentError,
    CompactionError,
    CompactionVetoedError,
    ConfigError,
    ContextOverflowError,
    InvalidParamsError,
    ModelAuthError,
    ModelError,
    ModelUnavailableError,
    RequestRefusedError,
    ToolError,
)
from acp_agent.hooks.outcomes import Compact, Continue, Outcome, Replace, Summarize
from acp_agent.session.commands import is_blank
from acp_agent.session.compact.turn_compaction import TurnCompaction
from acp_agent.session.mailbox import Mailbox, StopReason, Ticket
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.recipes.run import RecipeRun
from acp_agent.session.turn.commands import SlashCommand, resolve
from acp_agent.session.turn.parts import TurnParts
from acp_agent.session.turn.replacement import replace_context

GO_ON = (
    "Your last answer was cut off because the context window was full. The earlier part of the conversation has been "
    "compacted. Go on exactly where the answer stopped, and do not repeat what it says."
)
ANSWER = "Your last answer was empty: it contained no text and no tool call. Answer now, or continue the work."
_ASKED_AGAIN = "The model gave an empty answer. Asking it once more."
_NO_ANSWER = (
    "The model gave an empty answer twice. Prompt again, or choose another model."
)
_MAY_BE_TOO_LONG = (
    " Some servers do this when the conversation exceeds their context window. Set `context_window` in config.yaml to"
    " the server's window, or start the server with a larger one."
)
MAX_CONTINUES = 5
"""Maximum number of times that hooks may continue one prompt. This bounds the cost of a
hook that always continues.
"""

MAX_LEFT_OUT = 2
"""Maximum number of times in one turn that the model is called again after a step that
the provider refused was removed from the context. The next such step is removed too,
but then the turn fails, since the model keeps repeating the step.
"""


class Turn:
    """Answers one prompt.

    :param parts: the parts of the session.
    :param ticket: the prompt.
    :param mailbox: contains later prompts, which may join the turn.
    """

    def __init__(self, parts: TurnParts, ticket: Ticket, mailbox: Mailbox) -> None:
        self._parts = parts
        self._ticket = ticket
        self._mailbox = mailbox
        self._compaction = TurnCompaction(
            parts.requests, parts.notices, parts.compaction
        )
        self._recipe_run: RecipeRun | None = None
        self._continues = 0  # how often hooks have continued the prompt
        self._left_out = 0  # number of refused steps removed in this turn
        # Whether the model was asked again after an empty answer.
        self._has_nudged = False

    async def run(self) -> StopReason:
        """Run the turn to its end. However it ends, every call in the log has a result
        afterwards.

        :raises AgentError: if the prompt cannot be answered.
        """
        parts = self._parts
        parts.compaction.idle.end_pause()
        parts.recall.end_pause()
        try:
            async with parts.refused.closed_on_failure():
                stop = await self._respond()
            # Outside the `async with` block: if closing failed inside it, the turn would
            # be closed a second time.
            await parts.record.close(stop)
            return stop
        except (ModelAuthError, ConfigError):
            parts.options.is_stale = True  # the next turn reads the settings again
            raise
        except ModelError as error:
            # The error's message asks the user to change a setting, so the next turn reads
            # the settings again.
            is_size = isinstance(error, ContextOverflowError) or error.may_be_overflow
            parts.options.is_stale = parts.options.is_stale or is_size
            raise
        finally:
            parts.compaction.idle.begin_pause()
            parts.recall.begin_pause()

    async def _respond(self) -> StopReason:
        """Prepare the session for the prompt, and answer it."""
        record = self._parts.record
        await record.recover()
        if is_blank(self._ticket.parts):
            return "end_turn"
        if not await self._ask_trust():
            await record.keep_cancelled(self._ticket)
            return "cancelled"
        try:
            await self._reload_settings()
            resolved = await resolve(self._ticket.parts, self._parts, self._compaction)
        except Exception:
            await record.log_prompt(self._ticket, ())
            raise
        if isinstance(resolved, SlashCommand):
            await self._execute(resolved)
            return "end_turn"
        self._recipe_run = resolved
        async with self._recipe_applied():
            return await self._converse()

    # --- before the prompt ---

    async def _ask_trust(self) -> bool:
        """Show changes by another process, ask whether the project's code may run, and
        load its hooks.

        :returns: False if the user ended the turn instead of answering.
        """
        parts = self._parts
        await parts.options.show_missed()
        if not await parts.trust.settle():
            return False
        await parts.hooks.start()
        await parts.hooks.renew()
        return True

    async def _reload_settings(self) -> None:
        """Read the settings again if an earlier turn failed because of them, and tell
        the user which settings were ignored.

        Also drop a background summary that was begun with the former settings, or that
        a hook vetoed, so that the hook is asked again.

        :raises AgentError: if the settings are invalid.
        """
        parts = self._parts
        are_new = await parts.options.renew()
        if are_new:
            parts.compaction.background.drop()
        self._compaction.forget_veto()
        for notice in parts.requests.settings.notices:
            await parts.notices.tell_once(notice)

    @asynccontextmanager
    async def _recipe_applied(self) -> AsyncGenerator[None]:
        """Update the tools of the MCP servers, and apply the recipe's model, mode and
        hooks inside the `async with` block.
        """
        parts = self._parts
        run = self._recipe_run
        await parts.mcp.renew()
        async with parts.options.of_recipe(run.recipe if run else None):
            with parts.hooks.running(run):
                yield

    # --- a slash command ---

    async def _execute(self, command: SlashCommand) -> None:
        """Run a slash command, and show its answer or its failure."""
        record = self._parts.record
        if command.read_only:
            await record.show_accepted(self._ticket, new_id("msg"))
        else:
            await record.log_prompt(self._ticket, (), command.recipe_run)
        kind: SaidKind = "answer"
        try:
            with self._parts.hooks.running(command.recipe_run):
                text = await command.execute()
        except (InvalidParamsError, ToolError, CompactionError) as error:
            text = str(error)
            kind = "veto" if isinstance(error, CompactionVetoedError) else "failure"
        if text or command.read_only:
            await record.note(text, kind, logged=not command.read_only)

    # --- a conversation with the model ---

    async def _converse(self) -> StopReason:
        """Log the prompt, and call the model until its answer ends the turn."""
        parts = self._parts
        background = parts.compaction.background
        try:
            hooked = await parts.intake.add(self._ticket, self._recipe_run)
            if hooked.blocks or hooked.stop is not None:
                return "end_turn"
            stop = await self._call_until_done()
            # `cancelled` is returned if the user cancelled a permission dialog. The
            # open calls have no results yet, so keep a ready summary for the next turn.
            if stop != "cancelled":
                await self._compact_for_hook(after_turn=True)
                await self._compaction.use_ready_summary()
            return stop
        finally:
            background.note_turn_end()

    async def _call_until_done(self) -> StopReason:
        """Call the model and run its tool calls until an answer ends the turn, or one
        of the user's limits does.
        """
        requests = self._parts.requests
        settings = requests.settings
        cost_before = requests.context.cost
        for number in range(settings.max_turn_requests):
            is_steered = number > 0 and settings.prompts_while_working == "steer"
            if is_steered:
                is_ended_by_hook = await self._parts.intake.join(self._mailbox)
                if is_ended_by_hook:
                    return "end_turn"
            stop = await self._step()
            if stop is not None:
                return stop
            spent = requests.context.cost - cost_before
            if settings.max_turn_cost is not None and spent >= settings.max_turn_cost:
                break
        # ACP defines no stop reason for a cost limit.
        return "max_turn_requests"

    async def _step(self) -> StopReason | None:
        """Call the model once, and act on its answer.

        :returns: why the turn ends, or None to call the model again.
        """
        parts = self._parts
        await self._compact_for_hook(after_turn=False)
        active = await self._compaction.before_request()
        await parts.requests.tell_changes()
        background = parts.compaction.background
        background.note_model_call()
        on_answer = partial(background.note_answer, active, parts.requests)
        try:
            reply = await parts.answers.ask(active, on_answer)
        except ContextOverflowError as overflow:
            await self._compaction.after_overflow(active, overflow)
            return None
        except (RequestRefusedError, ModelUnavailableError) as error:
            if await self._compaction.after_unknown_error(active, error):
                return None
            is_refused = isinstance(error, RequestRefusedError)
            if is_refused and await self._leave_out_refused():
                return None
            raise
        # If the answer certainly ends the turn, write the answer and the end of the
        # turn in one transaction. `run` then finds the turn closed.
        ending = [TurnEnded("end_turn")] if self._ends_turn(reply.message) else []
        await parts.answers.log(active, reply, *ending)
        return await self._handle(reply.message, active, reply.explanation)

    async def _leave_out_refused(self) -> bool:
        """Remove from the context the messages that the provider refused in an earlier
        turn, or the newest step if it leads to the same refusal as a step that was
        removed earlier.

        If the provider has accepted all earlier turns, remove nothing.

        :returns: whether to call the model again.
        """
        refused = self._parts.refused
        if await refused.leave_out_refused():
            return True
        if not await refused.leave_out_repeated(again=self._left_out > 0):
            return False
        self._left_out += 1
        return self._left_out <= MAX_LEFT_OUT

    def _ends_turn(self, answer: AssistantMessage) -> bool:
        """Return whether the turn certainly ends with this answer.

        The answer must be final, no hook may act after it, and no summary may be ready
        to be swapped in.
        """
        is_ready = self._parts.compaction.background.state == "ready"
        has_text = bool(answer.text.strip())
        return (
            _is_whole(answer)
            and has_text
            and not self._parts.hooks.may_act
            and not is_ready
        )

    async def _handle(
        self, answer: AssistantMessage, active: ActiveModel, explanation: str
    ) -> StopReason | None:
        """Run the answer's tool calls or, after a final answer, the hooks.

        :param explanation: the provider's explanation if it refused and gave one; else
            empty.
        :returns: why the turn ends, or None to call the model again.
        """
        parts = self._parts
        if answer.stop_reason == "refusal":
            await parts.refused.leave_out_open_turn()
            await parts.refused.note_refusal(active.name, explanation)
            return "refusal"
        await parts.record.show_usage()
        if answer.tool_calls:
            return await parts.calls.run(
                answer.tool_calls, self._recipe_run.recipe if self._recipe_run else None
            )
        if _is_whole(answer):
            if not answer.text.strip() and await self._nudge(active):
                return None
            return None if await self._after_stop(answer.text) else "end_turn"
        if answer.stop_reason != "pause_turn":
            if not await self._compaction.after_cut(active, answer):
                return "max_tokens"
            if answer.text.strip():
                await parts.log.append(ContinuationAsked(new_id("msg"), GO_ON))
        return None

    async def _nudge(self, active: ActiveModel) -> bool:
        """Tell the user that an answer was empty, and ask the model once more if this
        is the prompt's first empty answer.

        :returns: whether to call the model again.
        """
        if self._has_nudged:
            text = _NO_ANSWER + (_MAY_BE_TOO_LONG if active.guessed else "")
            await self._parts.record.note(text, "failure")
            return False
        self._has_nudged = True
        await self._parts.notices.tell(_ASKED_AGAIN)
        await self._parts.log.append(ContinuationAsked(new_id("msg"), ANSWER))
        return True

    # --- hooks ---

    async def _compact_for_hook(self, *, after_turn: bool) -> None:
        """Run the compaction that a hook requested at an event at which it had to be
        postponed, if there is such a request.
        """
        wanted = self._parts.hooks.take_compaction()
        if wanted is not None:
            await self._compaction.compact_for_hook(wanted, after_turn=after_turn)

    async def _after_stop(self, response: str) -> bool:
        """Run the hooks for a final answer. Return whether to call the model again."""
        hooks = self._parts.hooks
        record = self._parts.record
        for dispatch in (hooks.turn_end, hooks.agent_stop):
            outcome = await dispatch(response)
            try:
                await self._do(outcome)
            except AgentError as error:
                # The model has answered, so the failure of a hook's action does not
                # fail the turn.
                await record.note(f"A hook's request failed. {error}", "note")
            if outcome.stop is not None:
                await record.note(
                    f"A hook ended the turn. {outcome.stop}".rstrip(), "veto"
                )
                return False
            await hooks.add(outcome.context)
            if dispatch == hooks.agent_stop and isinstance(outcome.action, Compact):
                return False  # compacting ends the turn, even if another hook wants the agent to continue
            if await self._continue(outcome):
                return True
        return False

    async def _do(self, outcome: Outcome) -> None:
        """Carry out the action that a hook requested after an answer."""
        parts = self._parts
        match outcome.action:
            case Compact():
                await self._compaction.compact_for_hook(outcome.action)
            case Summarize():
                summary = await self._compaction.summary(outcome.action.instructions)
                if summary:
                    await parts.record.note(summary, "note")
            case Replace():
                parts.compaction.background.drop()
                await replace_context(
                    outcome.action.messages,
                    parts.log,
                    parts.requests,
                    parts.client.show,
                )
            case _:
                pass

    async def _continue(self, outcome: Outcome) -> bool:
        """Append the messages with which a hook continues the prompt. Return whether
        the prompt continues.
        """
        messages = (
            list(outcome.action.messages)
            if isinstance(outcome.action, Continue)
            else []
        )
        if outcome.blocks:
            messages.append(
                outcome.reason or "A hook does not want you to stop yet. Go on."
            )
        if not messages:
            return False
        if self._continues == MAX_CONTINUES:
            last = f" The last objection: {outcome.reason}" if outcome.blocks else ""
            text = f"Hooks have let the agent go on {MAX_CONTINUES} times for this prompt; it ends here.{last}"
            await self._parts.record.note(text, "veto")
            return False
        self._continues += 1
        await self._parts.log.append(
            *(ContextAdded(new_id("msg"), message) for message in messages)
        )
        return True


def _is_whole(answer: AssistantMessage) -> bool:
    """Return whether an answer is final: it has no tool calls and was not cut off."""
    is_broken_off = answer.stop_reason in (
        "refusal",
        "max_tokens",
        "context_overflow",
        "pause_turn",
    )
    return not (answer.tool_calls or is_broken_off)
