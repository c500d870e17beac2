"""`SessionManager`: opens, closes, lists, forks and deletes sessions, for one connection.

The connections of a process share `OpenSessions`, so that a session that is open elsewhere can be closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup, TaskStatus

from acp_agent.config.settings import McpServer
from acp_agent.conversation.events import TitleChanged
from acp_agent.conversation.messages import new_id
from acp_agent.errors import SessionClosedError
from acp_agent.session.actor import Session
from acp_agent.session.client import SessionClient
from acp_agent.session.factory import open_session
from acp_agent.session.log import SessionLog, Source, fork_session, remove_transcript
from acp_agent.session.project.accounts import Accounts
from acp_agent.session.project.workspace import named_directories
from acp_agent.session.services import Services
from acp_agent.session.titles import given_title
from acp_agent.shielding import finish_shielded
from acp_agent.storage.store import ArchiveFilter, SessionPage

CLOSING_SECONDS = 5.0
"""Seconds that a session may still take to close and reopen once its request is cancelled: a half-closed session would
keep running, and could not be found."""

Status: TypeAlias = Literal["open", "saved"]
"""A session is open in this process, for any connection, or it is stored and can be opened."""
ClientFor: TypeAlias = Callable[[str], SessionClient]
"""Makes the client of the session with this id."""

OpenSessions: TypeAlias = list[Session]
"""The sessions that are open in this process, whichever connection has opened them."""


class SessionManager:
    """Opens and closes sessions. Calls that open or close the same session must not overlap.

    :param tasks: where each session's actor runs.
    :param sessions: those that are open, also for other connections; None if there are no others.
    :ivar accounts: the credentials and endpoints of the providers.
    """

    def __init__(self, services: Services, tasks: TaskGroup, sessions: OpenSessions | None = None) -> None:
        self._services = services
        self._tasks = tasks
        self._sessions = [] if sessions is None else sessions
        self._own: dict[str, Session] = {}
        self.accounts = Accounts(services)

    async def new(
        self, cwd: str, additional: Sequence[str], client: ClientFor, mcp_servers: Sequence[McpServer] = ()
    ) -> Session:
        """Make a session; it is durable when this returns.

        :param cwd: absolute path of a directory that exists.
        :param additional: absolute paths of further directories.
        :param client: makes the session's client.
        :param mcp_servers: those that the client names, in addition to the configuration's.
        :raises InvalidParamsError: a path is relative, or no directory.
        :raises ConfigError: the settings for this directory are wrong.
        """
        directories = named_directories(cwd, additional, must_exist=True)
        session_id = new_id("sess")
        async with self.discard_on_failure(session_id):
            return await self._start(session_id, directories, client, mcp_servers, "new")

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
        directories = named_directories(cwd, additional, must_exist=False)
        self._services.settings(directories[0])

        async def reopened() -> Session:
            # A log is replayed whole, and a session has one client: a turn that runs for another one ends first.
            if (session := self._own.get(session_id)) is not None:
                await session.close()
            await self._services.store.record(session_id)
            return await self._start(session_id, directories, client, mcp_servers, source)

        return await finish_shielded(reopened, CLOSING_SECONDS)

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
        services, directories = self._services, named_directories(cwd, additional, must_exist=True)
        paths, made = [str(path) for path in directories], new_id("sess")
        async with self.discard_on_failure(made):
            await fork_session(services.store, session_id, at, paths[0], paths[1:], made)
            return await self._start(made, directories, client, mcp_servers, "resume")

    @asynccontextmanager
    async def discard_on_failure(self, session_id: str) -> AsyncGenerator[None]:
        """Remove a new session if the work before its client learns of it fails or is cancelled."""
        try:
            yield
        except BaseException:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await self.delete(session_id)
            raise

    def find(self, session_id: str) -> Session | None:
        """Return a session if it is open here."""
        session = self._own.get(session_id)
        return None if session is None or session.is_closing else session

    async def get(self, session_id: str) -> Session:
        """Return an open session.

        :raises SessionClosedError: it is stored, but not open here.
        :raises SessionNotFoundError: no such session.
        """
        session = self.find(session_id)
        if session is None:
            await self._services.store.record(session_id)
            raise SessionClosedError(session_id)
        return session

    async def list(self, cwd: str | None, cursor: str | None, archived: ArchiveFilter = "exclude") -> SessionPage:
        """Return a part of the list of sessions, newest first: those that were begun, and those that are open.

        :raises InvalidParamsError: the cursor is not one of ours.
        """
        shown = tuple(session.session_id for session in self._sessions)
        return await self._services.store.list(cwd=cwd, cursor=cursor, archived=archived, not_begun=shown)

    async def status(self, session_id: str) -> Status:
        """Return whether a session is open, here or for another connection.

        :raises SessionNotFoundError: no such session.
        """
        await self._services.store.record(session_id)
        return "open" if self._everywhere(session_id) else "saved"

    def _everywhere(self, session_id: str) -> tuple[Session, ...]:
        """Return every connection's open session with this id, the newest first."""
        return tuple(session for session in reversed(self._sessions) if session.session_id == session_id)

    def find_anywhere(self, session_id: str) -> Session | None:
        """Return a session that is open for any connection; for this one, if it is."""
        return self.find(session_id) or next(iter(self._everywhere(session_id)), None)

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
            store = self._services.store
            log = SessionLog(store, session_id, await store.context(session_id))
            await log.change(TitleChanged(title, "user"))
            self._tell_others(session_id)
        return title

    async def archive(self, session_id: str) -> None:
        """Close a session wherever it is open, and leave it out of the ordinary list from now on.

        :raises SessionNotFoundError: no such session.
        """
        await self._services.store.record(session_id)
        await self._close(self._everywhere(session_id), "close")
        await self._services.store.archive(session_id, archived=True)

    async def unarchive(self, session_id: str) -> None:
        """Put a session back into the list.

        :raises SessionNotFoundError: no such session.
        """
        await self._services.store.archive(session_id, archived=False)

    async def close(self, session_id: str) -> None:
        """Close a session; one that is not open here, wherever it is open. Its log stays.

        :raises SessionClosedError: it is stored, but open nowhere.
        :raises SessionNotFoundError: no such session.
        """
        own = self.find(session_id)
        sessions = self._everywhere(session_id) if own is None else (own,)
        if not sessions:
            await self.get(session_id)  # raises why there is none
        await self._close(sessions, "close")

    async def delete(self, session_id: str) -> None:
        """Remove a session with its log, for good, wherever it is open; an unknown one is no error."""
        await self._close(self._everywhere(session_id), "delete")
        await self._services.store.delete(session_id)
        remove_transcript(self._services.home, session_id)

    def stop(self) -> None:
        """End every session, since the client is gone; the task group ends when they have."""
        for session in self._own.values():
            session.stop()

    async def _close(self, sessions: Sequence[Session], reason: Literal["close", "delete"]) -> None:
        for session in sessions:
            await finish_shielded(partial(session.close, reason), CLOSING_SECONDS)

    async def _start(
        self,
        session_id: str,
        directories: tuple[Path, ...],
        client: ClientFor,
        servers: Sequence[McpServer],
        source: Source,
    ) -> Session:
        opened = open_session(self._services, session_id, directories, client(session_id), servers, source)
        return await self._tasks.start(self._run, opened)

    async def _run(self, opened: AbstractAsyncContextManager[Session], *, task_status: TaskStatus[Session]) -> None:
        """Keep a session open until it has been closed."""
        async with opened as session:
            self._own[session.session_id] = session
            self._sessions.append(session)
            try:
                task_status.started(session)
                while not session.serve_returned:
                    await session.changed.wait()
                    self._tell_others(session.session_id)
            finally:
                self._sessions.remove(session)
                del self._own[session.session_id]

    def _tell_others(self, session_id: str) -> None:
        """Notify other connections of what was set here."""
        for other in self._everywhere(session_id):
            if other is not self._own.get(session_id):
                # Not waited for: its client may read slowly.
                self._tasks.start_soon(other.catch_up)
