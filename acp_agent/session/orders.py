"""From a recipe, the configuration and the models to the order for a compaction."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.calls import ModelCall
from acp_agent.compaction.estimate import count_images, request_bytes
from acp_agent.compaction.state import DEFAULT_TARGET, CompactionPolicy, ConversationState, Workspace
from acp_agent.compaction.strategy import Writer
from acp_agent.config import Settings
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.errors import OverflowLimit
from acp_agent.llm.provider import ModelRequest
from acp_agent.recipes.model import CompactionOptions
from acp_agent.session.commands import RecipeRun
from acp_agent.session.compacting import Order
from acp_agent.session.models import ActiveModel, SessionModels

BY_HAND: tuple[CompactionTrigger, ...] = ("manual", "hook")
"""Somebody wants a short context, however much room there is."""


async def order_for(
    run: RecipeRun,
    trigger: CompactionTrigger,
    *,
    context: Context,
    request: ModelRequest,
    active: ActiveModel,
    models: SessionModels,
    settings: Settings,
    workspace: Workspace,
    must_fit: bool = False,
    refused: OverflowLimit | None = None,
) -> Order:
    """The order for a compaction of this context.

    :param request: the live request for it.
    :param must_fit: whether the request cannot be sent as it is.
    :param refused: what a provider said there was too much of, whatever we count.
    :raises RecipeError: the recipe cannot be rendered.
    :raises ConfigError: the model that is named for summaries is not there.
    """
    said = settings.compaction_for(active.name)
    options = run.recipe.compaction or CompactionOptions()
    state = ConversationState.from_context(context, request, active.budget, workspace)
    if refused == "bytes" and state.budget.used < state.budget.window:
        # What was refused is taken to fill the window.
        state = replace(state, budget=state.budget.filled(state.budget.window, state.budget.system))
    policy = CompactionPolicy(
        # The first one loads the template engine.
        prompt=await run.rendered(),
        strategy=said.strategy or options.strategy or "summary",
        tail=options.tail_tokens(active.budget.window),
        ledger=options.ledger,
        requests=options.requests,
        summary=options.summary,
        sections=options.sections or (),
        verify=options.verify or "mark",
        by_hand=trigger in BY_HAND,
        must_fit=must_fit,
        # A provider may take less than is known of it.
        max_images=count_images(request.messages) - 1 if refused == "images" else active.max_images,
        max_bytes=request_bytes(request.messages) - 1 if refused == "bytes" else active.max_bytes,
        target=said.target or options.target or DEFAULT_TARGET,
    )
    call: ModelCall = active.provider.stream
    writer = None
    name = said.model or options.model
    if name is not None and name != active.name:
        other = await models.named(name)
        call = other.provider.stream
        writer = Writer(other.model_id, other.budget.window, other.max_output_tokens)
    return Order(run, trigger, state, context.revision, policy, call, active.native, writer)
