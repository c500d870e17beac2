"""`open_session`: builds one session from its parts, and closes them when the session
ends.

The parts that run turns (hooks, compaction, the model loop) are imported and built by
`turn.factory` at the first prompt, so that a new session does not wait for them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from acp_agent import nofollow
from acp_agent.allocator import limit_arenas
from acp_agent.config import Settings
from acp_agent.config.project import Project
from acp_agent.config.settings import McpServer
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import DirectoriesChanged, SessionStarted
from acp_agent.nofollow import resolved
from acp_agent.programs import distrust
from acp_agent.sandbox.folders import writable_folders
from acp_agent.sandbox.reading import ReadLimits
from acp_agent.sandbox.roots import moved_root
from acp_agent.session.actor import PartsLoader, Session
from acp_agent.session.attachments import Attachments
from acp_agent.session.client import SessionClient
from acp_agent.session.log import SessionLog, Source, mode_in, mode_notice
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.models.models import SessionModels
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.session.options import SessionOptions
from acp_agent.session.recipes.available import SessionRecipes
from acp_agent.session.services import SessionServices
from acp_agent.session.slash.offer import CommandOffer
from acp_agent.session.state import SessionState
from acp_agent.session.titles import Titles
from acp_agent.session.toolbox import Toolbox
from acp_agent.session.trust import SessionTrust
from acp_agent.session.turn.record import TurnRecord
from acp_agent.session.turn.session_parts import SessionParts
from acp_agent.session.workspace import ProjectInstructions
from acp_agent.storage.store import SessionStore

if TYPE_CHECKING:
    from acp_agent.session.turn.parts import TurnParts

CLOSE_SECONDS = 2.0
"""How long the connections to the providers may take to close."""

_loading = anyio.CapacityLimiter(1)
"""Sessions that load at the same time wait for the imports without occupying threads of
the pool.
"""
_one_at_a_time = threading.Lock()
"""Sessions share the tools, and pydantic cannot build one model's schema in two threads
at once.
"""


@asynccontextmanager
async def open_session(
    services: SessionServices,
    session_id: str,
    directories: tuple[Path, ...],
    client: SessionClient,
    mcp_servers: Sequence[McpServer],
    source: Source,
) -> AsyncGenerator[Session]:
    """Build a session and serve it inside the `async with` block.

    :param directories: absolute paths; the working directory first.
    :param mcp_servers: the servers that the client names. They replace servers of the
        same name in the configuration.
    :param source: how the session is opened; `new` if it is not in the store yet.
    """
    show = client.show
    if source == "new":
        settings = services.settings(directories[0])
        everywhere = await to_thread.run_sync(_with_configured, directories, settings)
        log = await _new_log(
            services.store, session_id, directories, everywhere, settings
        )
        former = log.context
    else:
        log = SessionLog(
            services.store, session_id, await services.store.context(session_id)
        )
        former = log.context
        root = await to_thread.run_sync(_root_of, former, directories[0], services.home)
        settings = services.settings(directories[0], root)
        everywhere = await to_thread.run_sync(_with_configured, directories, settings)
        if not services.store.is_read_only:
            await _update_directories(log, directories, settings)
    writable = writable_folders(directories[0], settings.sandbox.write)
    await to_thread.run_sync(
        distrust, everywhere, writable, await services.store.working_directories()
    )
    state = SessionState(session_id, everywhere, settings, log, source, mcp_servers)
    state.mode_elsewhere = _mode_elsewhere(state, directories)
    notices = Notices(show, as_messages=not client.shows_notices, found=state.made)
    models: SessionModels | None = None
    session: Session | None = None
    try:
        async with anyio.create_task_group() as tasks:
            models = SessionModels(
                services.models(settings), Attachments(log.read_blob), tasks
            )
            instructions = ProjectInstructions()
            trust = SessionTrust(state, services, client, notices, instructions)
            recipes = SessionRecipes(state, services, trust, notices)
            mcp = SessionMcp(state, client, notices, tasks, recipes.wake)
            requests = Requests(state, models, mcp, instructions)
            if not directories[0].is_dir():
                await notices.tell(
                    f"The directory of this session, {directories[0]}, no longer exists. Nothing is written "
                    f"there. If it was moved: `acp-agent sessions move {session_id} NEW_DIRECTORY`, then open the "
                    "session again."
                )
            changed = mode_notice(former.mode, state.mode)
            if changed:
                # Show this with the first prompt, since a replay shows only the
                # conversation.
                state.made.append(changed)
            options = SessionOptions(state, models, services, show)
            offer = CommandOffer(recipes, mcp, show)
            toolbox = Toolbox(state, client, mcp)
            record = TurnRecord(
                log, toolbox, requests, Titles(log, models, show, tasks), show
            )

            session_parts = SessionParts(
                services=services,
                state=state,
                client=client,
                tasks=tasks,
                notices=notices,
                mcp=mcp,
                requests=requests,
                trust=trust,
                recipes=recipes,
                options=options,
                offer=offer,
                toolbox=toolbox,
                record=record,
            )

            async def load() -> TurnParts:
                build_parts = await _load_for_turns(
                    mcp, models, await models.name(state.model), tasks
                )
                await to_thread.run_sync(
                    state.settle_unfinished, abandon_on_cancel=True
                )
                return build_parts(session_parts)

            session = Session(
                state, client, options, offer, PartsLoader(record, notices, tasks, load)
            )
            tasks.start_soon(offer.watch)
            tasks.start_soon(session.serve)
            try:
                yield session
            finally:
                tasks.cancel_scope.cancel()
    finally:
        if models is not None:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await models.registry.aclose()
        if session is not None:
            session.closed.set()


def _with_configured(
    directories: tuple[Path, ...], settings: Settings
) -> tuple[Path, ...]:
    """Return a session's directories, and the directories that the user's configuration
    adds to every session.

    The log does not record the added directories. A session loses them when they are
    removed from the configuration.
    """
    known = {resolved(each) for each in directories}
    added: list[Path] = []
    for named in settings.additional_directories:
        try:
            folder = Path(os.path.normpath(directories[0] / Path(named).expanduser()))
            is_new = folder.is_dir() and resolved(folder) not in known
        except (OSError, RuntimeError, ValueError):  # no home, or not a folder name
            continue
        if is_new:
            known.add(resolved(folder))
            added.append(folder)
    return (*directories, *added)


async def _new_log(
    store: SessionStore,
    session_id: str,
    directories: tuple[Path, ...],
    everywhere: tuple[Path, ...],
    settings: Settings,
) -> SessionLog:
    """Create a session's log, which records the root of its project.

    :param everywhere: the directories, including those from the configuration, whose
        instructions are read as well.
    """
    cwd, *additional = map(str, directories)
    root = str(settings.root or "")
    started = SessionStarted(cwd, tuple(additional), mode=settings.mode, root=root)
    limits = ReadLimits.of(
        tuple(resolved(each) for each in everywhere), settings.sandbox.read_deny
    )
    instructions = await ProjectInstructions().read(
        everywhere, settings.home, settings.root, limits
    )
    events = await store.create(session_id, cwd, additional, (started, instructions))
    return SessionLog(store, session_id, Context.from_log(events))


async def _update_directories(
    log: SessionLog, directories: tuple[Path, ...], settings: Settings
) -> None:
    """Update a session's directories, the root of its project, and its mode there in
    the log.
    """
    cwd, *additional = map(str, directories)
    context = log.context
    was_moved = await to_thread.run_sync(_was_moved, context.cwd, directories[0])
    root = str(settings.root or "")
    is_at_home = was_moved or context.cwd == cwd
    if (
        was_moved
        or tuple(additional) != context.additional_directories
        or (is_at_home and root != context.root)
    ):
        home = cwd if was_moved else context.cwd
        mode = mode_in(context, home, additional, settings.mode)
        changed = DirectoriesChanged(
            tuple(additional),
            cwd if was_moved else "",
            root if is_at_home else "",
            "" if mode == context.mode else mode,
        )
        await log.change(changed)


def _mode_elsewhere(state: SessionState, directories: tuple[Path, ...]) -> str:
    """Return the mode of a session that is open in directories other than the logged
    ones; empty if they are the same.

    :param directories: the directories that the session is opened in, without those
        from the configuration.
    """
    cwd, *additional = map(str, directories)
    if state.context.covers(cwd, additional):
        return ""
    return mode_in(state.context, cwd, additional, state.settings.mode)


def _root_of(context: Context, cwd: Path, home: Path) -> Path:
    """Return the root of a stored session's project. It does not change unless the
    session's directory does.

    :param cwd: the working directory in which the session is opened now.
    :param home: the agent's home.
    """
    if context.cwd == str(cwd):
        root = Path(context.root) if context.root else None
        if root in (cwd, *cwd.parents):
            return root
    elif not Path(context.cwd).is_dir():
        moved = moved_root(context.root, context.cwd, cwd)
        if moved:
            return Path(moved)
    return Project(cwd, home).root


def _was_moved(former: str, cwd: Path) -> bool:
    """Return whether a session's former directory no longer exists, but the directory
    it is opened in does.
    """
    return former != str(cwd) and not Path(former).is_dir() and cwd.is_dir()


async def _load_for_turns(
    mcp: SessionMcp, models: SessionModels, model: str | None, tasks: TaskGroup
) -> Callable[[SessionParts], TurnParts]:
    """Import the modules that turns need, and return `build_parts`.

    The imports run in a thread, since they take 0.1 s or more, during which the event
    loop would notice neither a cancel nor the end of the connection.

    :param mcp: provides the tools whose schemas are part of requests.
    :param model: `provider/model`, whose adapter is loaded.
    :param tasks: loads the model's SDK in the background, since that takes longer than
        a turn takes to need it.
    """
    build_parts = await to_thread.run_sync(
        _import_for_turns, mcp, models, model, abandon_on_cancel=True, limiter=_loading
    )
    if model is not None:
        tasks.start_soon(models.prepare, model)
    return build_parts


def _import_for_turns(
    mcp: SessionMcp, models: SessionModels, model: str | None
) -> Callable[[SessionParts], TurnParts]:
    with _one_at_a_time:
        limit_arenas()  # again, for `acp-agent serve` and other ways to get here
        import acp_agent.session.turn.turn  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the first turn
        from acp_agent.session.turn.factory import build_parts

        nofollow.prepare()
        if model is not None:
            models.registry.load(model)
        for tool in mcp.tools.values():
            _ = tool.input_schema
    return build_parts
