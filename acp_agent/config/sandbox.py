"""The sandbox that the settings ask for."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.config.settings import SandboxSettings

if TYPE_CHECKING:
    from acp_agent.sandbox.sandbox import Sandbox

_STRICTER = ("off", "auto", "required")


def sandbox_of(settings: SandboxSettings, roots: tuple[Path, ...], home: Path, keys: Iterable[str] = ()) -> Sandbox:
    """Return the sandbox of commands, which may be off.

    :param roots: the directories that they may write.
    :param home: the agent's, which they may not read.
    :param keys: names of the variables that hold keys of providers.
    """
    from acp_agent.sandbox.sandbox import Sandbox

    off, required = settings.commands == "off", settings.commands == "required"
    hidden = (*settings.env, *keys)
    return Sandbox(roots, (home,), settings.write, settings.read_deny, settings.network, required, hidden, off)


def tightened(settings: SandboxSettings, project: SandboxSettings, named: Container[object]) -> SandboxSettings:
    """Return the user's settings with what a project's file makes stricter.

    :param named: the keys that the project's file sets.
    """
    commands = project.commands if "commands" in named else settings.commands
    return replace(
        settings,
        commands=max(settings.commands, commands, key=_STRICTER.index),
        network=settings.network and (project.network or "network" not in named),
        read_deny=(*settings.read_deny, *project.read_deny),
        env=(*settings.env, *project.env),
    )
