"""What a hook that is written in Python may use of the session that it is asked in."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.conversation.messages import Message, Text, UserMessage, new_id
from acp_agent.errors import CompactionError, HookError
from acp_agent.llm.provider import Answered, ModelRequest
from acp_agent.session.commands import COMPACT, RecipeRun
from acp_agent.session.models import ActiveModel
from acp_agent.session.services import Services
from acp_agent.storage.store import SessionStore

if TYPE_CHECKING:
    from acp_agent.compaction.state import CompactedState
    from acp_agent.session.host import SessionHost


class HookServices:
    """See `acp_agent.hooks.contract.Services`."""

    def __init__(self, host: SessionHost, services: Services) -> None:
        self._host = host
        self._services = services
        self.log = logging.getLogger("acp_agent.hooks")

    @property
    def store(self) -> SessionStore:
        """All sessions, with their logs."""
        return self._services.store

    @property
    def home(self) -> Path:
        """The agent's own folder."""
        return self._host.settings.home

    async def compaction(
        self, messages: Sequence[Message] | None = None, *, prompt: str | None = None, model: str | None = None
    ) -> CompactedState:
        """Compact a conversation without changing it.

        :param messages: what to compact; the session's context where None.
        :param prompt: what the model is told to write; the text of the recipe `compact` where None.
        :param model: `provider/model` that writes it; the session's own where None.
        :raises AgentError: nothing came of it.
        """
        from acp_agent.compaction.state import CompactionPolicy, ConversationState
        from acp_agent.compaction.strategy import Writer

        host = self._host
        own = await host.models.active(host.model)
        request = host.requests.request(own)
        if messages is None:
            rules = await host.permissions.rules()
            state = ConversationState.from_context(host.context, request, own.budget, rules=rules)
        else:
            state = ConversationState.of(
                messages,
                window=own.budget.window,
                model=own.model_id,
                system=request.system,
                tools=request.tools,
                max_output_tokens=own.max_output_tokens,
                cwd=host.context.cwd,
            )
        writing = await self._named(model)
        writer = None
        if writing.name != own.name:
            writer = Writer(writing.model_id, writing.budget.window, writing.max_output_tokens)
        policy = CompactionPolicy(prompt=prompt or await self._recipe_text())
        result = await self._services.compaction()(state, policy, writing.provider.stream, writer=writer)
        if result is None:
            raise CompactionError("There is nothing to compact yet.")
        return result

    async def ask_model(self, prompt: str, *, system: str = "", model: str | None = None) -> str:
        """Have a model answer one question, with no tools and nothing of the session.

        :param model: `provider/model`; the session's own where None.
        :raises AgentError: it did not answer.
        """
        active = await self._named(model)
        message = UserMessage(new_id("msg"), (Text(prompt),))
        request = ModelRequest(active.model_id, system, (message,), (), active.max_output_tokens)
        async with aclosing(active.provider.stream(request)) as events:
            async for event in events:
                if isinstance(event, Answered):
                    return "".join(part.text for part in event.parts if isinstance(part, Text))
        raise HookError(f"The model {active.name} ended its answer without an end. Try again.")

    async def _named(self, model: str | None) -> ActiveModel:
        models = self._host.models
        return await (models.active(self._host.model) if model is None else models.named(model))

    async def _recipe_text(self) -> str:
        recipe = (await self._host.recipes.library()).get(COMPACT)
        if recipe is None:
            raise CompactionError("There is no recipe named compact, and no other prompt was given.")
        return await RecipeRun(recipe, "", ()).rendered(around=self._host.surroundings(recipe))
