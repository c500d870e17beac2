"""What a compaction is ordered as: from a recipe, the configuration and the models to plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.compaction.calls import ModelCall
from acp_agent.compaction.estimate import count_images, request_bytes
from acp_agent.compaction.excerpts.selection import ExcerptIndex
from acp_agent.compaction.state import BY_HAND_SHARE, CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.config.settings import Share
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.errors import CompactionError, ConfigError, ModelError, OverflowLimit
from acp_agent.frozen import frozen
from acp_agent.llm.provider import ModelRequest, NativeCompaction
from acp_agent.recipes.model import CompactionOptions, Recipe
from acp_agent.session.commands import COMPACT, RecipeRun
from acp_agent.session.models import ActiveModel
from acp_agent.session.workspace import read_workspace

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost
    from acp_agent.session.source import Source

BY_HAND: tuple[CompactionTrigger, ...] = ("manual", "hook")
"""Somebody wants a short context, however much room there is."""
WITHOUT_MODEL = ("mask", "excerpts")
"""The steps that take no time."""


@frozen
class Order:
    """A compaction that somebody wants.

    :ivar run: the recipe, with what the user asked it to keep in mind.
    :ivar state: the conversation, frozen, of the context's `revision`.
    :ivar call: asks the model that writes summaries.
    :ivar index: of the state's original entries.
    :ivar asked: whether the hooks have been asked about it.
    :ivar note: for the receipt.
    """

    run: RecipeRun
    trigger: CompactionTrigger
    state: ConversationState
    revision: int
    policy: CompactionPolicy
    call: ModelCall
    native: NativeCompaction | None
    writer: Writer | None
    index: ExcerptIndex
    asked: bool = False
    note: str = ""

    def with_steps(self, *steps: str) -> Order:
        """Return the same by these strategies alone."""
        return replace(self, policy=replace(self.policy, steps=steps))

    @property
    def terms(self) -> tuple[object, ...]:
        """What decides how the summary reads: recipe, words to the model, bounds; and, last, the model."""
        policy = replace(self.policy, size=None, by_hand=True, must_fit=False, steps=None, sent={})
        policy = replace(policy, max_images=None, max_bytes=None)
        return self.run.recipe.digest, policy, (self.call, self.writer or self.state.request.model)


@frozen
class Prepared:
    """A result that waits to be used, and how long it took."""

    order: Order
    result: CompactedState
    seconds: float


class Orders:
    """Makes one session's orders."""

    def __init__(self, host: SessionHost, source: Source) -> None:
        self._host = host
        self._source = source
        self._told: set[str] = set()

    async def make(
        self,
        trigger: CompactionTrigger,
        active: ActiveModel,
        run: RecipeRun | None = None,
        *,
        must_fit: bool = False,
        refused: OverflowLimit | None = None,
        window: int | None = None,
        instructions: str = "",
    ) -> Order | None:
        """Return an order for the conversation as it is; None where no recipe compacts.

        :param run: the recipe that the user ran; the one named `compact` where not given.
        :param must_fit: whether the request cannot be sent as it is.
        :param refused: what a provider said there was too much of, whatever we count.
        :param window: tokens, by our count, that it has to fit into; None for the model's window.
        :param instructions: those of the hook that asks.
        :raises RecipeError: the recipe cannot be rendered.
        :raises CompactionError: see `_writer`.
        """
        host, known = self._host, active.budget.window
        if run is None:
            recipe = (await host.recipes.library()).get(COMPACT)
            if recipe is None:
                return None
            run = RecipeRun(recipe, instructions, ())
        if window is not None and window < known:
            longest = min(active.max_output_tokens, max(1, window // 2))
            active = replace(active, budget=replace(active.budget, window=window), max_output_tokens=longest)
        prompt = await run.rendered(around=host.surroundings(run.recipe))
        prompt = "\n\n".join((prompt, *await host.hooks.added_to(run, prompt)))
        index, revision, request = await self._source.index(), host.context.revision, host.requests.request(active)
        state = await self._state(active, request, guessed=active.budget.window < known)
        if refused == "bytes" and state.budget.used < state.budget.window:
            # What was refused is taken to fill the window: bytes say nothing of our count.
            state = replace(state, budget=replace(state.budget, window=max(1, state.budget.used)), guessed=True)
        policy = await self._policy(trigger, active, run, prompt, state, refused)
        writer = await self._writer(run.recipe, active, by_hand=trigger == "manual")
        return Order(
            run,
            trigger,
            state,
            revision,
            replace(policy, must_fit=must_fit),
            (writer or active).provider.stream,
            active.native,
            Writer(writer.model_id, writer.budget.window, writer.max_output_tokens) if writer else None,
            index,
        )

    async def now(self, order: Order, active: ActiveModel, *, turn_over: bool) -> Order:
        """Return the same for the conversation as it is now; no prompt is being worked on where the turn is over."""
        index, revision = await self._source.index(), self._host.context.revision
        state = await self._state(active, self._host.requests.request(active), guessed=False)
        state = replace(state, turn_from=None) if turn_over else state
        return replace(order, state=state, revision=revision, index=index)

    async def strategy(self, model: str) -> str:
        """Return the strategy that an automatic compaction of this `provider/model` begins with."""
        recipe = (await self._host.recipes.library()).get(COMPACT)
        return self._host.compaction_settings(model).strategy or (recipe and _options(recipe).strategy) or "summary"

    async def _state(self, active: ActiveModel, request: ModelRequest, *, guessed: bool) -> ConversationState:
        return ConversationState.from_context(
            self._host.context,
            request,
            active.budget,
            await read_workspace(self._host.context),
            rate=active.rate,
            guessed=guessed,
            rules=await self._host.permissions.rules(),
            source=self._source.entries,
        )

    async def _policy(
        self,
        trigger: CompactionTrigger,
        active: ActiveModel,
        run: RecipeRun,
        prompt: str,
        state: ConversationState,
        refused: OverflowLimit | None,
    ) -> CompactionPolicy:
        said, options, swap = self._host.compaction_settings(active.name), _options(run.recipe), run.swap
        size = said.size or options.size
        tokens = size.tokens(active.budget.window) if isinstance(size, Share) else size
        by_hand, messages = trigger in BY_HAND, state.request.messages
        if by_hand and tokens is not None:
            tokens = min(tokens, int(state.budget.messages * BY_HAND_SHARE))
        sent = (await self._host.requests.limits(active, messages)).sent
        return CompactionPolicy(
            prompt=prompt,
            strategy=said.strategy or options.strategy or "summary",
            size=tokens,
            tail=swap.keep_tail_tokens,
            summary=swap.max_summary_tokens,
            sections=options.sections or (),
            verify=options.verify or "mark",
            by_hand=by_hand,
            # A provider may take less than is known of it.
            max_images=count_images(messages) - 1 if refused == "images" else active.max_images,
            max_bytes=request_bytes(messages, sent) - 1 if refused == "bytes" else active.max_bytes,
            sent=sent,
        )

    async def _writer(self, recipe: Recipe, active: ActiveModel, *, by_hand: bool) -> ActiveModel | None:
        """Return the model that is named for summaries; None where it is the session's own.

        The session's own takes its place where it cannot be used, unless the user waits for the answer.

        :raises CompactionError: it cannot be used; names what has to be corrected.
        """
        host = self._host
        name, where = host.settings.compaction_for(active.name).model, "in config.yaml"
        if name is None:
            name, where = _options(recipe).model, f"of the recipe {recipe.source}"
        if name is None or name == active.name:
            return None
        try:
            return await host.models.named(name)
        except (ConfigError, ModelError) as error:
            wrong = f"{name}, which `compaction.model` {where} names for summaries, cannot be used: {error}"
            if by_hand:
                advice = (
                    "Nothing was changed; correct that key, or leave it out and have the session's own model write."
                )
                raise CompactionError(wrong, advice) from error
            await self.tell_once(f"{wrong} The session's own model writes them.")
            return None

    async def tell_once(self, text: str) -> None:
        """Tell the user what would otherwise be told at each attempt."""
        if text not in self._told:
            self._told.add(text)
            await self._host.tell(text)


def _options(recipe: Recipe) -> CompactionOptions:
    return recipe.compaction or CompactionOptions()
