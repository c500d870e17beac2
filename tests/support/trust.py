"""Allowing a project's hooks and recipes, as `acp-agent trust` does.

    write(folder, ".acp-agent/recipes/fix.md"); trust(home, folder)     # before the session's first prompt

Knows the agent's own store, and no question.
"""

from __future__ import annotations

from pathlib import Path

from acp_agent.app import project_places
from acp_agent.config import load_settings
from acp_agent.config.brought import read_brought
from acp_agent.config.trust import TrustStore


def trust(home: Path, folder: Path) -> None:
    """Allow what is in a folder now.

    :param home: of `support.client`, with the agent's state in `home / "state"`.
    :param folder: a session's working directory.
    """
    env = {"HOME": str(home), "ACP_AGENT_HOME": str(home / "state")}
    settings = load_settings(env, folder)
    commands = [command for command in settings.hooks if command.origin == "project"]
    TrustStore(settings.home).trust(
        read_brought(place, commands if place == settings.project else ())
        for place in project_places(env, settings, folder)
    )
