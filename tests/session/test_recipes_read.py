"""How often a session reads its recipes, which takes some milliseconds each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import anyio

from acp_agent.app import DATABASE, build_services
from acp_agent.config import Settings
from acp_agent.recipes.discovery import RecipeLibrary
from acp_agent.session.host import SessionHost
from acp_agent.session.recipes import SessionRecipes
from acp_agent.session.trusting import SessionTrust
from acp_agent.storage.sqlite import SqliteStore


@dataclass
class Host:
    """The session as its recipes see it, before their commands are shown."""

    settings: Settings
    trust: SessionTrust | None = None

    async def tell(self, text: str) -> None:
        raise AssertionError(text)


async def test_the_recipes_of_a_project_are_read_once_until_something_changes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    recipe = project / ".acp-agent" / "recipes" / "look.md"
    recipe.parent.mkdir(parents=True)
    recipe.write_text("Look.\n")
    store = await SqliteStore.open(tmp_path / "state" / DATABASE)
    services = build_services(store, {"HOME": str(tmp_path), "ACP_AGENT_HOME": str(tmp_path / "state")})
    read: list[Path] = []

    def library(settings: Settings, cwd: Path, trusted: Callable[[Path], str | None]) -> RecipeLibrary:
        read.append(cwd)
        return services.library(settings, cwd, trusted)

    counted = replace(services, library=library)
    host = Host(services.settings(project))
    host.trust = SessionTrust(cast(SessionHost, host), counted, project)
    recipes = SessionRecipes(cast(SessionHost, host), counted, project)
    with anyio.fail_after(10):
        for times in (1, 1, 2):
            if times == 2:
                recipe.write_text("Look again.\n")
            recipes.invalidate()
            await recipes.library()
            assert len(read) == times
    await store.aclose()
