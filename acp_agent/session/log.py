"""`SessionLog`: one session's log and the context folded from it, kept in step. The session is its only writer, unless
another process has it open as well: what that appends is caught up with, and told to whoever shows the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AutoCompactionChanged,
    DirectoriesChanged,
    Event,
    InstructionsLoaded,
    LoggedEvent,
    ModeChanged,
    ModelChanged,
    PermissionGranted,
    SummaryDropped,
    ThoughtLevelChanged,
    TitleChanged,
)
from acp_agent.errors import SessionConflictError
from acp_agent.storage.store import SessionStore

_SETTINGS = (
    ModeChanged,
    ModelChanged,
    ThoughtLevelChanged,
    AutoCompactionChanged,
    DirectoriesChanged,
    PermissionGranted,
    TitleChanged,
    InstructionsLoaded,
    SummaryDropped,
)
"""Events that change nothing of what has been said."""


class SessionLog:
    """Appends to the store and to the context as one act.

    :ivar context: the context after everything appended so far.
    :ivar caught_up: told of what another process has appended, once it is in `context`, with the context before it;
        None while nobody wants to know.
    """

    def __init__(self, store: SessionStore, session_id: str, context: Context) -> None:
        self._store = store
        self._session_id = session_id
        self._lock = anyio.Lock(fast_acquire=True)  # what is done with it waits for the disk anyway
        self._telling = anyio.Lock(fast_acquire=True)  # nearly always there is nothing to tell
        self._untold: Context | None = None
        self.context = context
        self.caught_up: Callable[[Context], Awaitable[None]] | None = None

    async def append(self, *events: Event) -> None:
        """Add events, durably. A cancel waits until it is done, so that store and context never part.

        :raises SessionConflictError: another process wrote to this session.
        :raises SessionNotFoundError: the session was deleted.
        """
        await self.append_built(lambda _: events)

    async def append_built(self, build: Callable[[Context], tuple[Event, ...]]) -> None:
        """Add events that depend on the context as it stands at that very moment.

        :param build: called with the context while nobody else can append.
        """
        with anyio.CancelScope(shield=True):
            async with self._lock:
                logged: tuple[LoggedEvent, ...] = ()
                while events := build(self.context):
                    try:
                        logged = await self._store.append(self._session_id, self.context.head, events)
                        break
                    except SessionConflictError:
                        await self._catch_up()  # which may be behind again at once
                for event in logged:
                    self.context = self.context.apply(event)
        await self._tell()

    async def change(self, event: Event, *, between_turns: bool = False) -> None:
        """Add an event that changes a setting, behind whatever another process appends meanwhile. Not for a running
        turn, which must not have the conversation changed below it.

        :param between_turns: not where a turn is open, wherever that runs.
        :raises SessionNotFoundError: the session was deleted.
        """
        with anyio.CancelScope(shield=True):
            async with self._lock:
                logged: tuple[LoggedEvent, ...] = ()
                while not (between_turns and self.context.turn_from is not None):
                    try:
                        logged = await self._store.append(self._session_id, self.context.head, [event])
                        break
                    except SessionConflictError:
                        await self._reload()
                for one in logged:
                    self.context = self.context.apply(one)
        await self._tell()

    async def confirm(self) -> None:
        """Make sure that the session is still ours: before something is done that could not be logged afterwards.

        :raises SessionConflictError: another process has gone on with it.
        :raises SessionNotFoundError: it was deleted.
        """
        async with self._lock:
            if (await self._store.record(self._session_id)).head != self.context.head:
                await self._catch_up()
        await self._tell()

    async def _catch_up(self) -> None:
        """Take in what another process appended, where it only changed settings, as opening a session in a second
        editor does.

        :raises SessionConflictError: it did more than that.
        """
        context = self.context
        async for logged in self._store.events(self._session_id, after=context.head):
            if not isinstance(logged.event, _SETTINGS):
                raise SessionConflictError(
                    "Another process has worked on this session meanwhile, so this turn cannot go on. Send the prompt "
                    "again to continue from where the session stands now."
                )
            context = context.apply(logged)
        self._behind()
        self.context = context

    async def refresh(self) -> None:
        """Catch up with what another process may have appended since."""
        async with self._lock:
            record = await self._store.record(self._session_id)
            if record.head != self.context.head:
                await self._reload()
        await self._tell()

    async def _reload(self) -> None:
        context = await self._store.context(self._session_id)
        self._behind()
        self.context = context

    def _behind(self) -> None:
        if self.caught_up is not None and self._untold is None:
            self._untold = self.context

    async def _tell(self) -> None:
        """Beside the lock, since it may take as long as an editor does; where it is cancelled, the next one tells. What
        is caught up with meanwhile is told after it, from what has been told on."""
        async with self._telling:
            while self.caught_up is not None and (former := self._untold) is not None:
                self._untold = None
                try:
                    await self.caught_up(former)
                except BaseException:
                    self._untold = former
                    raise
