"""The composition root: builds all objects, runs the top-level task group, and shuts
down on EOF or a signal.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from acp_agent.allocator import limit_arenas
from acp_agent.config import Settings, ensure_private_dir, home_dir, load_settings
from acp_agent.config.home import CLAUDE_FOLDER, user_home
from acp_agent.config.keys import KeyStore
from acp_agent.config.project import Project
from acp_agent.errors import ConfigError
from acp_agent.jsonrpc.transport import StdioTransport, Transport
from acp_agent.llm.credentials import ModelAccess
from acp_agent.llm.learned import LearnedFacts
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.logfile import do_not_log, start_logging
from acp_agent.processes import close_watchdog
from acp_agent.server.connection import ClientConnection
from acp_agent.server.handshake import Handshake
from acp_agent.server.recording import record
from acp_agent.session.commands import BUILT_IN, COMPACTING
from acp_agent.session.manager import OpenSessions, SessionManager
from acp_agent.session.services import SessionServices
from acp_agent.storage.store import SessionStore
from acp_agent.tools.registry import built_in_tools

if TYPE_CHECKING:
    from acp_agent.compaction.service import CompactionService
    from acp_agent.recipes.discovery import RecipeFolder, RecipeLibrary
    from acp_agent.recipes.model import Known

DATABASE = "sessions.db"
LOGS = "logs"
RECIPES = "recipes"
CLAUDE_COMMANDS = "commands"
"""Name of the folder that holds commands in Claude Code's folder, both in the user's
home and in a project.
"""
RESERVED = tuple(command.name for command in BUILT_IN)
"""Names that no recipe may have."""


@cache
def _compaction() -> CompactionService:
    from acp_agent.compaction.service import CompactionService

    return CompactionService()


def _strategies() -> Collection[str]:
    """Return the names of the compaction strategies.

    Installed packages are searched only when a recipe or the configuration names a
    strategy, not at startup.
    """
    return _compaction().choices


def build_services(store: SessionStore, env: Mapping[str, str]) -> SessionServices:
    """Connect the agent's packages.

    :param env: environment variables.
    """
    access = model_access(env)
    learned = LearnedFacts(home_dir(env))

    def library(
        settings: Settings, cwd: Path, trusted: Callable[[Path], str | None]
    ) -> RecipeLibrary:
        from acp_agent.recipes.discovery import RecipeLibrary

        return RecipeLibrary.read(
            recipe_folders(env, settings, cwd),
            recipe_known(settings),
            RESERVED,
            trusted,
        )

    def recipe_signature(settings: Settings, cwd: Path) -> Hashable:
        from acp_agent.recipes.discovery import signature

        return signature(recipe_folders(env, settings, cwd))

    return SessionServices(
        home=home_dir(env),
        store=store,
        compaction=_compaction,
        settings=lambda cwd, root=None: checked_settings(env, cwd, root),
        models=lambda settings: Registry(settings, env, access, learned),
        access=access,
        library=library,
        recipe_signature=recipe_signature,
        project_places=lambda settings, cwd: project_places(env, settings, cwd),
    )


def checked_settings(
    env: Mapping[str, str], cwd: Path | None, root: Path | None = None
) -> Settings:
    """Return the settings of a directory, after checking that their strategies and
    providers exist; see `load_settings`.
    """
    return load_settings(
        env, cwd, root, strategies=_strategies, providers=BUILT_IN_PROVIDERS
    )


def model_access(env: Mapping[str, str]) -> ModelAccess:
    """Return an object for access to the user's providers.

    :param env: environment variables.
    :raises ConfigError: if the agent's home cannot be determined.
    """
    return ModelAccess(KeyStore(home_dir(env)))


def recipe_known(settings: Settings) -> Known:
    """Return the names that recipes may use."""
    from acp_agent.hooks.handlers import known_handlers
    from acp_agent.recipes.model import Known

    return Known(
        known_handlers(),
        built_in_tools("forms"),
        COMPACTING,
        _strategies,
        (*BUILT_IN_PROVIDERS, *settings.providers),
    )


def recipe_folders(
    env: Mapping[str, str], settings: Settings, cwd: Path
) -> tuple[RecipeFolder, ...]:
    """Return the current folders of a session's recipes. Recipes in later folders
    replace recipes of the same name in earlier ones.

    :param env: environment variables.
    :param cwd: absolute path of the session's working directory.
    """
    from acp_agent.recipes.discovery import RecipeFolder, builtin_recipes_dir

    folders = [RecipeFolder("builtin", builtin_recipes_dir())]
    home = user_home(env)
    (project, claude) = _projects(env, settings, cwd)
    if home is not None:
        folders.append(
            RecipeFolder("user", home / CLAUDE_FOLDER / CLAUDE_COMMANDS, "claude")
        )
    if claude is not None:
        folders.append(RecipeFolder("project", claude / CLAUDE_COMMANDS, "claude"))
    folders.append(RecipeFolder("user", settings.home / RECIPES))
    if project is not None:
        folders.append(RecipeFolder("project", project / RECIPES))
    return tuple(folders)


def project_places(
    env: Mapping[str, str], settings: Settings, cwd: Path
) -> tuple[Path, ...]:
    """Return the current folders with a project's hooks and recipes: its `.acp-agent`
    and its `.claude`, if they exist.

    :param env: environment variables.
    :param cwd: absolute path of the session's working directory.
    """
    places = (settings.project, *_projects(env, settings, cwd))
    return tuple(dict.fromkeys(place for place in places if place is not None))


def _projects(
    env: Mapping[str, str], settings: Settings, cwd: Path
) -> tuple[Path | None, Path | None]:
    """Return the project's `.acp-agent` and `.claude` folders, each None if it is
    missing or the user's own.
    """
    found = Project(cwd, settings.home, settings.root)
    home = user_home(env)
    project = found.folder()
    claude = found.folder(CLAUDE_FOLDER)
    if project is not None and project.resolve() == settings.home.resolve():
        project = None
    if (
        claude is not None
        and home is not None
        and claude.resolve() == (home / CLAUDE_FOLDER).resolve()
    ):
        claude = None
    return project, claude


async def open_database(env: Mapping[str, str]) -> SessionStore:
    """Open the store of the user's sessions. The caller must close it.

    :raises ConfigError: if the agent's home cannot be determined. The message says what
        to do.
    :raises StorageError: if the database cannot be used. The message names it.
    """
    return await SessionStore.open(home_dir(env) / DATABASE)


async def serve(read_fd: int, write_fd: int, handshake: Handshake) -> None:
    """Serve ACP on these descriptors until the editor closes its end or a signal
    arrives.

    :param handshake: the result of the first line.
    """
    env = os.environ
    limit_arenas()  # before the first worker thread starts
    start_home_logging(env)
    transport = StdioTransport(read_fd, write_fd, initial=handshake.unread)
    async with (
        aclosing(SessionsDatabase(env)) as database,
        anyio.create_task_group() as tasks,
    ):
        client = connection(
            transport, database, env, handshake, database.begin_shutdown
        )
        tasks.start_soon(_close_on_signal, client)
        await client.run()
        tasks.cancel_scope.cancel()
    close_watchdog()


class SessionsDatabase:
    """The user's sessions, shared by the connections of this process. The database is
    opened by the first request that needs it, so that a problem with the agent's home
    becomes that request's error.

    :param env: environment variables.
    :ivar sessions: the open sessions.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.sessions: OpenSessions = []
        self._opening = anyio.Lock()
        self._store: SessionStore | None = None

    async def store(self) -> SessionStore:
        """Return the open store.

        :raises AgentError: see `open_database`.
        """
        async with self._opening:
            if self._store is None:
                self._store = await open_database(self._env)
            return self._store

    def begin_shutdown(self) -> None:
        """From now on, wait only briefly for locks of other processes, since this
        process is about to exit.
        """
        if self._store is not None:
            self._store.begin_shutdown()

    async def aclose(self) -> None:
        """Close the store if it was opened."""
        if self._store is not None:
            await self._store.aclose()


def connection(
    transport: Transport,
    database: SessionsDatabase,
    env: Mapping[str, str],
    handshake: Handshake | None = None,
    on_end: Callable[[], None] | None = None,
) -> ClientConnection:
    """Return the connection to one client. It is recorded if the user has enabled that.

    :param env: environment variables.
    :param handshake: the result of the first line, if it has already been read.
    :param on_end: called as soon as the client has disconnected and its work has been
        cancelled.
    """

    built: list[SessionServices] = []

    async def create_manager(tasks: TaskGroup) -> SessionManager:
        built.append(build_services(await database.store(), env))
        return SessionManager(built[-1], tasks, database.sessions)

    def learned_secrets() -> tuple[str, ...]:
        return tuple(key for each in built for key in each.access.at_hand())

    transport = record(
        transport,
        env,
        learned_secrets,
        None if handshake is None else handshake.exchange,
    )
    return ClientConnection(transport, create_manager, env, handshake, on_end)


def start_home_logging(env: Mapping[str, str]) -> None:
    """Log to the agent's home, after making it private. If there is no home, do not
    log.
    """
    try:
        start_logging(ensure_private_dir(home_dir(env)) / LOGS, env)
    except ConfigError:
        do_not_log()


async def _close_on_signal(client: ClientConnection) -> None:
    with anyio.open_signal_receiver(
        signal.SIGTERM, signal.SIGINT, signal.SIGHUP
    ) as signals:
        async for _ in signals:
            client.close()
