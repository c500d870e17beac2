"""`Order`: one requested compaction as plain values, built from a recipe, the
configuration and the models.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from acp_agent.compaction.budget import Limits
from acp_agent.compaction.calls import run_with_thread
from acp_agent.compaction.estimate import count_images, request_bytes
from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
    Workspace,
)
from acp_agent.compaction.strategy import Writer
from acp_agent.config.forms import Share
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    ContextSwapped,
    Event,
    FileVersion,
    InstructionsLoaded,
)
from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    CompactedBlock,
    Entry,
    Thinking,
    ToolResult,
    new_id,
)
from acp_agent.conversation.surroundings import Surroundings, amendments_in
from acp_agent.conversation.swaps import Carried, CompactionTrigger
from acp_agent.errors import CompactionError, OverflowLimit
from acp_agent.frozen import frozen
from acp_agent.llm.profiles import Prices
from acp_agent.llm.provider import NativeCompaction
from acp_agent.llm.rules import ReasoningRules
from acp_agent.logfile import log_failure
from acp_agent.session.hooks import SessionHooks
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.session.recipes.available import SessionRecipes
from acp_agent.session.recipes.questions import RecipeQuestions
from acp_agent.session.recipes.run import RecipeRun
from acp_agent.session.source import OriginalEntries
from acp_agent.session.workspace import git_place, sections_amendment

REQUESTED: tuple[CompactionTrigger, ...] = ("manual", "hook")
"""Triggers that compact even if there is room."""
WITHOUT_MODEL = ("mask", "excerpts")
"""The steps that need no model and are therefore fast."""


_log = logging.getLogger(__name__)


@frozen
class Order:
    """One requested compaction.

    :ivar state: an immutable copy of the conversation at `revision`.
    :ivar revision: the context's revision at that time.
    :ivar model: the model that writes the summary. `writer` describes it if it is not
        the session's own model.
    :ivar index: the index of the state's original entries.
    :ivar uncached_prices: prices of the next request, if the provider no longer has the
        context in its cache.
    """

    run: RecipeRun
    trigger: CompactionTrigger
    state: ConversationState
    revision: int
    policy: CompactionPolicy
    model: ActiveModel
    native: NativeCompaction | None
    writer: Writer | None
    index: ExcerptIndex
    note: str = ""
    uncached_prices: Prices | None = None

    def is_like(self, other: Order) -> bool:
        """Return whether a summary prepared for this order can be used for `other`."""
        mine = (self.run.recipe.digest, self.policy.prompt, self.policy.strategy)
        return mine == (
            other.run.recipe.digest,
            other.policy.prompt,
            other.policy.strategy,
        )

    @property
    def steps_without_model(self) -> tuple[str, ...]:
        """Return the steps that need no model."""
        return ("excerpts",) if self.policy.native_first else WITHOUT_MODEL

    def with_steps(self, *steps: str, note: str = "") -> Order:
        """Return this order with only these strategies, and with a note for the
        receipt.
        """
        return replace(self, policy=replace(self.policy, steps=steps), note=note)

    def after_turn(self) -> Order:
        """Return this order for a compaction after the turn, which may summarise the
        newest prompt too.
        """
        return replace(self, state=replace(self.state, turn_from=None))

    def swap_events(
        self,
        result: CompactedState,
        compaction_id: str,
        instructions: InstructionsLoaded | None,
        context: Context,
    ) -> tuple[*tuple[Event, ...], ContextSwapped]:
        """Return the swap, preceded by the events to append before it.

        :param instructions: the project's current instructions; None keeps the
            context's instructions.
        :param context: the context at the moment of the swap.
        :raises CompactionError: if the context no longer has the order's revision.
        """
        if context.revision != self.revision:
            raise CompactionError(
                "The session changed while the summary was written, so it was not used."
            )
        kept = tuple(
            entry
            for entry in context.entries
            if not entry.summary and entry.seq > result.boundary
        )
        carried = context.carried()
        fresh: tuple[Event, ...] = ()
        behind: Amendment | None = None
        receipt = result.receipt
        with_reasoning, left = self._reasoning(result, kept, context)
        depends = bool(with_reasoning) and self.policy.binds_reasoning
        if depends or not result.sent:
            # The kept messages depend on the beginning of the request, so the beginning
            # is kept too.
            behind = _trailing_message(result, kept, context)
        else:
            carried, fresh = _with_new_beginning(carried, instructions, context)
            if result.behind:
                behind = Amendment(new_id("msg"), result.behind)
        if left:
            carried = replace(
                carried, withheld=tuple(sorted({*carried.withheld, *left}))
            )
        receipt = replace(
            receipt,
            with_reasoning=len(with_reasoning),
            left_reasoning=sum(left.values()),
        )
        keep_from = fold_from = context.fold_from or 1
        if result.sent:
            seqs = [entry.seq for entry in kept]
            keep_from = min(seqs, default=context.head + len(fresh) + 1)
            fold_from = 0
        swap = ContextSwapped(
            compaction_id=compaction_id,
            message_id=new_id("msg"),
            trigger=self.trigger,
            summary=result.summary,
            sent=result.sent,
            keep_from=keep_from,
            carried=carried,
            tokens_before=result.tokens_before,
            tokens_after=result.tokens_after,
            pinned=result.pinned,
            usage=result.usage,
            recipe=self.run.recipe.name,
            digest=self.run.recipe.digest,
            strategy=result.strategy,
            rewritten=result.rewritten,
            files=_still_seen(result, context),
            fold_from=fold_from,
            earlier=context.swaps,
            receipt=receipt,
            behind=behind,
        )
        return (*fresh, swap)

    def _reasoning(
        self, result: CompactedState, kept: Sequence[Entry], context: Context
    ) -> tuple[list[str], dict[str, int]]:
        """Return the ids of the kept answers that keep their reasoning, and of the kept
        answers that lose it.

        The latter are mapped to the number of lost pieces.
        """
        native = any(
            isinstance(part, CompactedBlock) and part.at is not None
            for part in result.sent
        )
        rewritten = [each.seq for each in result.rewritten]
        changed_from = (
            min(rewritten, default=context.head + 1) if native or not result.sent else 0
        )
        stays: list[str] = []
        left: dict[str, int] = {}
        for entry in kept:
            message = entry.message
            if (
                not isinstance(message, AssistantMessage)
                or message.id in context.withheld
            ):
                continue
            pieces = sum(
                isinstance(part, Thinking) and bool(part.data) for part in message.parts
            )
            if pieces and (entry.seq < changed_from or not self.policy.binds_reasoning):
                stays.append(message.id)
            elif pieces:
                left[message.id] = pieces
        return stays, left


def _with_new_beginning(
    carried: Carried, instructions: InstructionsLoaded | None, context: Context
) -> tuple[Carried, tuple[Event, ...]]:
    """Return the state that a swap carries over if the next request may begin
    differently from the last one.

    The second value is the event of a changed system prompt, if there is one.

    :param instructions: the system prompt from the current files; None keeps the
        context's.
    """
    if instructions is None:
        return replace(carried, declared=Surroundings(context.declared.sections)), ()
    declared = Surroundings(instructions.sections)
    fresh = (instructions,) if instructions.text != context.instructions else ()
    return replace(carried, instructions=instructions.text, declared=declared), fresh


def _trailing_message(
    result: CompactedState, kept: Sequence[Entry], context: Context
) -> Amendment | None:
    """Return the message to place after the kept messages; None if it would be empty.

    The message contains the carried-over parts, and the changes to the system prompt
    that the removed messages announced. Changes to the tools and to the reasoning level
    are announced before each request.
    """
    if not result.sent:
        return None
    announced = context.declared.after(amendments_in(kept))
    amendment = sections_amendment(
        announced.sections, context.announced.sections
    ) or Amendment(new_id("msg"), ())
    parts = (*result.behind, *amendment.parts)
    return replace(amendment, parts=parts) if parts else None


def _still_seen(result: CompactedState, context: Context) -> tuple[FileVersion, ...]:
    """Return the file versions that the model still sees, from calls whose results are
    unchanged.
    """
    gone = {rewritten.seq for rewritten in result.rewritten}
    stays = {
        entry.message.call_id
        for entry in result.entries
        if isinstance(entry.message, ToolResult) and entry.seq not in gone
    }
    answers = [
        entry.message
        for entry in context.entries
        if isinstance(entry.message, AssistantMessage)
    ]
    calls = [call for answer in answers for call in answer.tool_calls]
    seen = {
        str(Path(context.cwd, str(call.arguments.get("path")))): call.id in stays
        for call in calls
    }
    versions = (FileVersion(path, digest) for path, digest in context.files.items())
    return tuple(
        version for version in versions if seen.get(version.path, not result.sent)
    )


@dataclass(eq=False, slots=True)
class Orders:
    """Builds one session's orders."""

    _requests: Requests
    _recipes: SessionRecipes
    _hooks: SessionHooks
    _notices: Notices
    _source: OriginalEntries
    _questions: RecipeQuestions

    async def make(
        self,
        trigger: CompactionTrigger,
        active: ActiveModel,
        run: RecipeRun | None = None,
        *,
        refused: OverflowLimit | None = None,
        instructions: str = "",
    ) -> Order:
        """Return an order for the current conversation.

        :param run: the recipe that the user ran; None for the recipe named `compact`.
        :param refused: the limit that the provider said the request exceeds, whatever
            our own count says.
        :param instructions: the instructions of the hook that asked for the compaction.
        :raises RecipeError: if the recipe cannot be rendered.
        :raises CompactionError: if the log cannot be read, or if the trigger is
            `manual` and the model for summaries cannot be used.
        """
        run = run or RecipeRun(await self._recipes.compact_recipe(), instructions)
        # Ask the user only in a manual compaction.
        prompt = await self._recipes.render(
            run, self._questions if trigger == "manual" else None
        )
        prompt = "\n\n".join((prompt, *await self._hooks.prompt_additions(run, prompt)))
        try:
            writer = await self._requests.summary_writer(run.recipe, active)
        except CompactionError as error:
            if trigger == "manual":
                raise
            writer = None
            await self._notices.tell_once(
                f"{error.reason} The session's own model writes them."
            )
        state, revision, index = await self._conversation(
            active, guessed=refused == "tokens" and active.guessed
        )
        has_room = state.budget.used < (
            state.budget.window if refused == "bytes" else state.budget.limit
        )
        if refused in ("bytes", "tokens") and has_room:
            # Assume that the refused request fills the window. A byte limit says
            # nothing about the number of tokens. If the provider refuses a request that
            # should fit by our count, the count is wrong.
            state = replace(
                state,
                budget=replace(state.budget, window=max(1, state.budget.used)),
                guessed=True,
            )
        policy = replace(
            await self._policy(trigger, active, run, state, refused), prompt=prompt
        )
        described = (
            Writer(writer.model_id, writer.budget.window, writer.max_output_tokens)
            if writer
            else None
        )
        return Order(
            run,
            trigger,
            state,
            revision,
            policy,
            writer or active,
            active.native,
            described,
            index,
        )

    async def renewed(
        self, order: Order, active: ActiveModel, *, after_turn: bool
    ) -> Order:
        """Return the same order for the current conversation.

        :param after_turn: whether the turn is over; see `Order.after_turn`.
        """
        state, revision, index = await self._conversation(active)
        order = replace(order, state=state, revision=revision, index=index)
        return order.after_turn() if after_turn else order

    async def strategy(self, active: ActiveModel) -> str:
        """Return the first strategy of automatic compactions with this model."""
        said = self._requests.compaction(active.name)
        recipe = await self._recipes.compact_recipe()
        default = _default_strategy(self._requests.rules(active), is_requested=False)
        return said.strategy or recipe.compaction.strategy or default

    async def _conversation(
        self, active: ActiveModel, *, guessed: bool = False
    ) -> tuple[ConversationState, int, ExcerptIndex]:
        """Return the conversation, its revision and the index of its original entries."""
        cwd = self._requests.context.cwd
        try:
            index, (_, head, branch) = await run_with_thread(
                self._source.index, partial(git_place, cwd)
            )
        except Exception as error:
            why = log_failure(_log, "The log of this session cannot be read", error)
            raise CompactionError(why, "Nothing was changed.") from error
        context = before_open_calls(self._requests.context)
        state = ConversationState.from_context(
            context,
            self._requests.request(active, context),
            active.budget,
            Workspace(cwd, branch, head),
            rate=active.rate,
            guessed=guessed,
            source=self._source.entries,
        )
        # A refusal may state a higher token count than the answers before it.
        budget = state.budget.filled(self._requests.used(active, context), state.prefix)
        return replace(state, budget=budget), context.revision, index

    async def _policy(
        self,
        trigger: CompactionTrigger,
        active: ActiveModel,
        run: RecipeRun,
        state: ConversationState,
        refused: OverflowLimit | None,
    ) -> CompactionPolicy:
        said = self._requests.compaction(active.name)
        options = run.recipe.compaction
        swap = run.swap
        rules = self._requests.rules(active)
        size = said.size or options.size
        tokens = size.tokens(active.budget.window) if isinstance(size, Share) else size
        is_requested = trigger in REQUESTED
        messages = state.request.messages
        if is_requested and tokens is not None:
            # An empty conversation leaves nothing to share.
            tokens = max(1, min(tokens, state.manual_size))
        sent = (await self._requests.limits(active, messages)).sent
        return CompactionPolicy(
            prompt="",
            strategy=said.strategy
            or options.strategy
            or _default_strategy(rules, is_requested=is_requested),
            size=tokens,
            tail=swap.keep_tail_tokens,
            summary=swap.max_summary_tokens,
            sections=options.sections or (),
            verify=options.verify or "mark",
            manual=is_requested,
            must_fit=trigger == "overflow",
            # A provider may accept less than its profile says.
            limits=Limits(
                count_images(messages) - 1
                if refused == "images"
                else active.profile.max_images,
                request_bytes(messages, sent) - 1
                if refused == "bytes"
                else active.profile.max_request_bytes,
                sent,
            ),
            idle=trigger == "idle",
            native_first=rules.native_first,
            keeps_reasoning=rules.compaction == "kept",
            keeps_prompts=rules.compacts_to == "window",
            binds_reasoning=rules.binds,
        )


def before_open_calls(context: Context) -> Context:
    """Return the context without an answer whose calls are still running.

    A background summary may be requested while the calls run, and providers refuse
    calls without results.
    """
    if not context.open_calls:
        return context
    answers = (
        at
        for at in range(len(context.entries) - 1, -1, -1)
        if isinstance(context.entries[at].message, AssistantMessage)
    )
    return replace(context, entries=context.entries[: next(answers)])


def _default_strategy(rules: ReasoningRules, *, is_requested: bool) -> str:
    return "native" if rules.native_first and not is_requested else "summary"
