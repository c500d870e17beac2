"""`SessionManager`: opens, closes, lists, forks and deletes sessions for one
connection.

All connections of a process share `OpenSessions`, so that each can close a session that
another one has open.
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
from acp_agent.conversation.messages import new_id
from acp_agent.errors import SessionClosedError
from acp_agent.session.actor import Session
from acp_agent.session.client import SessionClient
from acp_agent.session.factory import open_session
from acp_agent.session.log import (
    Source,
    fork_session,
    remove_transcript,
    rename_session,
)
from acp_agent.session.models.accounts import Accounts
from acp_agent.session.services import SessionServices
from acp_agent.session.titles import given_title
from acp_agent.session.workspace import named_directories
from acp_agent.shielding import finish_shielded
from acp_agent.storage.store import ArchiveFilter, SessionPage

CLOSING_SECONDS = 5.0
"""How many seconds closing and reopening a session may still take after the request was
cancelled. Otherwise a half-closed session would keep running, and could not be found.
"""

Status: TypeAlias = Literal["open", "saved"]
"""`open`: open in this process, for any connection. `saved`: stored, so that it can be
opened.
"""
ClientFor: TypeAlias = Callable[[str], SessionClient]
"""Creates the client of the session with the given id."""

OpenSessions: TypeAlias = list[Session]
"""The sessions that are open in this process, for any connection."""


class SessionManager:
    """Opens and closes sessions. Calls that open or close the same session must not
    overlap.

    :param tasks: the task group in which each session's actor runs.
    :param sessions: the open sessions of all connections; None if there is only this
        connection.
    :ivar accounts: the credentials and endpoints of the providers.
    """

    def __init__(
        self,
        services: SessionServices,
        tasks: TaskGroup,
        sessions: OpenSessions | None = None,
    ) -> None:
        self._services = services
        self._tasks = tasks
        self._sessions = [] if sessions is None else sessions
        self._own: dict[str, Session] = {}
        self.accounts = Accounts(services)

    async def new(
        self,
        cwd: str,
        additional: Sequence[str],
        client: ClientFor,
        mcp_servers: Sequence[McpServer] = (),
    ) -> Session:
        """Create and open a session. It is stored durably when this returns.

        :param cwd: absolute path of an existing directory.
        :param additional: absolute paths of additional directories.
        :param client: creates the session's client.
        :param mcp_servers: the servers that the client names, in addition to the
            configuration's.
        :raises InvalidParamsError: if a path is relative or not a directory.
        :raises ConfigError: if the settings for this directory are invalid.
        """
        directories = named_directories(cwd, additional, must_exist=True)
        session_id = new_id("sess")
        async with self.discard_on_failure(session_id):
            return await self._start(
                session_id, directories, client, mcp_servers, "new"
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
        """Open a stored session. If this connection already has it open, it is closed
        first, as by `close`.

        A cancel waits until the session is open again, so that the caller can use it or
        open it once more.

        :param additional: absolute paths of all additional directories. They replace
            the session's previous ones. Missing directories do not prevent the session
            from being opened.

        :raises SessionNotFoundError: if there is no such session.
        :raises InvalidParamsError: if a path is relative.
        :raises ConfigError: if the settings for this directory are invalid. An open
            session then stays open.
        """
        directories = named_directories(cwd, additional, must_exist=False)
        self._services.settings(directories[0])

        async def reopened() -> Session:
            # A session has one client, and the whole log is replayed to it. So end the
            # turn of the former client first.
            if (session := self._own.get(session_id)) is not None:
                await session.close()
            await self._services.store.record(session_id)
            return await self._start(
                session_id, directories, client, mcp_servers, source
            )

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
        """Open a new session that continues another one from a given point.

        The other session need not be open, and does not change.

        :param at: the last log entry, or the id of the last message, that the fork
            contains; None for the whole log.
        :raises SessionNotFoundError: if there is no such session.
        :raises InvalidParamsError: if a path is relative or not a directory, or if
            there is no such entry or message.
        :raises ConfigError: if the settings for this directory are invalid.
        """
        services = self._services
        directories = named_directories(cwd, additional, must_exist=True)
        paths = [str(path) for path in directories]
        made = new_id("sess")
        async with self.discard_on_failure(made):
            mode = services.settings(directories[0]).mode
            await fork_session(
                services.store, session_id, at, paths[0], paths[1:], made, mode
            )
            return await self._start(made, directories, client, mcp_servers, "resume")

    @asynccontextmanager
    async def discard_on_failure(self, session_id: str) -> AsyncGenerator[None]:
        """Delete a new session if the `async with` block, which runs before the client
        learns of it, fails or is cancelled.
        """
        try:
            yield
        except BaseException:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await self.delete(session_id)
            raise

    def find(self, session_id: str) -> Session | None:
        """Return a session if this connection has it open; else None."""
        session = self._own.get(session_id)
        return None if session is None or session.is_closing else session

    async def get(self, session_id: str) -> Session:
        """Return a session that this connection has open.

        :raises SessionClosedError: if the session is stored, but this connection does
            not have it open.
        :raises SessionNotFoundError: if there is no such session.
        """
        session = self.find(session_id)
        if session is None:
            await self._services.store.record(session_id)
            raise SessionClosedError(session_id)
        return session

    async def list(
        self, cwd: str | None, cursor: str | None, archived: ArchiveFilter = "exclude"
    ) -> SessionPage:
        """Return a page of the list of sessions, newest first, without sessions that
        were never used.

        :raises InvalidParamsError: if the cursor is not one of ours.
        """
        return await self._services.store.list(
            cwd=cwd, cursor=cursor, archived=archived, include_unused=()
        )

    async def status(self, session_id: str) -> Status:
        """Return whether a session is open for any connection.

        :raises SessionNotFoundError: if there is no such session.
        """
        await self._services.store.record(session_id)
        return "open" if self._everywhere(session_id) else "saved"

    def _everywhere(self, session_id: str) -> tuple[Session, ...]:
        """Return the open sessions with this id of all connections, newest first."""
        return tuple(
            session
            for session in reversed(self._sessions)
            if session.session_id == session_id
        )

    def find_anywhere(self, session_id: str) -> Session | None:
        """Return a session that is open for any connection, preferably for this one."""
        return self.find(session_id) or next(iter(self._everywhere(session_id)), None)

    async def set_title(self, session_id: str, title: str) -> str:
        """Set the title that the user chose, whether or not the session is open, and
        notify other connections.

        :returns: the title as stored.
        :raises InvalidParamsError: if the title has no printable characters.
        :raises SessionNotFoundError: if there is no such session.
        """
        title = given_title(title)
        session = self.find(session_id)
        if session is not None:
            await session.set_title(title)
        else:
            await rename_session(self._services.store, session_id, title)
            self._tell_others(session_id)
        return title

    async def archive(self, session_id: str) -> None:
        """Close a session for all connections, and hide it from the default list.

        :raises SessionNotFoundError: if there is no such session.
        """
        await self._services.store.record(session_id)
        await self._close(self._everywhere(session_id), "close")
        await self._services.store.archive(session_id, archived=True)

    async def unarchive(self, session_id: str) -> None:
        """Put a session back into the default list.

        :raises SessionNotFoundError: if there is no such session.
        """
        await self._services.store.archive(session_id, archived=False)

    async def close(self, session_id: str) -> None:
        """Close this connection's session or, if it has none with this id, the sessions
        of the other connections.

        The log is kept.

        :raises SessionClosedError: if the session is stored, but not open for any
            connection.
        :raises SessionNotFoundError: if there is no such session.
        """
        own = self.find(session_id)
        sessions = self._everywhere(session_id) if own is None else (own,)
        if not sessions:
            await self.get(session_id)  # raises the right error
        await self._close(sessions, "close")

    async def delete(self, session_id: str) -> None:
        """Close a session for all connections, and delete it and its log permanently.
        An unknown session is not an error.
        """
        await self._close(self._everywhere(session_id), "delete")
        await self._services.store.delete(session_id)
        remove_transcript(self._services.home, session_id)

    def stop(self) -> None:
        """End every session, since the client is gone. The task group ends after the
        last session.
        """
        for session in self._own.values():
            session.stop()

    async def _close(
        self, sessions: Sequence[Session], reason: Literal["close", "delete"]
    ) -> None:
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
        opened = open_session(
            self._services, session_id, directories, client(session_id), servers, source
        )
        return await self._tasks.start(self._run, opened)

    async def _run(
        self,
        opened: AbstractAsyncContextManager[Session],
        *,
        task_status: TaskStatus[Session],
    ) -> None:
        """Keep a session open until it is closed."""
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
        """Notify other connections of changed settings."""
        for other in self._everywhere(session_id):
            if other is not self._own.get(session_id):
                # Do not wait, since the other client may read slowly.
                self._tasks.start_soon(other.catch_up)
