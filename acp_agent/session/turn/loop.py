"""`TurnLoop`: answers one question: model, tools, model, until it has answered or a limit is reached."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from acp_agent.conversation.messages import AssistantMessage
from acp_agent.conversation.updates import Show
from acp_agent.errors import ContextOverflowError, ImageRefusedError
from acp_agent.session.attachments import RefusedImage
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.mailbox import StopReason, Ticket
from acp_agent.session.project.models import ActiveModel
from acp_agent.session.project.recipes import RecipeRun
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.settings import SessionOptions
from acp_agent.session.turn.answer import AnswerStream
from acp_agent.session.turn.calls import ToolCalls
from acp_agent.session.turn.question import Questions
from acp_agent.session.turn.record import TurnRecord
from acp_agent.session.turn.stop_hooks import StopHooks


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
            left_out: Collection[RefusedImage] = ()  # images, until a request is answered without them
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
                    newly = () if error.partial else active.attachments.leave_out(request, active.profile)
                    if not newly:
                        active.attachments.restore(left_out)
                        raise
                    left_out = newly
                    continue
                except ContextOverflowError as refusal:
                    await self._compaction.after_refusal(active, refusal)
                    continue
                left_out = ()
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
            return await self._calls.run(self._requests.tools, answer.tool_calls, run.recipe if run else None)
        if answer.stop_reason in ("max_tokens", "context_overflow"):
            if not await self._compaction.after_cut(active, answer):
                return "max_tokens"
            if answer.text.strip():
                await self._answers.ask_to_continue()
        elif answer.stop_reason != "pause_turn" and not await self._stop_hooks.after(answer.text):
            return "end_turn"
        return None
