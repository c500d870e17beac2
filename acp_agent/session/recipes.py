"""`SessionRecipes`: one session's recipes, read when they are needed, and again when a file has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from acp_agent.session.commands import BUILT_IN, commands
from acp_agent.session.services import Services
from acp_agent.turn.updates import Command, CommandsUpdated

if TYPE_CHECKING:
    from acp_agent.config import Settings
    from acp_agent.recipes.discovery import RecipeLibrary
    from acp_agent.session.host import SessionHost

WATCH_SECONDS = 2.0
"""Between two checks of the folders of an idle session; one takes less than a millisecond."""

_log = logging.getLogger(__name__)


class SessionRecipes:
    """Keeps the recipes of one session as they are on the disk, and the editor's list of commands with them.

    :param cwd: absolute path of the session's working directory.
    """

    def __init__(self, host: SessionHost, services: Services, cwd: Path) -> None:
        self._host = host
        self._services = services
        self._cwd = cwd
        self._lock = anyio.Lock()
        self._stale = False
        self._reload_now = anyio.Event()
        self._library: RecipeLibrary | None = None
        self._signature: Hashable = None
        self._settings: Settings | None = None
        self._trusted: frozenset[tuple[Path, str]] = frozenset()
        self._reported: frozenset[str] = frozenset()
        self._offered: tuple[Command, ...] | None = None

    async def library(self) -> RecipeLibrary:
        """Return the recipes; read them on first use, and again after `invalidate` where a file has changed."""
        if self._stale:
            await self.reload()
        async with self._lock:
            return self._library or await self._read()

    def invalidate(self) -> None:
        """Have the next `library` check the folders. They are checked in the background at once only where settings or
        trust have changed, so that a prompt without a recipe does not wait for the disk."""
        self._stale = True
        if not self._is_current():
            self._reload_now.set()

    async def commands(self) -> tuple[Command, ...]:
        """Return the commands on offer."""
        return self._commands(await self.library())

    async def show(self) -> None:
        """Send the list of commands to the editor."""
        self._offered = await self.commands()
        await self._host.show(CommandsUpdated(self._offered))

    async def show_changes(self) -> None:
        """Send the list of commands to the editor where it differs from the one that was sent."""
        if self._offered is not None and self._commands(await self.library()) != self._offered:
            await self.show()

    async def reload(self) -> None:
        """Read the recipes again where something has changed, and send the list where it differs."""
        async with self._lock:
            if self._library is None:
                return
            self._stale = False  # before the disk is read: who invalidates from here on may know more
            signature = await self._read_signature()
            if signature == self._signature and self._is_current():
                return
            trust_changed = self._host.trust.state != self._trusted
            library = await self._read()
        if self._offered is not None and (trust_changed or self._commands(library) != self._offered):
            await self.show()

    async def watch(self, idle: Callable[[], bool]) -> None:
        """Reload when it is due, and every few seconds while the session is idle.

        :param idle: returns whether no turn runs.
        """
        while True:
            with anyio.move_on_after(WATCH_SECONDS):
                await self._reload_now.wait()
            self._reload_now = anyio.Event()
            if not (self._stale or idle()):
                continue
            try:
                await self.reload()
            except Exception:  # the prompt that needs a recipe reports it to the user
                _log.exception("could not look for changed recipes")

    def _is_current(self) -> bool:
        """Return whether the recipes were read with today's settings and trust."""
        return self._settings is self._host.settings and self._trusted == self._host.trust.state

    def _commands(self, library: RecipeLibrary) -> tuple[Command, ...]:
        return (*commands(library), *BUILT_IN, *self._host.mcp.commands())

    async def _read(self) -> RecipeLibrary:
        trust = self._host.trust
        await trust.looked()  # which reads the project's settings
        settings, trusted = self._host.settings, trust.state
        # Taken before the files are read, so that a change meanwhile gives another one.
        signature = await self._read_signature()
        # The end of the process does not wait for it: it also imports YAML and Jinja2.
        library = await anyio.to_thread.run_sync(
            self._services.library, settings, self._cwd, trust.trusted, abandon_on_cancel=True
        )
        self._library, self._settings, self._signature, self._trusted = library, settings, signature, trusted
        errors = {str(error): f"A recipe was left out. {error}" for error in library.errors}
        messages = errors | {notice: notice for notice in (*settings.notices, *library.notices)}
        reported, self._reported = self._reported, frozenset(messages)
        for key, message in messages.items():
            if key not in reported:
                _log.warning("%s", message)
                await self._host.tell(message)
        return library

    async def _read_signature(self) -> Hashable:
        return await anyio.to_thread.run_sync(
            self._services.recipe_signature, self._host.settings, self._cwd, abandon_on_cancel=True
        )
