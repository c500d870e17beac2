"""`Lent`: a provider that can be retired while it answers: its connections are closed when the last request is over.

Whoever holds it may ask it once more; then they are made anew, and closed again. Knows no adapter.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager

import anyio

from acp_agent.llm.making import WarmProvider
from acp_agent.llm.provider import Compacted, ModelEvent, ModelRequest, NativeCompaction

CLOSING_SECONDS = 2.0
"""How long closing may keep whoever was the last to ask, also where that was cancelled."""


class Lent:
    """A provider; see `Provider`."""

    def __init__(self, provider: WarmProvider) -> None:
        self._provider = provider
        self._uses = 0
        self._retired = False

    @property
    def name(self) -> str:
        """The provider's own."""
        return self._provider.name

    async def prewarm(self) -> None:
        """See `WarmProvider.prewarm`."""
        await self._provider.prewarm()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`."""
        async with self._used(), aclosing(self._provider.stream(request)) as events:
            async for event in events:
                yield event

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return self._provider.context_window(model)

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`."""
        async with self._used():
            await self._provider.learn_window(model)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `Provider.count_tokens`."""
        async with self._used():
            return await self._provider.count_tokens(request)

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        async with self._used():
            return await self._provider.models()

    async def retire(self) -> None:
        """Close its connections, those of requests that are being answered when they are over."""
        self._retired = True
        if not self._uses:
            await self._close()

    async def aclose(self) -> None:
        """See `Provider.aclose`."""
        await self._provider.aclose()

    @asynccontextmanager
    async def _used(self) -> AsyncGenerator[None]:
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if self._retired and not self._uses:
                await self._close()

    async def _close(self) -> None:
        with anyio.CancelScope(deadline=anyio.current_time() + CLOSING_SECONDS, shield=True):
            await self._provider.aclose()


class _LentNative(Lent):
    """The same with a compaction of the provider's own."""

    def __init__(self, provider: WarmProvider, native: NativeCompaction) -> None:
        super().__init__(provider)
        self._native = native

    @property
    def keeps_user_messages(self) -> bool:
        """See `NativeCompaction.keeps_user_messages`."""
        return self._native.keeps_user_messages

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> Compacted:
        """See `NativeCompaction.compact`."""
        async with self._used():
            return await self._native.compact(request, instructions, again)


def lent(provider: WarmProvider) -> Lent:
    """A provider that can be retired."""
    return _LentNative(provider, provider) if isinstance(provider, NativeCompaction) else Lent(provider)
