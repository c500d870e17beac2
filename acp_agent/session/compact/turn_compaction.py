"""`TurnCompaction`: starts the compactions of one turn: manual, automatic, and after a
provider's refusal.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from acp_agent.compaction.budget import (
    Pressure,
    pressure,
    truncated_by_window,
)
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.saving import pays, saving_of
from acp_agent.conversation.messages import AssistantMessage
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.errors import (
    AgentError,
    CompactionError,
    CompactionVetoedError,
    ContextOverflowError,
    ModelUnavailableError,
    OverflowLimit,
    RecipeError,
    RequestRefusedError,
    reason_of,
    sentence,
)
from acp_agent.hooks.outcomes import Compact
from acp_agent.llm.profiles import Prices
from acp_agent.session.compact.decide import Action, Situation, decide
from acp_agent.session.compact.order import WITHOUT_MODEL
from acp_agent.session.compact.parts import CompactionParts
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.session.recipes.run import RecipeRun

_MADE_SHORT = "It was already shortened in this turn. Start a new session, or choose a model with a larger window."
_NO_GAIN = "Nothing in the conversation can be left out. Start a new session, or choose a model with a larger window."
_ASSUMED = (
    "If the request was too long: the agent assumes a context window of {window:,} tokens, since {model} does not"
    " report one. Set `context_window` for the model in config.yaml to the server's real window."
)
_NEARLY_FULL = 0.75
"""Share of an assumed window. If a request fills at least this share, an error that the
agent does not recognise is treated as a refusal because of the request's length.
"""
_TRIGGERS: dict[Pressure, CompactionTrigger] = {
    "full": "overflow",
    "request_size": "request_size",
}

_logger = logging.getLogger(__name__)

_AUTOMATIC_FAILED = "Automatic compaction failed."
_HOOK_FAILED = "The compaction that a hook requested failed."


class TurnCompaction:
    """Starts the compactions of one turn: at the request of the user or a hook,
    automatically, or after a provider's refusal.

    :param requests: builds and measures the session's requests.
    :param parts: the parts of the session that compact it.
    """

    def __init__(
        self, requests: Requests, notices: Notices, parts: CompactionParts
    ) -> None:
        self._requests = requests
        self._notices = notices
        self._parts = parts
        self._background = parts.background
        self._opens_turn = True  # whether no request has been sent yet
        self._was_vetoed = False  # whether a hook has vetoed a compaction
        # Sequence numbers of the log: of the prompt for which we compacted after a
        # refusal, after that compaction, and when a shorter answer was requested.
        self._compacted_for = -1
        self._compacted_at = -1
        self._shortened_at = -1

    def forget_veto(self) -> None:
        """Drop a background summary that a hook vetoed, so that the hook is asked
        again.
        """
        if isinstance(self._background.failure, CompactionVetoedError):
            self._background.drop()

    async def compact_manually(self, run: RecipeRun) -> str:
        """Compact because the user asked for it. Use the background summary if it is
        written with the same recipe.

        :returns: an empty text, since the user sees the receipt of the swap.
        :raises CompactionError: if the compaction failed, or there is nothing to
            compact. The context is unchanged.
        """
        active = await self._requests.active()
        order = await self._parts.orders.make("manual", active, run)
        draft = self._background.draft
        prepared = draft and draft.order
        if not prepared or not prepared.is_like(order):
            self._background.drop()
            draft = None
        if await self._parts.compactor.compact(order, draft) is None:
            raise CompactionError("There is nothing to compact yet.")
        return ""

    async def summary(self, instructions: str) -> str:
        """Return a summary of the conversation without compacting it; empty if there is
        nothing to summarise.
        """
        active = await self._requests.active()
        orders = self._parts.orders
        order = await orders.make("hook", active, instructions=instructions)
        result = await self._parts.compactor.run_strategies(order.after_turn())
        return result.summary if result else ""

    async def compact_for_hook(
        self, wanted: Compact, *, after_turn: bool = True
    ) -> None:
        """Compact because a hook requested it. If that fails, log the failure and let
        the turn continue.

        :param after_turn: whether the newest prompt has been answered, so that it may
            be summarised too.
        """
        self._background.drop()
        try:
            order = await self._parts.orders.make(
                "hook", await self._requests.active(), instructions=wanted.instructions
            )
            await self._parts.compactor.compact(
                order.after_turn() if after_turn else order
            )
        except AgentError as error:
            await self._note_failure(error, _HOOK_FAILED)

    async def before_request(self) -> ActiveModel:
        """Compact before a model call if necessary, and return the model to call.

        :raises ContextOverflowError: if the request is certainly too large for the
            model and could not be shortened.
        :raises CompactionVetoedError: if the request does not fit and a hook vetoed the
            compaction.
        """
        active = await self._requests.active()
        if self._background.state == "none":
            self._background.drop()  # it may be of an earlier revision of the context
        situation = await self._situation(active)
        self._opens_turn = False
        action = decide(situation)
        if action == "use_summary":
            await self._use_prepared(active)
            situation = replace(await self._situation(active), used=True)
            action = decide(situation)
        if action == "nothing":
            if situation.level == "full":
                self._requests.check_fits(active)
        elif action == "begin_summary":
            self._background.begin(active)
        else:
            await self._compact_or_go_on(
                action, _TRIGGERS.get(situation.level, "threshold"), active
            )
        if situation.used or action not in ("nothing", "begin_summary"):
            # The user may have chosen another model in the meantime.
            return await self._requests.active()
        return active

    async def use_ready_summary(self) -> None:
        """Swap in a ready summary after the last answer of a turn."""
        if self._background.state == "ready":
            active = await self._requests.active()
            if (
                decide(replace(await self._situation(active), opens_turn=True))
                == "use_summary"
            ):
                await self._use_prepared(active, after_turn=True)

    async def after_overflow(
        self,
        model: ActiveModel,
        refusal: ContextOverflowError,
        *,
        is_certain: bool = True,
    ) -> None:
        """Make room after the provider refused a request as too long, so that the next
        one may fit.

        :param model: the model of the refused request.
        :param is_certain: whether the provider said that the request was too long. If
            False, the window learned from the refusal is not kept for other sessions.
        :raises ContextOverflowError: if nothing more can be done in this turn. The
            context is unchanged.
        """
        requests = self._requests
        counted = refusal.limit == "tokens"
        before = requests.answer_tokens(model)
        forget = requests.learn_refusal(model, refusal) if counted else None
        active = await requests.active()
        shorter_fits = False
        if (
            counted
            and refusal.maximum is not None
            and self._shortened_at != self._requests.context.head
        ):
            now = requests.answer_tokens(active)
            # `used` includes the provider's own count of the prompt, if the refusal
            # states one. If the prompt alone is too long, a request with a shorter
            # answer would be refused too.
            shorter_fits = (
                now < before and requests.used(active) + now <= active.budget.window
            )
        made_room = (
            self._compacted_for == requests.context.prompted
            and not self._was_answered()
        )
        why = await self._make_room(
            active, refusal.limit, made_room=made_room, shorter_fits=shorter_fits
        )
        if forget is not None and why and refusal.maximum is None:
            forget()  # do not keep a guessed window if nothing could be compacted
        elif forget is not None and is_certain:
            requests.keep_window(model)
        if why:
            why = f"{sentence(refusal)} {why}"
            raise ContextOverflowError(
                why, limit=refusal.limit, maximum=refusal.maximum, prompt=refusal.prompt
            )

    async def after_unknown_error(
        self, model: ActiveModel, error: RequestRefusedError | ModelUnavailableError
    ) -> bool:
        """Make room after an error that the agent does not recognise, if the request
        nearly fills a window whose size is only assumed. The server's actual window may
        be smaller.

        :param model: the model of the request.
        :returns: whether the request is to be sent again.
        :raises ContextOverflowError: if the request may be too long, and nothing more
            can be done in this turn.
        :raises ModelUnavailableError: if the request may be too long, but is far
            smaller than the assumed window. The message then says which setting to
            change.
        """
        if not (error.may_be_overflow and model.guessed):
            return False
        window = model.budget.window
        is_refused = isinstance(error, RequestRefusedError)
        text = f"{sentence(error)} {_ASSUMED.format(window=window, model=model.name)}"
        if self._requests.used(model) >= window * _NEARLY_FULL:
            suspected = ContextOverflowError(text)
            await self.after_overflow(model, suspected, is_certain=False)
            return True
        if is_refused:
            return False
        explained = ModelUnavailableError(text)
        explained.may_be_overflow = True
        raise explained from error

    async def after_cut(self, model: ActiveModel, answer: AssistantMessage) -> bool:
        """Make room for the rest of an answer that was cut off.

        :returns: whether there is room. False also if the answer only reached its own
            token limit.
        :raises CompactionError: if the window is full and nothing could be shortened.
        """
        if not truncated_by_window(answer, model.budget):
            return False
        is_full = answer.stop_reason == "context_overflow"
        if is_full and answer.counted is not None:
            self._requests.learn_full(model)
        was_compacted = self._compacted_for == self._requests.context.prompted
        limit: OverflowLimit | None = "tokens" if is_full else None
        why = await self._make_room(
            await self._requests.active(), limit, made_room=was_compacted
        )
        if is_full and why and not was_compacted:
            raise CompactionError(
                f"The model's context window was full before the end of the answer. {why}"
            )
        return not why

    def _was_answered(self) -> bool:
        """Return whether the model has answered since the last compaction after a
        refusal.
        """
        entries = reversed(self._requests.context.entries)
        newest = next(
            (
                entry.seq
                for entry in entries
                if isinstance(entry.message, AssistantMessage)
            ),
            0,
        )
        return newest > self._compacted_at

    async def _make_room(
        self,
        active: ActiveModel,
        refused: OverflowLimit | None,
        *,
        made_room: bool,
        shorter_fits: bool = False,
    ) -> str:
        """Compact, whatever our own estimate says, or ask for a shorter answer.

        :param made_room: see `Situation`.
        :param shorter_fits: see `Situation`.
        :returns: why neither works; empty if one does.
        """
        context = self._requests.context
        action = decide(
            Situation(
                "full",
                wait=self._requests.compaction(active.name).wait,
                background=self._background.state,
                refused=True,
                shorter_fits=shorter_fits,
                made_room=made_room,
            )
        )
        if action == "shorten":
            self._shortened_at = context.head
            return ""
        if action == "give_up":
            return _MADE_SHORT
        self._compacted_for = context.prompted
        try:
            return (
                ""
                if await self._compact(action, "overflow", active, refused)
                else _NO_GAIN
            )
        except AgentError as error:
            return str(error)
        finally:
            self._compacted_at = self._requests.context.head

    async def _situation(self, active: ActiveModel) -> Situation:
        context = self._requests.context
        settings = self._requests.compaction(active.name)
        budget = self._requests.filled(active)
        exceeds = await self._requests.exceeds_limits(active)
        level = pressure(
            budget,
            limits_exceeded=exceeds,
            threshold=settings.threshold,
            prepare=settings.prepare,
        )
        since = self._parts.compactor.tried_at
        grown = 0
        if level != "none":
            grown = estimate_messages(
                entry.message for entry in context.entries if entry.seq > since
            )
        return Situation(
            level,
            auto=settings.auto,
            undone=context.restored,
            writes=level == "none"
            or await self._parts.orders.strategy(active) not in WITHOUT_MODEL,
            prepares=settings.prepare is not None,
            wait=settings.wait,
            background=self._background.state,
            opens_turn=self._opens_turn,
            grown=grown / budget.usable,
            vetoed=self._was_vetoed
            or isinstance(self._background.failure, CompactionVetoedError),
            saves=settings.idle == "auto" and self._saves(active),
        )

    def _saves(self, active: ActiveModel) -> bool:
        """Return whether the ready summary makes the next request cheaper because the
        prompt cache has expired.
        """
        draft = self._background.draft
        prices = self._uncached_prices(active)
        if draft is None or draft.result is None or prices is None:
            return False
        used = self._requests.used(active)
        gained = draft.result.tokens_before - draft.result.tokens_after
        return pays(saving_of(used, used - gained, prices))

    def _uncached_prices(self, active: ActiveModel) -> Prices | None:
        """Return the prices of the next request if the provider no longer has the
        context in its cache.

        :returns: None if the provider may still have it, or if the prices are unknown.
        """
        is_gone = self._parts.cache.is_gone(
            active.name, self._requests.cache_life(active)
        )
        return active.profile.prices if is_gone else None

    async def _use_prepared(
        self, active: ActiveModel, *, after_turn: bool = False
    ) -> None:
        """Swap in the ready summary. On an error, mark the background summary as
        failed.
        """
        draft = self._background.draft
        assert draft is not None
        assert draft.order is not None
        try:
            now = await self._parts.orders.renewed(
                draft.order, active, after_turn=after_turn
            )
            now = replace(now, uncached_prices=self._uncached_prices(active))
            await self._parts.compactor.compact(now, draft)
        except AgentError as error:
            self._background.fail(error)
            await self._note_failure(error)

    async def _compact_or_go_on(
        self, action: Action, trigger: CompactionTrigger, active: ActiveModel
    ) -> None:
        """Compact. If that fails, let the turn continue if the request may fit.

        :raises ContextOverflowError: if the request certainly does not fit.
        :raises CompactionVetoedError: if the request is not expected to fit and a hook
            vetoed the compaction.
        """
        reason = ""
        try:
            if await self._compact(action, trigger, active):
                return
        except AgentError as error:
            await self._note_failure(error)
            if trigger == "overflow" and isinstance(error, CompactionVetoedError):
                raise
            reason = str(error)
        self._parts.compactor.note_failed_attempt()
        if trigger == "overflow":
            self._requests.check_fits(active, reason)

    async def _compact(
        self,
        action: Action,
        trigger: CompactionTrigger,
        active: ActiveModel,
        refused: OverflowLimit | None = None,
    ) -> bool:
        """Compact as `decide` said, or without a model if the background summary cannot
        be used.

        :returns: False if there is nothing to compact.
        """
        order = await self._parts.orders.make(trigger, active, refused=refused)
        if action == "without_model":
            failure = self._background.failure
            note = f"No summary: {reason_of(failure)}" if failure else ""
            order = order.with_steps(*order.steps_without_model, note=note)
            self._background.drop()
        draft = (
            self._background.draft
            if action in ("use_summary", "wait_for_summary")
            else None
        )
        try:
            return await self._parts.compactor.compact(order, draft) is not None
        except AgentError as error:
            if draft is None or isinstance(error, CompactionVetoedError):
                raise
            self._background.fail(error)
            await self._note_failure(error)
            return await self._compact("without_model", trigger, active, refused)

    async def _note_failure(
        self, error: AgentError, notice: str = _AUTOMATIC_FAILED
    ) -> None:
        """Log a failed compaction. If the recipe caused the failure, tell the user,
        since only the user can correct the recipe.

        :param notice: the beginning of the notice, which names the compaction.
        """
        _logger.warning("the context was not compacted: %s", error)
        self._was_vetoed = self._was_vetoed or isinstance(error, CompactionVetoedError)
        if isinstance(error, RecipeError):
            await self._notices.tell_once(f"{notice} {error}")
