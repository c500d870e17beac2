"""Recipes: Markdown files with YAML front matter, each a slash command in the editor and a name for `run -r`.

Owns their form, their discovery and their rendering. Knows nothing of models, sessions or what a hook's handler does:
the names of the handlers and of the tools that exist are given to it.

Importing this package loads neither yaml, pydantic nor jinja2.
"""

from __future__ import annotations

from acp_agent.recipes.library import RecipeLibrary, builtin_recipes_dir
from acp_agent.recipes.model import (
    Argument,
    CompactionOptions,
    HookBinding,
    Known,
    KnownHandlers,
    NamedHandler,
    Origin,
    Recipe,
    RequiredHooks,
    Verify,
)
from acp_agent.recipes.template import render

__all__ = [
    "Argument",
    "CompactionOptions",
    "HookBinding",
    "Known",
    "KnownHandlers",
    "NamedHandler",
    "Origin",
    "Recipe",
    "RecipeLibrary",
    "RequiredHooks",
    "Verify",
    "builtin_recipes_dir",
    "render",
]
