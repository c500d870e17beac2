"""One compaction of a session, from its first sign in the editor to the swap in the log.

Manual and automatic compaction go through here with the same recipe. Exactly one terminal word is shown and logged of
each that began; until the swap is committed, nothing has happened.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import anyio

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.framing import frame_summary
from acp_agent.compaction.service import CompactionPlan, CompactionService, ModelCall, Summary
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CompactionFailed,
    CompactionTrigger,
    ContextSwapped,
    Event,
    InstructionsLoaded,
)
from acp_agent.conversation.messages import Usage, new_id
from acp_agent.errors import AgentError, CompactionError
from acp_agent.hooks.dispatcher import Dispatcher
from acp_agent.hooks.events import TurnEnd
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest
from acp_agent.session.commands import RecipeRun, bindings
from acp_agent.session.log import SessionLog
from acp_agent.turn.updates import CompactionChunk, CompactionFinished, CompactionStarted, Update

_log = logging.getLogger(__name__)


class Compactor:
    """Compacts one session.

    :param show: lets the user see an update.
    :param show_usage: lets the user see how full the window is.
    :param instructions: reads the project's instructions afresh.
    """

    def __init__(
        self,
        session_id: str,
        log: SessionLog,
        service: CompactionService,
        hooks: Dispatcher,
        show: Callable[[Update], Awaitable[None]],
        show_usage: Callable[[], Awaitable[None]],
        instructions: Callable[[], Awaitable[InstructionsLoaded]],
    ) -> None:
        self._session_id = session_id
        self._log = log
        self._service = service
        self._hooks = hooks
        self._show = show
        self._show_usage = show_usage
        self._instructions = instructions

    async def compact(
        self, run: RecipeRun, trigger: CompactionTrigger, request: ModelRequest, budget: TokenBudget, call: ModelCall
    ) -> bool:
        """Compact now.

        :param run: the recipe, with what the user asked it to keep in mind.
        :param request: the live request, as the next step would send it.
        :param call: the model call.
        :returns: False where there was nothing to compact, and nothing was shown.
        :raises AgentError: it failed; that was shown and logged, and the context is as it was.
        """
        prompt = run.render()
        plan = self._service.plan(self._log.context, request, budget)
        if plan is None:
            return False
        compaction_id = new_id("cmp")
        metered = _MeteredCall(call)
        await self._show(CompactionStarted(compaction_id, trigger))
        try:
            await self._compact(compaction_id, run, trigger, plan, prompt, metered)
        except anyio.get_cancelled_exc_class():
            await self._failed(CompactionFailed(compaction_id, trigger, "cancelled", usage=metered.usage))
            raise
        except AgentError as error:
            await self._failed(CompactionFailed(compaction_id, trigger, "failed", str(error), metered.usage))
            raise
        except Exception as error:
            _log.exception("compaction %s failed", compaction_id)
            message = f"The compaction failed inside the agent ({type(error).__name__}). The history is unchanged."
            await self._failed(CompactionFailed(compaction_id, trigger, "failed", message, metered.usage))
            raise CompactionError(message) from error
        return True

    async def _compact(
        self,
        compaction_id: str,
        run: RecipeRun,
        trigger: CompactionTrigger,
        plan: CompactionPlan,
        prompt: str,
        call: _MeteredCall,
    ) -> None:
        async def show(text: str) -> None:
            await self._show(CompactionChunk(compaction_id, text))

        revision = self._log.context.revision
        summary = await self._service.summarise(plan, prompt, call, show, by_hand=trigger == "manual")
        event = TurnEnd(self._session_id, self._log.context.cwd, 1, summary.text)
        actions = await self._hooks.dispatch(event, bindings(run.recipe))
        swap = next(iter(actions), None)
        if swap is None:
            raise CompactionError(f"The hooks of the recipe {run.recipe.name!r} asked for no swap. Nothing changed.")
        instructions = await self._instructions()

        def build(context: Context) -> tuple[Event, ...]:
            if context.revision != revision:
                raise CompactionError("The session changed while the summary was written, so it was not used.")
            return _swap_events(
                context, compaction_id, trigger, plan, swap.summary, summary, call.usage, run, instructions
            )

        # A cancel that comes after the commit is too late: what is in the log is what the user is told.
        with anyio.CancelScope(shield=True):
            await self._log.append_built(build)
            await self._show(
                CompactionFinished(
                    compaction_id,
                    "completed",
                    summary=swap.summary,
                    tokens_before=plan.tokens_before,
                    tokens_after=summary.tokens_after,
                )
            )
            try:
                await self._show_usage()
            except AgentError as error:
                _log.info("no usage to show after compaction %s: %s", compaction_id, error)

    async def _failed(self, event: CompactionFailed) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._log.append(event)
            except AgentError as error:
                # Whoever appends next is told; what began in the editor must end there all the same.
                _log.warning("the end of compaction %s was not logged: %s", event.compaction_id, error)
            await self._show(CompactionFinished(event.compaction_id, event.status, error=event.error))


class _MeteredCall:
    """A model call that adds up what it costs, so that a summary that was not used is paid for as well.

    :ivar usage: of all calls so far; None before the first answer.
    """

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self.usage: Usage | None = None

    async def __call__(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(self._call(request)) as stream:
            async for event in stream:
                if isinstance(event, Answered):
                    self.usage = _sum(self.usage or Usage(), event.usage)
                yield event


def _sum(first: Usage, second: Usage) -> Usage:
    costs = [usage.cost for usage in (first, second) if usage.cost is not None]
    return Usage(
        first.input_tokens + second.input_tokens,
        first.output_tokens + second.output_tokens,
        first.cache_read_tokens + second.cache_read_tokens,
        first.cache_write_tokens + second.cache_write_tokens,
        sum(costs) if costs else None,
    )


def _swap_events(
    context: Context,
    compaction_id: str,
    trigger: CompactionTrigger,
    plan: CompactionPlan,
    text: str,
    summary: Summary,
    usage: Usage | None,
    run: RecipeRun,
    instructions: InstructionsLoaded,
) -> tuple[Event, ...]:
    """The events of the swap, for the context as it is at the commit: what was appended behind the cut is kept."""
    fresh: tuple[Event, ...] = () if instructions.text == context.instructions else (instructions,)
    cut = plan.cut
    own_seq = context.head + len(fresh) + 1
    boundary = cut.summarised[-1].seq
    behind = [entry.seq for entry in context.entries if not entry.summary and entry.seq > boundary]
    return (
        *fresh,
        ContextSwapped(
            compaction_id=compaction_id,
            message_id=new_id("msg"),
            trigger=trigger,
            summary=text,
            sent=summary.sent if text == summary.text else frame_summary(text),
            keep_from=min(behind, default=own_seq),
            carried=replace(context.carried(), instructions=instructions.text),
            tokens_before=plan.tokens_before,
            tokens_after=summary.tokens_after,
            pinned=cut.pinned,
            usage=usage,
            recipe=run.recipe.name,
            digest=run.recipe.digest,
        ),
    )
