"""The built-in handlers that a recipe can name in its `hooks`."""

from __future__ import annotations

from typing import Protocol

from acp_agent.hooks.events import Action, HookEvent, RequestCompaction, SwapContext


class Handler(Protocol):
    """Answers an event with actions."""

    @property
    def name(self) -> str:
        """As a recipe names it."""
        ...

    async def handle(self, event: HookEvent) -> tuple[Action, ...]:
        """What should happen now; empty for nothing."""
        ...


class SwapContextHandler:
    """`swap_context`: the answer that ends the turn takes the place of the conversation."""

    name = "swap_context"

    async def handle(self, event: HookEvent) -> tuple[Action, ...]:
        """A swap, unless the answer is blank."""
        return (SwapContext(event.response),) if event.response.strip() else ()


class CompactHandler:
    """`compact`: once the recipe has done its work, the conversation is compacted."""

    name = "compact"

    async def handle(self, event: HookEvent) -> tuple[Action, ...]:
        """A compaction, whatever the answer was."""
        del event
        return (RequestCompaction(),)


def builtin_handlers() -> tuple[Handler, ...]:
    """All handlers that we ship."""
    return (SwapContextHandler(), CompactHandler())
