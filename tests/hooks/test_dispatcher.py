"""Which hooks are asked, in which order, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from acp_agent.hooks.dispatcher import Binding, Dispatcher
from acp_agent.hooks.events import Action, HookEvent, SwapContext, TurnEnd
from acp_agent.hooks.handlers import builtin_handlers


@dataclass(frozen=True, slots=True)
class Says:
    """A handler that asks for a swap to its own name."""

    name: str

    async def handle(self, event: HookEvent) -> tuple[Action, ...]:
        return (SwapContext(f"{self.name} {event.turn_number}"),)


def turn_end(number: int = 1, response: str = "Done.") -> TurnEnd:
    return TurnEnd("s", "/shop", number, response)


async def test_hooks_are_asked_in_the_order_in_which_they_are_bound() -> None:
    dispatcher = Dispatcher([Says("a"), Says("b"), Says("c")])
    bindings = [Binding("turn_end", name) for name in ("c", "a", "c")]
    assert await dispatcher.dispatch(turn_end(), bindings) == (
        SwapContext("c 1"),
        SwapContext("a 1"),
        SwapContext("c 1"),
    )


async def test_a_hook_bound_once_fires_at_the_first_turn_of_a_run_only() -> None:
    dispatcher = Dispatcher([Says("a"), Says("b")])
    bindings = [Binding("turn_end", "a", once=True), Binding("turn_end", "b")]
    assert await dispatcher.dispatch(turn_end(1), bindings) == (SwapContext("a 1"), SwapContext("b 1"))
    assert await dispatcher.dispatch(turn_end(2), bindings) == (SwapContext("b 2"),)


async def test_hooks_of_other_events_and_no_hooks_change_nothing() -> None:
    dispatcher = Dispatcher(builtin_handlers())
    assert await dispatcher.dispatch(turn_end(), ()) == ()
    assert await dispatcher.dispatch(turn_end(), [Binding("turn_begin", "swap_context")]) == ()


@pytest.mark.parametrize(
    ("response", "actions"),
    [("# Goal", (SwapContext("# Goal"),)), ("", ()), (" \n", ())],
    ids=["text", "empty", "blank"],
)
async def test_swap_context_asks_for_a_swap_to_an_answer_that_says_something(
    response: str, actions: tuple[Action, ...]
) -> None:
    dispatcher = Dispatcher(builtin_handlers())
    assert await dispatcher.dispatch(turn_end(response=response), [Binding("turn_end", "swap_context")]) == actions


def test_recipes_are_told_which_handlers_there_are_for_each_event() -> None:
    assert Dispatcher(builtin_handlers()).known == {"turn_end": frozenset({"compact", "swap_context"})}
