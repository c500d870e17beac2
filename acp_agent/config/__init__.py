"""Settings: where they are kept, how they are read, and what may be said where.

Built-in defaults < `config.yaml` in the user's home of the agent < `.acp-agent/config.yaml` of the project < the
environment. Owns the one folder that holds all state, and the reading of small YAML files with line numbers, which
recipes use too. Knows nothing of models, sessions or tools: it carries their numbers, they give them meaning.

Importing this package loads neither yaml nor pydantic; a machine without a configuration file never does. It loads the
settings when they are asked for, since a handshake may need the folder alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from acp_agent.config.home import ensure_private_dir, home_dir, project_dir

if TYPE_CHECKING:
    from acp_agent.config.load import load_settings
    from acp_agent.config.settings import (
        MODES,
        CompactionChoices,
        CompactionSettings,
        HookCommand,
        HookFault,
        Mode,
        ModelPrices,
        ModelSettings,
        ProviderKind,
        ProviderSettings,
        Settings,
        Share,
        Size,
        ThoughtLevel,
        api_key,
        size_tokens,
    )

__all__ = [
    "MODES",
    "CompactionChoices",
    "CompactionSettings",
    "HookCommand",
    "HookFault",
    "Mode",
    "ModelPrices",
    "ModelSettings",
    "ProviderKind",
    "ProviderSettings",
    "Settings",
    "Share",
    "Size",
    "ThoughtLevel",
    "api_key",
    "ensure_private_dir",
    "home_dir",
    "load_settings",
    "project_dir",
    "size_tokens",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        module = import_module(f"{__name__}.{'load' if name == 'load_settings' else 'settings'}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
