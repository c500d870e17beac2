"""Finds the hooks of a session: commands in the configuration, hooks of installed
packages, and files in the hooks folders of the user and the project.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from acp_agent.config import Settings
from acp_agent.config.sandbox import sandbox_of
from acp_agent.config.trust import ProjectCode
from acp_agent.errors import HookError
from acp_agent.hooks import python_hooks, rules
from acp_agent.hooks.contract import (
    DISABLED,
    ORIGINS,
    TIME_LIMIT,
    FoundHooks,
    Origin,
    joined,
    unusable,
)
from acp_agent.hooks.executables import ask_for_events, command_hook
from acp_agent.llm.places import key_variables
from acp_agent.sandbox.sandbox import Sandbox

FOLDER = "hooks"
_OTHERS = (".md", DISABLED)
_RULES = (".yaml", ".yml")


async def discover(
    settings: Settings,
    origins: Collection[Origin] = ORIGINS,
    notices: list[str] | None = None,
    code: ProjectCode | None = None,
) -> FoundHooks:
    """Return all hooks: commands first, then hooks of installed packages, then files,
    sorted by name within a folder.

    Files are loaded concurrently. This runs Python files, and runs programs to ask for
    their events.

    :param origins: the origins to search. Include `project` only if the user trusts the
        project, since this call runs its code.
    :param notices: the sandbox appends notices for the user to this list, now and
        whenever a hook runs. They are about files that the project's programs create.
    :param code: the code of the project that the user trusts. If it is None, the
        project's Python files can import any file.
    """
    project = str(settings.project.parent) if settings.project else ""
    sandbox = None
    if settings.project:
        roots = (settings.project.parent.resolve(),)
        sandbox = sandbox_of(
            settings.sandbox, roots, settings.home, key_variables(settings), notices
        )
        if code is not None:
            # A command can write bytecode to these folders, and Python would use it
            # instead of the unchanged source.
            sandbox = replace(sandbox, read_deny=(*sandbox.read_deny, *code.bytecode))
    homes: dict[Origin, Path | None] = {
        "user": settings.home,
        "project": settings.project,
    }
    found: dict[Path, FoundHooks] = {}

    async def look(path: Path, origin: Origin) -> None:
        found[path] = await _of_file(
            path, origin, project, sandbox, code if origin == "project" else None
        )

    async with anyio.create_task_group() as tasks:
        for origin, home in homes.items():
            for path in (
                _enabled(home / FOLDER)
                if home is not None and origin in origins
                else ()
            ):
                found[path] = FoundHooks()
                tasks.start_soon(look, path, origin)
    # A project's configuration is read even if the project is not trusted, so its
    # errors are reported with those of the user's configuration.
    faults = (
        tuple(HookError(fault) for fault in settings.hook_faults)
        if "config" in origins
        else ()
    )
    commands = tuple(
        command_hook(each, project, sandbox)
        for each in settings.hooks
        if each.origin in origins
    )
    in_order = [FoundHooks(commands, faults)]
    if "user" in origins:
        in_order.append(
            await to_thread.run_sync(python_hooks.installed, abandon_on_cancel=True)
        )
    return joined([*in_order, *found.values()])


async def _of_file(
    path: Path,
    origin: Origin,
    project: str,
    sandbox: Sandbox | None,
    code: ProjectCode | None,
) -> FoundHooks:
    """Load the hooks of one file. Python files whose name begins with `_` are skipped,
    since these are modules that other hooks import.
    """
    if path.suffix == ".py" and path.name.startswith("_"):
        return FoundHooks()
    try:
        with anyio.fail_after(TIME_LIMIT):
            if path.suffix == ".py":
                return await to_thread.run_sync(
                    python_hooks.load, path, origin, code, abandon_on_cancel=True
                )
            if path.suffix in _RULES:
                return await to_thread.run_sync(
                    rules.load, path, origin, abandon_on_cancel=True
                )
            if os.access(path, os.X_OK):
                return await ask_for_events(path, origin, project, sandbox)
    except TimeoutError:
        error = HookError(
            f"{path}: did not name its events within {TIME_LIMIT:g} seconds."
        )
        return unusable(error, origin, str(path), path)
    if not _is_script(path):
        return FoundHooks()
    # Copying or downloading a script can lose its executable bit.
    error = HookError(f"{path}: not executable: chmod +x {shlex.quote(str(path))}")
    return unusable(error, origin, str(path), path)


def _is_script(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!" or path.suffix == ".sh"
    except OSError:
        return False


def _enabled(folder: Path) -> list[Path]:
    """Return the paths in a folder that may be hooks, sorted by name. Hidden files,
    Markdown files and disabled files are not hooks.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError:
        return []
    enabled = (
        name
        for name in sorted(names)
        if not name.startswith(".") and f"{name}{DISABLED}" not in names
    )
    # A dangling link is included, so that it is reported. It may have been a guard.
    return [
        path
        for path in map(folder.joinpath, enabled)
        if path.suffix not in _OTHERS and not path.is_dir()
    ]
