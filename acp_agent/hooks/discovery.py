"""Finding the hooks of a session: those of the configuration, of the user's folder and of the project's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from acp_agent.config import Settings
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Hook, Origin

HOOKS = "hooks"
"""Folder in the agent's home, and in a project's `.acp-agent`."""


@dataclass(frozen=True, slots=True)
class Found:
    """The hooks of a session.

    :ivar errors: one for each that cannot be used.
    """

    hooks: tuple[Hook, ...] = ()
    errors: tuple[HookError, ...] = ()


async def discover(settings: Settings) -> Found:
    """Look for all of them."""
    return await to_thread.run_sync(_discover, settings, abandon_on_cancel=True)


def _discover(settings: Settings) -> Found:
    from acp_agent.hooks import plugins

    found = [plugins.installed(), *_in_folder(settings.home / HOOKS, "user")]
    if settings.project is not None:
        found += _in_folder(settings.project / HOOKS, "project")
    return Found(
        tuple(hook for hooks, _ in found for hook in hooks), tuple(error for _, errors in found for error in errors)
    )


def _in_folder(folder: Path, origin: Origin) -> list[tuple[tuple[Hook, ...], tuple[HookError, ...]]]:
    from acp_agent.hooks import declarative, plugins

    found: list[tuple[tuple[Hook, ...], tuple[HookError, ...]]] = []
    for path in sorted(folder.glob("*")):
        if path.suffix in (".yaml", ".yml"):
            found.append(declarative.load(path, origin))
        elif path.suffix == ".py" and not os.access(path, os.X_OK):
            found.append(plugins.load(path, origin))
    return found
