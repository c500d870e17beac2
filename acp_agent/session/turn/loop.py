"""`TurnLoop`: runs one turn: call the model, run its tool calls, repeat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from acp_agent.conversation.events import ContextAdded, ContinuationAsked
from acp_agent.conversation.messages import AssistantMessage, new_id
from acp_agent.errors import AgentError, ContextOverflowError, RequestRefusedError
from acp_agent.hooks.outcomes import Compact, Continue, Outcome, Replace, Summarize
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.log import SessionLog
from acp_agent.session.mailbox import Mailbox, StopReason, Ticket
from acp_agent.session.notices import Notices
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.models import ActiveModel
from acp_agent.session.project.recipe_run import RecipeRun
from acp_agent.session.project.requests import Requests
from acp_agent.session.turn.answer import AnswerStream
from acp_agent.session.turn.calls import ToolCalls
from acp_agent.session.turn.prompt import PromptIntake
from acp_agent.session.turn.record import TurnRecord

GO_ON = (
    "Your last answer was cut off because the context window was full. The earlier part of the conversation has been "
    "compacted. Go on exactly where the answer stopped, and do not repeat what it says."
)
ANSWER = "Your last answer was empty: it had no text and no call of a tool. Answer now, or go on with the work."
_ASKED_AGAIN = "The model gave no answer; it is asked once more."
_NO_ANSWER = "The model gave no answer, also when it was asked again. Prompt again, or choose another model."
_MAY_BE_TOO_LONG = (
    " Some servers do so when the conversation is longer than their context: set `context_window` in config.yaml to the"
    " size of the server's, or start the server with a larger one."
)
MAX_CONTINUES = 5
"""How often hooks may continue one prompt. This bounds the cost of a hook that always continues."""


@dataclass(eq=False, slots=True)
class TurnLoop:
    """Answers the prompts of one session. The caller closes the turn if it fails or is cancelled."""

    _requests: Requests
    _intake: PromptIntake
    _compaction: SessionCompaction
    _answers: AnswerStream
    _handler: AnswerHandler

    async def run(self, ticket: Ticket, recipe_run: RecipeRun | None, mailbox: Mailbox) -> StopReason:
        """Answer one prompt.

        :param recipe_run: the run of the recipe that the prompt names; None for an ordinary prompt.
        :param mailbox: holds the prompts that may join the turn.
        :raises AgentError: if the prompt cannot be answered.
        """
        try:
            return await self._run(ticket, recipe_run, mailbox)
        finally:
            self._compaction.background.go_on()

    async def _run(self, ticket: Ticket, recipe_run: RecipeRun | None, mailbox: Mailbox) -> StopReason:
        hooked = await self._intake.add(ticket, recipe_run)
        if hooked.blocks or hooked.stop is not None:
            return "end_turn"
        settings, before = self._requests.settings, self._requests.context.cost
        self._handler.begin()
        stop: StopReason | None = None
        for step in range(settings.max_turn_requests):
            if step and settings.prompts_while_working == "steer" and await self._intake.join(mailbox):
                stop = "end_turn"
                break
            await self._handler.compact_for_hook(turn_over=False)
            active = await self._compaction.before_request()
            await self._requests.tell_changes()
            background = self._compaction.background
            background.give_way()
            begins = partial(background.turn_answered, active, self._requests)
            try:
                answer, explanation = await self._answers.ask(active, self._handler.is_last, begins)
            except ContextOverflowError as refusal:
                await self._compaction.after_refusal(active, refusal)
                continue
            except RequestRefusedError:
                if await self._handler.leave_out_refused():
                    continue
                raise
            stop = await self._handler.handle(answer, active, recipe_run, explanation)
            spent = self._requests.context.cost - before
            if stop is not None or (settings.max_turn_cost is not None and spent >= settings.max_turn_cost):
                break
        # The open calls of a cancelled turn have no results yet, so leave a ready summary to the next turn.
        if stop != "cancelled":
            await self._handler.compact_for_hook()
            await self._compaction.use_ready_summary()
        return stop or "max_turn_requests"


@dataclass(eq=False, slots=True)
class AnswerHandler:
    """Handles the model's answers: runs their tool calls, and consults hooks after a final answer."""

    _log: SessionLog
    _hooks: SessionHooks
    _compaction: SessionCompaction
    _calls: ToolCalls
    _record: TurnRecord
    _notices: Notices
    _continues: int = 0
    _has_nudged: bool = False  # whether the model was asked again after an empty answer

    def begin(self) -> None:
        """Reset the counters for a new prompt."""
        self._continues = 0
        self._has_nudged = False

    async def leave_out_refused(self) -> bool:
        """Leave out the part of the context that the provider refused twice. Return whether there was one."""
        return await self._record.leave_out_refused()

    async def compact_for_hook(self, *, turn_over: bool = True) -> None:
        """Compact if a hook asked for it at an event at which compacting was not possible."""
        if (wanted := self._hooks.take_compaction()) is not None:
            await self._compaction.for_hook(wanted, turn_over=turn_over)

    def is_last(self, answer: AssistantMessage) -> bool:
        """Return whether the turn ends with this answer.

        It does if the answer is final, no hook may act after it, and no summary is ready to be swapped in.
        """
        is_ready = self._compaction.background.state == "ready"
        return _is_whole(answer) and bool(answer.text.strip()) and not self._hooks.may_act and not is_ready

    async def handle(
        self, answer: AssistantMessage, active: ActiveModel, recipe_run: RecipeRun | None, explanation: str
    ) -> StopReason | None:
        """Handle an answer. Return why the turn ends, or None to call the model again.

        :param explanation: the provider's explanation if it refused and gave one; else empty.
        """
        if answer.stop_reason == "refusal":
            await self._record.leave_out_open_turn()
            await self._record.note_refusal(active.name, explanation)
            return "refusal"
        await self._record.show_usage()
        if answer.tool_calls:
            return await self._calls.run(answer.tool_calls, recipe_run.recipe if recipe_run else None)
        if _is_whole(answer):
            if not answer.text.strip() and await self._nudge(active):
                return None
            return None if await self._after_stop(answer.text) else "end_turn"
        if answer.stop_reason != "pause_turn":
            if not await self._compaction.after_cut(active, answer):
                return "max_tokens"
            if answer.text.strip():
                await self._log.append(ContinuationAsked(new_id("msg"), GO_ON))
        return None

    async def _nudge(self, active: ActiveModel) -> bool:
        """Tell the user that an answer was empty, and have the model called again, once per prompt.

        :returns: whether the model is to be called again.
        """
        if self._has_nudged:
            text = _NO_ANSWER + (_MAY_BE_TOO_LONG if active.guessed else "")
            await self._record.note(text, "failure", apart=True)
            return False
        self._has_nudged = True
        await self._notices.tell(_ASKED_AGAIN)
        await self._log.append(ContinuationAsked(new_id("msg"), ANSWER))
        return True

    async def _after_stop(self, response: str) -> bool:
        """Run the hooks for a final answer. Return whether the model is to be called again."""
        for ask in (self._hooks.turn_end, self._hooks.agent_stop):
            outcome = await ask(response)
            try:
                await self._do(outcome)
            except AgentError as error:
                # The model has answered, so the failure of a hook's action does not fail the turn.
                await self._record.note(f"What a hook wanted was not done. {error}", "note", apart=True)
            if outcome.stop is not None:
                await self._record.note(f"A hook ended the turn. {outcome.stop}".rstrip(), "veto", apart=True)
                return False
            await self._hooks.add(outcome.context)
            if ask == self._hooks.agent_stop and isinstance(outcome.action, Compact):
                return False  # compacting ends the turn, even if another hook wants the agent to go on
            if await self._continue(outcome):
                return True
        return False

    async def _do(self, outcome: Outcome) -> None:
        match outcome.action:
            case Compact():
                await self._compaction.for_hook(outcome.action)
            case Summarize():
                if summary := await self._compaction.summary(outcome.action.instructions):
                    await self._record.note(summary, "note", apart=True)
            case Replace():
                self._compaction.background.drop()
                await self._record.replace_context(outcome.action.messages)
            case _:
                pass

    async def _continue(self, outcome: Outcome) -> bool:
        messages = list(outcome.action.messages) if isinstance(outcome.action, Continue) else []
        if outcome.blocks:
            messages.append(outcome.reason or "A hook does not want you to stop yet. Go on.")
        if not messages:
            return False
        if self._continues == MAX_CONTINUES:
            last = f" The last objection: {outcome.reason}" if outcome.blocks else ""
            text = f"Hooks have let the agent go on {MAX_CONTINUES} times for this prompt; it ends here.{last}"
            await self._record.note(text, "veto", apart=True)
            return False
        self._continues += 1
        await self._log.append(*(ContextAdded(new_id("msg"), message) for message in messages))
        return True


def _is_whole(answer: AssistantMessage) -> bool:
    """Return whether an answer is final: it has no tool calls and was not broken off."""
    is_broken_off = answer.stop_reason in ("refusal", "max_tokens", "context_overflow", "pause_turn")
    return not (answer.tool_calls or is_broken_off)
