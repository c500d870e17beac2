"""Finding the hooks of a session: those of the configuration, of installed packages, of the user's folder and of the
project's.

Knows which file is of which kind; what a kind is, its own module does.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from acp_agent.config import HookCommand, Settings
from acp_agent.errors import HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.contract import DISABLED, ORIGINS, TIME_LIMIT, Hook, Origin
from acp_agent.hooks.unusable import unusable

FOLDER = "hooks"
RULES = (".yaml", ".yml")
PYTHON = ".py"
HELPER = "_"
"""How the name of a Python file begins that hooks import, and that holds none."""


@frozen
class Found:
    """The hooks of a session.

    :ivar errors: one for each that cannot be used.
    """

    hooks: tuple[Hook, ...] = ()
    errors: tuple[HookError, ...] = ()


async def discover(settings: Settings, origins: Collection[Origin] = ORIGINS) -> Found:
    """Look for all of them: the commands of the configuration files, then what installed packages bring, then the files
    of the user's folder and of the project's, each folder's by name. Files are read, and programs asked what they want,
    side by side.

    :param origins: whose hooks to look for. A project's are a stranger's code, which runs here already.
    """
    project = str(settings.project.parent) if settings.project else ""
    files: list[tuple[Path, Origin]] = []
    if "user" in origins:
        files.extend((path, "user") for path in _enabled(settings.home / FOLDER))
    if "project" in origins:
        files.extend((path, "project") for path in project_files(settings))
    found: dict[Path, Found] = {}

    async def look(path: Path, origin: Origin) -> None:
        found[path] = await _of_file(path, origin, project)

    async with anyio.create_task_group() as tasks:
        for path, origin in files:
            tasks.start_soon(look, path, origin)
    commands = tuple(command for command in settings.hooks if command.origin in origins)
    in_order = [_commands(commands, project)]
    if "user" in origins:
        from acp_agent.hooks import plugins

        in_order.append(Found(*await to_thread.run_sync(plugins.installed, abandon_on_cancel=True)))
    in_order += (found[path] for path, _ in files)
    hooks = tuple(hook for each in in_order for hook in each.hooks)
    # A project's file is read whether it is trusted or not, so what is wrong there is told with the user's.
    faults = tuple(HookError(fault.text) for fault in settings.hook_faults) if "config" in origins else ()
    return Found(hooks, (*faults, *(error for each in in_order for error in each.errors)))


def project_files(settings: Settings) -> tuple[Path, ...]:
    """The files of the project's folder that may be hooks, by name; none of them is opened."""
    return tuple(_enabled(settings.project / FOLDER)) if settings.project else ()


def _commands(commands: Sequence[HookCommand], project: str) -> Found:
    if not commands:
        return Found()
    from acp_agent.hooks.executables import ExecutableHook

    return Found(tuple(ExecutableHook.of_command(command, project) for command in commands))


async def _of_file(path: Path, origin: Origin, project: str) -> Found:
    """The hooks that one file of a folder brings, by its kind."""
    from acp_agent.hooks import declarative, executables, plugins

    if executables.is_executable(path):
        return Found(*await executables.ask_for_events(path, origin, project))
    load = declarative.load if path.suffix in RULES else plugins.load if path.suffix == PYTHON else None
    if path.suffix == PYTHON and path.name.startswith(HELPER):
        return Found()
    if load is None:
        if executables.lacks_permission(path):
            return Found(
                *unusable(HookError(f"{path}: not executable: chmod +x {shlex.quote(str(path))}"), origin, path)
            )
        return Found()
    try:
        with anyio.fail_after(TIME_LIMIT):
            return Found(*await to_thread.run_sync(load, path, origin, abandon_on_cancel=True))
    except TimeoutError:
        return Found(*unusable(HookError(f"{path}: was not loaded within {TIME_LIMIT:g} seconds."), origin, path))


def _enabled(folder: Path) -> list[Path]:
    """The files of a folder by name, without the hidden ones, `NAME.disable`, and `NAME` beside such a file."""
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError:
        return []
    return [
        folder / name
        for name in sorted(names)
        if not name.startswith(".") and not name.endswith(DISABLED) and f"{name}{DISABLED}" not in names
    ]
