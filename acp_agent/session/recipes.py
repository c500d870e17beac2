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
    from acp_agent.recipes.library import RecipeLibrary
    from acp_agent.session.host import SessionHost

WATCH_SECONDS = 2.0
"""Between two looks at the folders of a session that does nothing; one takes less than a millisecond."""

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
        self._doubted = False
        self._wanted = anyio.Event()
        self._library: RecipeLibrary | None = None
        self._signature: Hashable = None
        self._settings: Settings | None = None
        self._trusted: frozenset[tuple[Path, str]] = frozenset()
        self._told: frozenset[str] = frozenset()
        self._offered: tuple[Command, ...] | None = None

    async def library(self) -> RecipeLibrary:
        """The recipes as they were last read, or are now where they were doubted. Read on first use: a new session does
        not wait for it."""
        if self._doubted:
            await self.renew()
        async with self._lock:
            return self._library or await self._read()

    def doubt(self) -> None:
        """They may have changed: whoever asks for them next gets them as they are, and nobody else waits for that. The
        folders are looked at in their turn, not beside the beginning of each prompt; at once where others may run."""
        self._doubted = True
        if not self._is_current():
            self._wanted.set()

    async def commands(self) -> tuple[Command, ...]:
        """Which commands there are."""
        return self._commands(await self.library())

    async def show(self) -> None:
        """Tell the editor which commands there are."""
        self._offered = await self.commands()
        await self._host.show(CommandsUpdated(self._offered))

    async def offer(self) -> None:
        """Tell the editor which commands there are, where they are others than it was told; an MCP server has changed
        its own."""
        if self._offered is not None and self._commands(await self.library()) != self._offered:
            await self.show()

    async def renew(self) -> None:
        """Read the recipes again where one was changed since, and tell the editor where the commands are others."""
        async with self._lock:
            if self._library is None:
                return
            # Whoever doubts them from here on may know more than what is read now.
            self._doubted = False
            signature = await self._look()
            if signature == self._signature and self._is_current():
                return
            others = self._host.trust.state != self._trusted
            library = await self._read()
        if self._offered is not None and (others or self._commands(library) != self._offered):
            await self.show()

    async def watch(self, idle: Callable[[], bool]) -> None:
        """Renew when they are doubted, and every now and then while nothing else is done.

        :param idle: whether no turn runs.
        """
        while True:
            with anyio.move_on_after(WATCH_SECONDS):
                await self._wanted.wait()
            self._wanted = anyio.Event()
            if not (self._doubted or idle()):
                continue
            try:
                await self.renew()
            except Exception:
                # The prompt that needs a recipe says what is wrong, to somebody who can read it.
                _log.exception("could not look for changed recipes")

    def _is_current(self) -> bool:
        """Whether they were read with the settings and the trust that hold now."""
        return self._settings is self._host.settings and self._trusted == self._host.trust.state

    def _commands(self, library: RecipeLibrary) -> tuple[Command, ...]:
        return (*commands(library), *BUILT_IN, *self._host.mcp.commands())

    async def _read(self) -> RecipeLibrary:
        trust = self._host.trust
        # Which finds what the settings say of the project.
        await trust.looked()
        settings = self._host.settings
        # Looked at before, so that a change meanwhile is another signature.
        signature = await self._look()
        trusted = trust.state
        # It loads YAML and templates as well, for which the end of the process does not wait.
        library = await anyio.to_thread.run_sync(
            self._services.library, settings, self._cwd, trust.trusted, abandon_on_cancel=True
        )
        self._library, self._settings, self._signature, self._trusted = library, settings, signature, trusted
        notices = (*settings.notices, *library.notices)
        told, self._told = self._told, frozenset((*map(str, library.errors), *notices))
        for error in library.errors:
            if str(error) not in told:
                _log.warning("recipe left out: %s", error)
                await self._host.tell(f"A recipe was left out. {error}")
        for notice in notices:
            if notice not in told:
                _log.warning("%s", notice)
                await self._host.tell(notice)
        return library

    async def _look(self) -> Hashable:
        return await anyio.to_thread.run_sync(
            self._services.recipe_signature, self._host.settings, self._cwd, abandon_on_cancel=True
        )
