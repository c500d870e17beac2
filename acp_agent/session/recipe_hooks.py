"""The hooks that a recipe names, as the dispatcher takes them. Loaded with the first prompt."""

from __future__ import annotations

from acp_agent.config.hook_events import event_name
from acp_agent.hooks.contract import Hook
from acp_agent.hooks.handlers import BoundHandler, builtin_handlers
from acp_agent.recipes.model import NamedHandler, Recipe


def recipe_hooks(recipe: Recipe) -> tuple[tuple[Hook, ...], tuple[Hook, ...]]:
    """Those that are asked after all others, and those before."""
    handlers = builtin_handlers()
    last: list[Hook] = []
    first: list[Hook] = []
    for word, binding in recipe.hooks.items():
        event = event_name(word)
        if event is None:
            continue
        for hooks, named in ((last, binding.handlers), (first, binding.first)):
            hooks.extend(
                BoundHandler(
                    handlers[each.name], event, _place(recipe, word, each), binding.once, each.params, each.on_error
                )
                for each in named
            )
    return tuple(last), tuple(first)


def _place(recipe: Recipe, word: str, handler: NamedHandler) -> str:
    return f"{recipe.source}: hooks.{word}.{handler.name}"
