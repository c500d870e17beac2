"""A provider whose requests are sent with what their messages refer to. Knows no session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing
from typing import Protocol, TypeAlias

from acp_agent.errors import ImageRefusedError, ModelRequestError
from acp_agent.frozen import frozen
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Compacted, ModelEvent, ModelRequest, NativeCompaction, Provider

Refused: TypeAlias = frozenset[Hashable]
"""Images, by names that only who gives them knows."""


class Resolver(Protocol):
    """Who has what messages refer to."""

    async def resolved(self, request: ModelRequest, profile: ModelProfile) -> ModelRequest:
        """The request with the bytes that its messages refer to, without images that were refused."""
        ...

    def answered(self, request: ModelRequest, profile: ModelProfile) -> None:
        """Hear that a request was answered, so that its images are fine."""
        ...

    def refused(self, request: ModelRequest, profile: ModelProfile) -> Refused:
        """Hear that a request was refused for an image.

        :returns: those that are left out from now on; empty where the newest prompt brings all that it may have been.
        """
        ...

    def acquit(self, images: Refused) -> None:
        """Hear that it was none of these."""
        ...


@frozen
class _Attaching:
    """A provider; see `Provider`."""

    provider: Provider
    profile: ModelProfile
    resolver: Resolver

    @property
    def name(self) -> str:
        """The provider's own."""
        return self.provider.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`.

        Where a request is refused for an image that is in the conversation already, it is sent again without: every
        later request would be refused as well.
        """
        try:
            async with aclosing(self._stream(request)) as events:
                async for event in events:
                    yield event
            return
        except ImageRefusedError as error:
            images = frozenset[Hashable]() if error.partial else self.resolver.refused(request, self.profile)
            if not images:
                raise
            refusal = error
        try:
            async with aclosing(self._stream(request)) as events:
                async for event in events:
                    yield event
        except ModelRequestError as error:
            if error.partial:
                raise
            self.resolver.acquit(images)
            raise refusal from None

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        is_answered = False
        async with aclosing(self.provider.stream(await self._resolved(request))) as events:
            async for event in events:
                if not is_answered:
                    is_answered = True
                    self.resolver.answered(request, self.profile)
                yield event

    async def _resolved(self, request: ModelRequest) -> ModelRequest:
        return await self.resolver.resolved(request, self.profile)

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return self.provider.context_window(model)

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`."""
        await self.provider.learn_window(model)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `Provider.count_tokens`."""
        return await self.provider.count_tokens(await self._resolved(request))

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
        return await self.native.compact(await self._resolved(request), instructions, again)


def attaching(provider: Provider, profile: ModelProfile, resolver: Resolver) -> Provider:
    """A provider that is given whole requests.

    :param profile: what is known of the model that is asked.
    :param resolver: puts the bytes into a request for such a model.
    """
    if isinstance(provider, NativeCompaction):
        return _AttachingNative(provider, profile, resolver, provider)
    return _Attaching(provider, profile, resolver)
