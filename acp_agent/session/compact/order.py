"""`Order`: one requested compaction as plain values, made of a recipe, the configuration and the models."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from acp_agent.compaction.budget import Limits
from acp_agent.compaction.calls import beside_thread
from acp_agent.compaction.estimate import count_images, request_bytes
from acp_agent.compaction.excerpts.selection import ExcerptIndex
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState, Workspace
from acp_agent.compaction.strategy import Writer
from acp_agent.config.forms import Share
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    ContextSwapped,
    Event,
    FileVersion,
    InstructionsLoaded,
)
from acp_agent.conversation.messages import AssistantMessage, ToolResult, new_id
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.errors import CompactionError, OverflowLimit
from acp_agent.frozen import frozen
from acp_agent.llm.provider import NativeCompaction
from acp_agent.logfile import log_failure
from acp_agent.session.notices import Notices
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.models import ActiveModel
from acp_agent.session.project.recipe_run import RecipeRun
from acp_agent.session.project.recipes import SessionRecipes
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.workspace import git_place
from acp_agent.session.source import OriginalEntries

REQUESTED: tuple[CompactionTrigger, ...] = ("manual", "hook")
"""Triggers that compact even if there is room."""
WITHOUT_MODEL = ("mask", "excerpts")
"""The steps that take no time."""


_log = logging.getLogger(__name__)


@frozen
class Order:
    """One compaction that is wanted.

    :ivar state: the conversation, frozen, of the context's `revision`.
    :ivar model: writes the summary; `writer` describes it where it is not the session's own.
    :ivar index: of the state's original entries.
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

    def with_steps(self, *steps: str, note: str = "") -> Order:
        """Return the same by these strategies alone, with a note for the receipt."""
        return replace(self, policy=replace(self.policy, steps=steps), note=note)

    def after_turn(self) -> Order:
        """Return the same where no prompt is being worked on, so that the newest one may be summarised as well."""
        return replace(self, state=replace(self.state, turn_from=None))

    def swap_events(
        self, result: CompactedState, compaction_id: str, instructions: InstructionsLoaded | None, context: Context
    ) -> tuple[*tuple[Event, ...], ContextSwapped]:
        """Return the events that go before the swap, and the swap.

        :param instructions: the project's instructions as they are now; None leaves those that hold.
        :param context: at the moment of the swap.
        :raises CompactionError: it is not of the order's revision any more.
        """
        if context.revision != self.revision:
            raise CompactionError("The session changed while the summary was written, so it was not used.")
        fresh: tuple[Event, ...] = ()
        if instructions is not None and instructions.text != context.instructions:
            fresh = (instructions,)
        text = context.instructions if instructions is None else instructions.text
        keep_from = fold_from = context.fold_from or 1
        if result.sent:
            behind = [entry.seq for entry in context.entries if not entry.summary and entry.seq > result.boundary]
            keep_from, fold_from = min(behind, default=context.head + len(fresh) + 1), 0
        swap = ContextSwapped(
            compaction_id=compaction_id,
            message_id=new_id("msg"),
            trigger=self.trigger,
            summary=result.summary,
            sent=result.sent,
            keep_from=keep_from,
            carried=replace(context.carried(), instructions=text),
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
            receipt=result.receipt,
        )
        return (*fresh, swap)


def _still_seen(result: CompactedState, context: Context) -> tuple[FileVersion, ...]:
    """Return the file versions that the model still sees: those of calls whose result stays as it was."""
    gone = {rewritten.seq for rewritten in result.rewritten}
    stays = {
        entry.message.call_id
        for entry in result.entries
        if isinstance(entry.message, ToolResult) and entry.seq not in gone
    }
    answers = [entry.message for entry in context.entries if isinstance(entry.message, AssistantMessage)]
    calls = [call for answer in answers for call in answer.tool_calls]
    seen = {str(Path(context.cwd, str(call.arguments.get("path")))): call.id in stays for call in calls}
    versions = (FileVersion(path, digest) for path, digest in context.files.items())
    return tuple(version for version in versions if seen.get(version.path, not result.sent))


@dataclass(eq=False, slots=True)
class Orders:
    """Makes one session's orders."""

    _requests: Requests
    _recipes: SessionRecipes
    _hooks: SessionHooks
    _notices: Notices
    _source: OriginalEntries

    async def make(
        self,
        trigger: CompactionTrigger,
        active: ActiveModel,
        run: RecipeRun | None = None,
        *,
        refused: OverflowLimit | None = None,
        instructions: str = "",
    ) -> Order:
        """Return an order for the conversation as it is.

        :param run: the recipe that the user ran; the one named `compact` if not given.
        :param refused: what a provider said there was too much of, whatever we count.
        :param instructions: those of the hook that asks.
        :raises RecipeError: the recipe cannot be rendered.
        :raises CompactionError: the log cannot be read, or the trigger is `manual` and the model for summaries
            cannot be used.
        """
        run = run or RecipeRun(await self._recipes.compact_recipe(), instructions)
        prompt = await self._recipes.render(run)
        prompt = "\n\n".join((prompt, *await self._hooks.prompt_additions(run, prompt)))
        try:
            writer = await self._requests.summary_writer(run.recipe, active)
        except CompactionError as error:
            if trigger == "manual":
                raise
            writer = None
            await self._notices.tell_once(f"{error.reason} The session's own model writes them.")
        state, revision, index = await self._conversation(active, guessed=refused == "tokens" and active.guessed)
        if refused == "bytes" and state.budget.used < state.budget.window:
            # What was refused is taken to fill the window: bytes say nothing of our count.
            state = replace(state, budget=replace(state.budget, window=max(1, state.budget.used)), guessed=True)
        policy = replace(await self._policy(trigger, active, run, state, refused), prompt=prompt)
        described = Writer(writer.model_id, writer.budget.window, writer.max_output_tokens) if writer else None
        return Order(run, trigger, state, revision, policy, writer or active, active.native, described, index)

    async def renewed(self, order: Order, active: ActiveModel, *, turn_over: bool) -> Order:
        """Return the same order for the conversation as it is now.

        :param turn_over: whether no prompt is being worked on.
        """
        state, revision, index = await self._conversation(active)
        order = replace(order, state=state, revision=revision, index=index)
        return order.after_turn() if turn_over else order

    async def strategy(self, model: str) -> str:
        """Return the strategy that an automatic compaction of this `provider/model` begins with."""
        said, recipe = self._requests.compaction(model), await self._recipes.compact_recipe()
        return said.strategy or recipe.compaction.strategy or "summary"

    async def _conversation(
        self, active: ActiveModel, *, guessed: bool = False
    ) -> tuple[ConversationState, int, ExcerptIndex]:
        """Return the conversation, its revision and the index of its original entries."""
        cwd = self._requests.context.cwd
        try:
            index, (_, head, branch) = await beside_thread(self._source.index, partial(git_place, cwd))
        except Exception as error:
            why = log_failure(_log, "The log of this session cannot be read", error)
            raise CompactionError(why, "Nothing was changed.") from error
        context = self._requests.context
        state = ConversationState.from_context(
            context,
            self._requests.request(active),
            active.budget,
            Workspace(cwd, branch, head),
            rate=active.rate,
            guessed=guessed,
            source=self._source.entries,
        )
        return state, context.revision, index

    async def _policy(
        self,
        trigger: CompactionTrigger,
        active: ActiveModel,
        run: RecipeRun,
        state: ConversationState,
        refused: OverflowLimit | None,
    ) -> CompactionPolicy:
        said, options, swap = self._requests.compaction(active.name), run.recipe.compaction, run.swap
        size = said.size or options.size
        tokens = size.tokens(active.budget.window) if isinstance(size, Share) else size
        by_hand, messages = trigger in REQUESTED, state.request.messages
        if by_hand and tokens is not None:
            tokens = min(tokens, state.by_hand_size)
        sent = (await self._requests.limits(active, messages)).sent
        return CompactionPolicy(
            prompt="",
            strategy=said.strategy or options.strategy or "summary",
            size=tokens,
            tail=swap.keep_tail_tokens,
            summary=swap.max_summary_tokens,
            sections=options.sections or (),
            verify=options.verify or "mark",
            by_hand=by_hand,
            must_fit=trigger == "overflow",
            # A provider may take less than is known of it.
            limits=Limits(
                count_images(messages) - 1 if refused == "images" else active.profile.max_images,
                request_bytes(messages, sent) - 1 if refused == "bytes" else active.profile.max_request_bytes,
                sent,
            ),
        )
