"""How often a session reads its recipes, which takes some milliseconds each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio

from acp_agent.config import Settings
from acp_agent.recipes.discovery import RecipeLibrary
from acp_agent.session.project.recipes import SessionRecipes
from acp_agent.session.project.trust import SessionTrust
from support.session_parts import parts


async def test_the_recipes_of_a_project_are_read_once_until_something_changes(tmp_path: Path) -> None:
    async with parts(tmp_path) as it:
        recipe = it.state.cwd / ".acp-agent" / "recipes" / "look.md"
        recipe.parent.mkdir(parents=True)
        recipe.write_text("Look.\n")
        read: list[Path] = []

        def library(settings: Settings, cwd: Path, trusted: Callable[[Path], str | None]) -> RecipeLibrary:
            read.append(cwd)
            return it.services.library(settings, cwd, trusted)

        counted = replace(it.services, library=library)
        trust = SessionTrust(it.state, counted, it.client, it.notices)
        recipes = SessionRecipes(it.state, counted, trust, it.notices)
        with anyio.fail_after(10):
            for times in (1, 1, 2):
                if times == 2:
                    recipe.write_text("Look again.\n")
                await recipes.library()
                assert len(read) == times
        assert it.shown == []
