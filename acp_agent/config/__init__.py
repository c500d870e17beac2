"""Loads and validates the settings. Also stores keys, permission rules and decisions to
trust a project.

Later layers override earlier ones: built-in defaults, `config.yaml` in the agent's
home, the project's `.acp-agent/config.yaml`, the environment.

Importing this package loads neither yaml nor pydantic; both are loaded with the first
configuration file. `Settings` is imported on first use, since a handshake may only need
the path of the agent's home.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_agent.config.home import ensure_private_dir, home_dir
from acp_agent.lazy import on_demand

if TYPE_CHECKING:
    from acp_agent.config.load import load_settings
    from acp_agent.config.project import project_dir
    from acp_agent.config.settings import HookCommand, Settings

__all__ = [
    "HookCommand",
    "Settings",
    "ensure_private_dir",
    "home_dir",
    "load_settings",
    "project_dir",
]

__getattr__ = on_demand(__name__, ("settings", "load", "project"), __all__)
