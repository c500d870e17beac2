"""Recipes: Markdown files with YAML front matter, each a slash command in the editor and a name for `run -r`.

The names of handlers, tools, strategies and providers that a file may use are given as `Known`.

Importing this package loads neither yaml, pydantic nor jinja2.
"""

from __future__ import annotations

from acp_agent.recipes.discovery import RecipeLibrary, builtin_recipes_dir
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
