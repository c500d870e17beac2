"""Which model a session uses right now, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.compaction.budget import TokenBudget
from acp_agent.errors import ModelAuthError
from acp_agent.llm.provider import Provider
from acp_agent.llm.registry import NO_MODEL, Registry


@dataclass(frozen=True, slots=True)
class ActiveModel:
    """A model that is ready to be asked.

    :ivar name: `provider/model`.
    :ivar model_id: the provider's own id.
    :ivar max_output_tokens: upper bound of one answer.
    """

    name: str
    model_id: str
    provider: Provider
    budget: TokenBudget
    max_output_tokens: int


class SessionModels:
    """Resolves names to models, and remembers the last."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._active: ActiveModel | None = None
        self._default: str | None = None

    async def name(self, chosen: str) -> str | None:
        """The model in use.

        :param chosen: what the session's user chose; empty for the default, which a key that was set meanwhile decides.
        :returns: `provider/model`; None where nothing is configured.
        """
        if chosen:
            return chosen
        if self._default is None:
            self._default = await self._registry.default_model()
        return self._default

    async def active(self, chosen: str) -> ActiveModel:
        """The model in use, ready to be asked.

        :raises ModelAuthError: nothing is configured; says what to set.
        :raises ConfigError: the name's provider is unknown.
        """
        name = await self.name(chosen)
        if name is None:
            raise ModelAuthError(NO_MODEL)
        if self._active is None or self._active.name != name:
            resolved = self._registry.resolve(name)
            window = await self._registry.context_window(name)
            output = min(resolved.profile.max_output_tokens, window // 2)
            self._active = ActiveModel(name, resolved.id, resolved.provider, TokenBudget(window, output), output)
        return self._active

    def knows(self, name: str) -> bool:
        """Whether a name is a model's and its provider is there."""
        return self._registry.knows(name)

    async def choices(self) -> tuple[str, ...]:
        """What may be chosen from."""
        return await self._registry.available_models()

    async def prewarm(self, chosen: str) -> None:
        """Load what the model in use needs, so that the first prompt does not wait for it."""
        name = await self.name(chosen)
        if name is not None:
            await self._registry.prewarm(name)

    async def aclose(self) -> None:
        """Close connections."""
        await self._registry.aclose()
