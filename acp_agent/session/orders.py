"""From a recipe, the configuration and the models to the order for a compaction; and whether one serves another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.compaction.calls import ModelCall
from acp_agent.compaction.estimate import count_images, request_bytes
from acp_agent.compaction.fitting import target_tokens
from acp_agent.compaction.state import DEFAULT_TARGET, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.errors import CompactionError, ConfigError, ModelError, OverflowLimit
from acp_agent.frozen import frozen
from acp_agent.recipes.model import CompactionOptions, Recipe
from acp_agent.session.commands import COMPACT, RecipeRun
from acp_agent.session.models import ActiveModel
from acp_agent.session.ordering import Order, Prepared
from acp_agent.session.swapping import tokens_after
from acp_agent.session.workspace import read_workspace

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

BY_HAND: tuple[CompactionTrigger, ...] = ("manual", "hook")
"""Somebody wants a short context, however much room there is."""


@frozen
class Wanted:
    """What somebody wants compacted.

    :ivar context: what to compact; the context as it is where None.
    :ivar must_fit: whether the request cannot be sent as it is.
    :ivar refused: what a provider said there was too much of, whatever we count.
    :ivar window: tokens, by our count, that it has to fit into; None for the model's window.
    :ivar instructions: what a hook wants kept in mind.
    """

    trigger: CompactionTrigger
    context: Context | None = None
    must_fit: bool = False
    refused: OverflowLimit | None = None
    window: int | None = None
    instructions: str = ""


class Orders:
    """Makes one session's orders."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._told: set[str] = set()

    async def by_hand(self, run: RecipeRun) -> Order:
        """The order for a compaction that the user asks for.

        :raises AgentError: no model is there, or see `_order`.
        """
        host = self._host
        return await self._order(run, Wanted("manual"), await host.models.active(host.model))

    async def automatic(self, wanted: Wanted, active: ActiveModel, last: ActiveModel | None = None) -> Order | None:
        """The order for a compaction that no prompt names a recipe for; None where no recipe compacts.

        :param last: the model that was used before, which writes where its window is larger.
        :raises RecipeError: see `_order`.
        """
        recipe = (await self._host.recipes.library()).get(COMPACT)
        if recipe is None:
            return None
        order = await self._order(RecipeRun(recipe, wanted.instructions, ()), wanted, active)
        if last is None or order.writer is not None:
            return order
        if last.name == active.name or last.budget.window <= active.budget.window:
            return order
        # It still holds the conversation, and has it in its cache.
        writer = Writer(last.model_id, last.budget.window, last.max_output_tokens)
        return replace(order, call=last.provider.stream, writer=writer, native=None)

    async def _order(self, run: RecipeRun, wanted: Wanted, active: ActiveModel) -> Order:
        """The order for a compaction with this recipe.

        :raises RecipeError: the recipe cannot be rendered.
        :raises CompactionError: see `_writer`.
        """
        host, refused = self._host, wanted.refused
        context = wanted.context or host.context
        guessed = wanted.window is not None and wanted.window < active.budget.window
        if wanted.window is not None and guessed:
            budget = replace(active.budget, window=wanted.window)
            longest = min(active.max_output_tokens, max(1, budget.window // 2))
            active = replace(active, budget=budget, max_output_tokens=longest)
        request = host.requests.request(active, context)
        said = host.compaction_settings(active.name)
        options, swap = run.recipe.compaction or CompactionOptions(), run.swap
        workspace = await read_workspace(context)
        # The first one loads the template engine.
        prompt = await run.rendered(around=host.surroundings(run.recipe))
        prompt = "\n\n".join((prompt, *await host.hooks.added_to(run, prompt)))
        state = ConversationState.from_context(
            context,
            request,
            active.budget,
            workspace,
            rate=active.rate,
            guessed=guessed,
            rules=await host.permissions.rules(),
        )
        if refused == "bytes" and state.budget.used < state.budget.window:
            # What was refused is taken to fill the window. The window gives way and not the count, which bytes say
            # nothing about: what is told of sizes, and what the new context is taken for, stays true.
            state = replace(state, budget=replace(state.budget, window=max(1, state.budget.used)), guessed=True)
        sent = (await host.requests.limits(active, request.messages)).sent
        policy = CompactionPolicy(
            prompt=prompt,
            strategy=said.strategy or options.strategy or "summary",
            tail=options.tail_tokens(state.budget.window) if swap.keep_tail_tokens is None else swap.keep_tail_tokens,
            ledger=options.ledger,
            requests=options.requests,
            summary=_smaller(options.summary, swap.max_summary_tokens),
            sections=options.sections or (),
            verify=options.verify or "mark",
            by_hand=wanted.trigger in BY_HAND,
            must_fit=wanted.must_fit,
            # A provider may take less than is known of it.
            max_images=count_images(request.messages) - 1 if refused == "images" else active.max_images,
            max_bytes=request_bytes(request.messages, sent) - 1 if refused == "bytes" else active.max_bytes,
            sent=sent,
            target=said.target or options.target or DEFAULT_TARGET,
        )
        call: ModelCall = active.provider.stream
        writer = None
        other = await self._writer(run.recipe, active, by_hand=wanted.trigger == "manual")
        if other is not None:
            call = other.provider.stream
            writer = Writer(other.model_id, other.budget.window, other.max_output_tokens)
        return Order(
            run, wanted.trigger, state, context.revision, policy, call, active.native, writer, active.provider.stream
        )

    async def _writer(self, recipe: Recipe, active: ActiveModel, *, by_hand: bool) -> ActiveModel | None:
        """The model that is named for summaries; None where it is the session's own.

        The session's own takes its place where it cannot be used, unless the user waits for the answer: a context that
        is full has to become short, and a line that nobody looks at must not stand in the way.

        :raises CompactionError: it cannot be used; names what has to be corrected.
        """
        settings = self._host.settings
        name, where = settings.compaction_for(active.name).model, "in config.yaml"
        key = "compaction.model"
        if name is None:
            name, where = (recipe.compaction or CompactionOptions()).model, f"of the recipe {recipe.source}"
        elif active.name in settings.models and settings.models[active.name].compaction.model is not None:
            key = f"models.{active.name}.compaction.model"
        if name is None or name == active.name:
            return None
        try:
            return await self._host.models.named(name)
        except (ConfigError, ModelError) as error:
            wrong = f"{name}, which `{key}` {where} names for summaries, cannot be used: {str(error).rstrip('.')}."
            if by_hand:
                advice = (
                    "Nothing was changed; correct that key, or leave it out and have the session's own model write."
                )
                raise CompactionError(wrong, advice) from error
            if name not in self._told:
                self._told.add(name)
                await self._host.tell(f"{wrong} The session's own model writes them.")
            return None


def asks_for_the_same(order: Order, other: Order) -> bool:
    """Whether another order of this context differs in who wants it alone: it is by the same recipe, with the same
    words to the model and the same bounds."""
    recipes = order.run.recipe, other.run.recipe
    if recipes[0].name != recipes[1].name or recipes[0].digest != recipes[1].digest:
        return False
    return _terms(order.policy) == _terms(other.policy)


def same_writer(order: Order, other: Order) -> bool:
    """Whether the same model is to write the summary."""
    if order.call != other.call or order.writer != other.writer:
        return False
    return order.writer is not None or order.state.request.model == other.state.request.model


def will_do(order: Order, prepared: Prepared, context: Context, steps: Sequence[str]) -> bool:
    """Whether a result may be used in the place of what is ordered by hand: one that its own steps could have had, and
    that is short enough with what was said since.

    :param steps: names of the strategies that the order would try.
    """
    after = tokens_after(context, prepared.order.state, prepared.result)
    most = min(target_tokens(order.state, order.policy, None), order.state.budget.used - 1)
    return prepared.result.strategy in steps and after <= most


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _terms(policy: CompactionPolicy) -> CompactionPolicy:
    return replace(policy, by_hand=True, must_fit=False, steps=None, max_images=None, max_bytes=None, sent={})
