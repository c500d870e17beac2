"""The functions of a session that a Python hook may call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.messages import Message, Text, UserMessage, new_id
from acp_agent.errors import CompactionError, HookError
from acp_agent.hooks.contract import Summary
from acp_agent.llm.provider import Answered, ModelRequest
from acp_agent.session.project.models import ActiveModel
from acp_agent.session.project.recipes import RecipeRun, SessionRecipes
from acp_agent.session.project.requests import Requests
from acp_agent.session.services import Services
from acp_agent.storage.store import SessionStore


class HookServices:
    """Implements `acp_agent.hooks.contract.Services` for one session."""

    def __init__(self, services: Services, requests: Requests, recipes: SessionRecipes) -> None:
        self._services = services
        self._requests = requests
        self._recipes = recipes
        self.log = logging.getLogger("acp_agent.hooks")

    @property
    def store(self) -> SessionStore:
        """Return the store of all sessions."""
        return self._services.store

    @property
    def home(self) -> Path:
        """Return the agent's own folder."""
        return self._services.home

    async def compaction(
        self, messages: Sequence[Message] | None = None, *, prompt: str | None = None, model: str | None = None
    ) -> Summary:
        """Compact a conversation without changing it.

        :param messages: what to compact; the session's context if None.
        :param prompt: the instructions for the summary; the text of the recipe `compact` if None.
        :param model: `provider/model` that writes it; the session's own if None.
        :raises AgentError: it failed.
        """
        own = await self._requests.active()
        request = self._requests.request(own)
        if messages is None:
            state = ConversationState.from_context(self._requests.context, request, own.budget)
        else:
            state = ConversationState.of(
                messages,
                window=own.budget.window,
                model=own.model_id,
                system=request.system,
                tools=request.tools,
                max_output_tokens=own.max_output_tokens,
                cwd=self._requests.context.cwd,
            )
        writing = await self._named(model)
        writer = None
        if writing.name != own.name:
            writer = Writer(writing.model_id, writing.budget.window, writing.max_output_tokens)
        policy = CompactionPolicy(prompt=prompt or await self._recipe_text())
        result = await self._services.compaction()(state, policy, writing.stream, writer=writer)
        if result is None:
            raise CompactionError("There is nothing to compact yet.")
        return Summary(result.summary, result.tokens_before, result.tokens_after)

    async def ask_model(self, prompt: str, *, system: str = "", model: str | None = None) -> str:
        """Ask a model one question, with no tools and nothing of the session.

        :param model: `provider/model`; the session's own if None.
        :raises AgentError: it did not answer.
        """
        active = await self._named(model)
        message = UserMessage(new_id("msg"), (Text(prompt),))
        request = ModelRequest(active.model_id, system, (message,), (), active.max_output_tokens)
        async with aclosing(active.stream(request)) as events:
            async for event in events:
                if isinstance(event, Answered):
                    return "".join(part.text for part in event.parts if isinstance(part, Text))
        raise HookError(f"The model {active.name} ended its answer without an end. Try again.")

    async def _named(self, model: str | None) -> ActiveModel:
        return await (self._requests.active() if model is None else self._requests.named(model))

    async def _recipe_text(self) -> str:
        recipe = await self._recipes.compact_recipe()
        if recipe is None:
            raise CompactionError("There is no recipe named compact, and no other prompt was given.")
        return await self._recipes.render(RecipeRun(recipe, ""))
