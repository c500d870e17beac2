"""`SessionManager`: the sessions that are open in this process, and the list of all there are."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup

from acp_agent.config.settings import McpServer
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import DirectoriesChanged, Event, SessionStarted, TitleChanged
from acp_agent.conversation.messages import new_id
from acp_agent.errors import AgentError, SessionClosedError, SessionConflictError
from acp_agent.importing import GivenUpError
from acp_agent.session.accounts import Accounts
from acp_agent.session.client import SessionClient
from acp_agent.session.directories import existing_directories, named_directories
from acp_agent.session.forking import fork_session
from acp_agent.session.host import SessionHost, Source
from acp_agent.session.instructions import read_instructions
from acp_agent.session.log import SessionLog
from acp_agent.session.originals import remove_originals
from acp_agent.session.services import Services
from acp_agent.session.session import Session
from acp_agent.session.titles import given_title
from acp_agent.session.transcript import remove_transcript
from acp_agent.shielding import to_its_end
from acp_agent.storage.store import ArchiveFilter, SessionPage, SessionStore

PREWARM_SECONDS = 1.0
"""Calm after a session was opened before more is loaded: it must not slow down the opening itself."""

CLOSING_SECONDS = 5.0
"""How long a session may still take to close, and to open again, once nobody waits for it any more: one that is half
closed works on, and nobody finds it."""

_TITLE_TRIES = 20

Status: TypeAlias = Literal["open", "saved"]
"""A session is open in this process, for any connection, or it is stored and can be opened."""
ClientFor: TypeAlias = Callable[[str], SessionClient]
"""Makes the client of the session with this id."""

_log = logging.getLogger(__name__)


class SessionManager:
    """Opens and closes sessions. What opens or closes one and the same must be called one after the other.

    :param tasks: where each session's actor runs.
    :ivar accounts: as whom and where the providers are asked.
    """

    def __init__(self, services: Services, tasks: TaskGroup) -> None:
        self._services = services
        self._tasks = tasks
        self._open: dict[str, Session] = {}
        self._closing: dict[str, anyio.Event] = {}
        self.accounts = Accounts(services)

    async def new(
        self, cwd: str, additional: Sequence[str], client: ClientFor, mcp_servers: Sequence[McpServer] = ()
    ) -> Session:
        """Make a session; it is durable when this returns.

        :param cwd: absolute path of a directory that exists.
        :param additional: absolute paths of further directories.
        :param client: makes the session's client.
        :param mcp_servers: those that the client names, beside the configuration's.
        :raises InvalidParamsError: a path is relative, or no directory.
        :raises ConfigError: the settings for this directory are wrong.
        """
        directories = existing_directories(cwd, additional)
        settings = self._services.settings(directories[0])
        session_id = new_id("sess")
        started = SessionStarted(
            str(directories[0]),
            tuple(str(path) for path in directories[1:]),
            mode=settings.mode,
        )
        async with self.kept_if_told(session_id):
            return self._start(
                await self._host(session_id, client(session_id), directories, (started,), "new", mcp_servers)
            )

    async def open(
        self,
        session_id: str,
        cwd: str,
        additional: Sequence[str],
        client: ClientFor,
        source: Source = "resume",
        mcp_servers: Sequence[McpServer] = (),
    ) -> Session:
        """Open a session that was made before; one that is open already is closed first, as by `close`. A cancel waits
        until it is open again: who asked may go on with it, or open it once more.

        :param additional: absolute paths of all further directories, whichever it had before; one that is gone by now
            does not keep it from being opened.

        :raises SessionNotFoundError: no such session.
        :raises InvalidParamsError: a path is relative.
        :raises ConfigError: the settings for this directory are wrong; what is open stays as it is.
        """
        directories = named_directories(cwd, additional)
        self._services.settings(directories[0])

        async def reopened() -> Session:
            # A log is replayed whole, and a session has one client: a turn that runs for another one ends first.
            await self.close_if_open(session_id, "close")
            await self._services.store.record(session_id)
            host = await self._host(session_id, client(session_id), directories, None, source, mcp_servers)
            return self._start(host)

        return await to_its_end(reopened, CLOSING_SECONDS)

    async def fork(
        self,
        session_id: str,
        cwd: str,
        additional: Sequence[str],
        client: ClientFor,
        mcp_servers: Sequence[McpServer] = (),
        at: int | str | None = None,
    ) -> Session:
        """Open a new session that goes on from a point of another one, which need not be open, and stays as it is.

        :param at: the last entry of the log, or the id of the last message, that the new one has; None for all of it.
        :raises SessionNotFoundError: no such session.
        :raises InvalidParamsError: a path is relative, or no directory; or there is no such entry or message.
        :raises ConfigError: the settings for this directory are wrong.
        """
        services, directories = self._services, existing_directories(cwd, additional)
        services.settings(directories[0])
        paths, made = [str(path) for path in directories], new_id("sess")
        async with self.kept_if_told(made):
            await fork_session(services.store, services.home, session_id, at, paths[0], paths[1:], made)
            return self._start(await self._host(made, client(made), directories, None, "resume", mcp_servers))

    @asynccontextmanager
    async def kept_if_told(self, session_id: str) -> AsyncGenerator[None]:
        """What is still to be done before somebody is told of a new session. Where that fails or is cancelled, nobody
        would know of it, and it is removed."""
        try:
            yield
        except BaseException:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await self.delete(session_id)
            raise

    def find(self, session_id: str) -> Session | None:
        """A session, where it is open here."""
        return self._open.get(session_id)

    async def get(self, session_id: str) -> Session:
        """An open session.

        :raises SessionClosedError: it is stored, but not open here.
        :raises SessionNotFoundError: no such session.
        """
        session = self.find(session_id)
        if session is None:
            await self._services.store.record(session_id)
            raise SessionClosedError(session_id)
        return session

    async def list(self, cwd: str | None, cursor: str | None, archived: ArchiveFilter = "exclude") -> SessionPage:
        """Part of the list of all sessions, newest first: those that were begun, and those that are open.

        :raises InvalidParamsError: the cursor is not one of ours.
        """
        shown = self._services.sessions.ids()
        return await self._services.store.list(cwd=cwd, cursor=cursor, archived=archived, not_begun=shown)

    async def status(self, session_id: str) -> Status:
        """Whether a session is open, here or for another connection. Changes nothing.

        :raises SessionNotFoundError: no such session.
        """
        await self._services.store.record(session_id)
        return "saved" if self._services.sessions.find(session_id) is None else "open"

    def find_anywhere(self, session_id: str) -> Session | None:
        """A session, where it is open for whichever connection; for this one, if it is."""
        return self.find(session_id) or self._services.sessions.find(session_id)

    async def set_title(self, session_id: str, title: str) -> str:
        """Give a session, open or not, the title that a person wants. Other clients that have it open here are told.

        :returns: the title as it is kept.
        :raises InvalidParamsError: nothing of it can be read.
        :raises SessionNotFoundError: no such session.
        """
        title, session = given_title(title), self.find(session_id)
        if session is not None:
            await session.set_title(title)
        else:
            await _stored_title(self._services.store, session_id, title)
            self._tell_others(session_id)
        return title

    async def archive(self, session_id: str) -> None:
        """Close a session wherever it is open, and leave it out of the ordinary list from now on.

        :raises SessionNotFoundError: no such session.
        """
        await self._services.store.record(session_id)
        await to_its_end(partial(self._services.sessions.close, session_id, "close"), CLOSING_SECONDS)
        await self._services.store.archive(session_id, archived=True)

    async def unarchive(self, session_id: str) -> None:
        """Put a session back into the list.

        :raises SessionNotFoundError: no such session.
        """
        await self._services.store.archive(session_id, archived=False)

    async def close(self, session_id: str) -> None:
        """Cancel what the session does and forget it; its log stays. One that is not open here is closed where it is.

        :raises SessionClosedError: it is stored, but open nowhere.
        :raises SessionNotFoundError: no such session.
        """
        if self.find(session_id) is None and self._services.sessions.find(session_id) is not None:
            await to_its_end(partial(self._services.sessions.close, session_id, "close"), CLOSING_SECONDS)
            return
        await self.get(session_id)
        await to_its_end(partial(self.close_if_open, session_id, "close"), CLOSING_SECONDS)

    async def delete(self, session_id: str) -> None:
        """Remove a session with its log, for good, wherever it is open; an unknown one is no error."""
        await to_its_end(partial(self._services.sessions.close, session_id, "delete"), CLOSING_SECONDS)
        await self._services.store.delete(session_id)
        remove_transcript(self._services.home, session_id)
        remove_originals(self._services.home, session_id)

    def stop(self) -> None:
        """Let every session end, since nobody is there any more; the task group tells when they have."""
        for session in self._open.values():
            session.stop()

    async def replay(self, session: Session) -> None:
        """Show a session's whole log to its client."""
        await session.replay(self._services.store.events(session.session_id))

    def prewarm(self, session: Session) -> None:
        """Load what the first prompt needs and what is small, a moment from now, in the background."""
        self._tasks.start_soon(_prewarm, session)

    async def close_if_open(self, session_id: str, reason: Literal["close", "delete"]) -> None:
        """Close a session where it is open here; see `Keeper`."""
        session = self._open.pop(session_id, None)
        if session is None:
            if (closing := self._closing.get(session_id)) is not None:
                await closing.wait()
            return
        closed = self._closing[session_id] = anyio.Event()
        try:
            await session.close(reason)
        finally:
            self._services.sessions.discard(session)
            del self._closing[session_id]
            closed.set()

    async def _host(
        self,
        session_id: str,
        client: SessionClient,
        directories: tuple[Path, ...],
        create: tuple[Event, ...] | None,
        source: Source,
        mcp_servers: Sequence[McpServer],
    ) -> SessionHost:
        services = self._services
        settings = services.settings(directories[0])
        instructions = await read_instructions(directories, settings.home)
        if create is not None:
            cwd, *additional = map(str, directories)
            logged = await services.store.create(session_id, cwd, additional, (*create, instructions))
            context = Context.from_log(logged)
        else:
            context = await services.store.context(session_id)
        log = SessionLog(services.store, session_id, context)
        if (additional := tuple(map(str, directories[1:]))) != context.additional_directories:
            await log.change(DirectoriesChanged(additional))
        if context.instructions != instructions.text:
            await log.change(instructions, between_turns=True)
        return SessionHost(session_id, log, client, services, settings, directories, source, mcp_servers)

    def _start(self, host: SessionHost) -> Session:
        session = Session(host, partial(self._tell_others, host.session_id))
        self._open[session.session_id] = session
        self._services.sessions.add(session, self)
        self._tasks.start_soon(self._serve, session)
        return session

    def _tell_others(self, session_id: str) -> None:
        """Other clients that have this session open are told what was set here."""
        for other in self._services.sessions.others(session_id, self):
            # Not waited for: its client may read slowly.
            self._tasks.start_soon(other.catch_up)

    async def _serve(self, session: Session) -> None:
        try:
            await session.serve()
        finally:
            self._services.sessions.discard(session)


async def _prewarm(session: Session) -> None:
    await anyio.sleep(PREWARM_SECONDS)
    try:
        await session.host.loading.prewarm()
        await session.host.hooks.start()
    except GivenUpError:
        pass  # the process ends
    except AgentError as error:
        # The prompt that needs it will say what is wrong, to somebody who can read it.
        _log.info("the model of %s was not prepared: %s", session.session_id, error)
    except Exception:
        _log.exception("could not prepare the model of %s", session.session_id)


async def _stored_title(store: SessionStore, session_id: str, title: str) -> None:
    """Give a session that is not open here its title, also while another process goes on with it."""
    for _ in range(_TITLE_TRIES):
        try:
            await store.append(session_id, (await store.record(session_id)).head, [TitleChanged(title, "user")])
        except SessionConflictError:
            continue
        return
    raise SessionConflictError(
        f"Another process is working on session {session_id!r}. Set its title again in a moment."
    )
