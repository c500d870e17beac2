"""`Dispatcher`: tells each bound hook of an event, in order, and gathers the actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acp_agent.hooks.events import EVENT_NAMES, Action, HookEvent
from acp_agent.hooks.handlers import Handler


@dataclass(frozen=True, slots=True)
class Binding:
    """A handler bound to an event.

    :ivar once: whether it fires only at the first turn of the run that it belongs to, so that a follow-up question in
        the same run does not repeat it.
    """

    event: str
    handler: str
    once: bool = False


class Dispatcher:
    """Knows the handlers by name; who is bound to what comes with each call."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self._handlers = {handler.name: handler for handler in handlers}

    @property
    def known(self) -> dict[str, frozenset[str]]:
        """The events that a recipe may hook into, each with the handlers that it may name."""
        return {event: frozenset(self._handlers) for event in EVENT_NAMES}

    async def dispatch(self, event: HookEvent, bindings: Sequence[Binding]) -> tuple[Action, ...]:
        """Ask every hook bound to this event.

        :param bindings: in the order in which they are asked.
        :returns: what they want done, in that order; the caller performs it.
        """
        actions: list[Action] = []
        for binding in bindings:
            if binding.event == event.name and not (binding.once and event.turn_number > 1):
                actions.extend(await self._handlers[binding.handler].handle(event))
        return tuple(actions)
