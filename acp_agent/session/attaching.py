"""A provider whose requests are sent with what their messages refer to. Knows no session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from acp_agent.frozen import frozen
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Compacted, ModelEvent, ModelRequest, NativeCompaction, Provider

Resolve = Callable[[ModelRequest, ModelProfile], Awaitable[ModelRequest]]


@frozen
class _Attaching:
    """A provider; see `Provider`."""

    provider: Provider
    profile: ModelProfile
    resolve: Resolve

    @property
    def name(self) -> str:
        """The provider's own."""
        return self.provider.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`."""
        async with aclosing(self.provider.stream(await self.resolve(request, self.profile))) as events:
            async for event in events:
                yield event

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return self.provider.context_window(model)

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`."""
        await self.provider.learn_window(model)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `Provider.count_tokens`."""
        return await self.provider.count_tokens(await self.resolve(request, self.profile))

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        return await self.provider.models()

    async def aclose(self) -> None:
        """See `Provider.aclose`."""
        await self.provider.aclose()


@frozen
class _AttachingNative(_Attaching):
    """The same with a compaction of the provider's own."""

    native: NativeCompaction

    @property
    def keeps_user_messages(self) -> bool:
        """See `NativeCompaction.keeps_user_messages`."""
        return self.native.keeps_user_messages

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> Compacted:
        """See `NativeCompaction.compact`."""
        return await self.native.compact(await self.resolve(request, self.profile), instructions, again)


def attaching(provider: Provider, profile: ModelProfile, resolve: Resolve) -> Provider:
    """A provider that is given whole requests.

    :param profile: what is known of the model that is asked.
    :param resolve: puts the bytes into a request for such a model.
    """
    if isinstance(provider, NativeCompaction):
        return _AttachingNative(provider, profile, resolve, provider)
    return _Attaching(provider, profile, resolve)
