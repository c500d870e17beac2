"""The built-in handlers that a recipe can name in its `hooks`, and how one becomes a hook of the recipe's run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.hooks.contract import TIME_LIMIT, OnError, Origin, Services
from acp_agent.hooks.events import EventName, HookEvent, TurnEnd
from acp_agent.hooks.outcomes import NOTHING, Compact, Outcome, SwapContext


class Handler(Protocol):
    """Answers an event."""

    @property
    def name(self) -> str:
        """As a recipe names it."""
        ...

    @property
    def events(self) -> frozenset[EventName]:
        """What a recipe may bind it to."""
        ...

    async def handle(self, event: HookEvent, params: JsonObject) -> Outcome:
        """What should happen now.

        :param params: what the recipe says of how, checked when it was read.
        :raises HookError: it cannot do what it is there for.
        """
        ...


class SwapContextHandler:
    """`swap_context`: the answer that ends the turn takes the place of the conversation."""

    name = "swap_context"
    events: frozenset[EventName] = frozenset({"turn_end"})

    async def handle(self, event: HookEvent, params: JsonObject) -> Outcome:
        """A swap, unless the answer is blank."""
        if not isinstance(event, TurnEnd) or not event.response.strip():
            return NOTHING
        return Outcome(action=SwapContext(event.response))


class CompactHandler:
    """`compact`: once the recipe has done its work, the conversation is compacted."""

    name = "compact"
    events: frozenset[EventName] = frozenset({"turn_end"})

    async def handle(self, event: HookEvent, params: JsonObject) -> Outcome:
        """A compaction, whatever the answer was."""
        return Outcome(action=Compact())


def builtin_handlers() -> Mapping[str, Handler]:
    """All handlers that we ship, by name."""
    handlers: tuple[Handler, ...] = (SwapContextHandler(), CompactHandler())
    return {handler.name: handler for handler in handlers}


def known_handlers(handlers: Iterable[Handler]) -> dict[str, frozenset[str]]:
    """The events that a recipe may hook into, each with the handlers that it may name there."""
    known: dict[str, frozenset[str]] = {}
    for handler in handlers:
        for event in handler.events:
            known[event] = known.get(event, frozenset()) | {handler.name}
    return known


@dataclass(frozen=True, slots=True)
class BoundHandler:
    """A handler that a recipe has bound to an event, as a hook.

    :ivar source: the recipe's file.
    :ivar once: whether it is asked only at the first answer of the run, so that a follow-up in the same run does not
        repeat it.
    """

    handler: Handler
    event: EventName
    source: str
    once: bool = False
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    origin: Origin = "recipe"
    time_limit: float = TIME_LIMIT
    on_error: OnError = "allow"

    @property
    def name(self) -> str:
        """The handler's."""
        return self.handler.name

    @property
    def events(self) -> frozenset[EventName]:
        """The one."""
        return frozenset({self.event})

    def wants(self, event: HookEvent) -> bool:
        """Unless it was for the first answer alone."""
        return not (self.once and event.at.turn_number > 1)

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """What the handler wants."""
        return await self.handler.handle(event, self.params)
