"""`SessionLog`: one session's log in the store and the context folded from it, which
change together.

The session is the log's only writer in this process. If another process appends to the
log, `SessionLog` catches up, and `take_missed` returns the context that the client
still shows.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import anyio

from acp_agent.config.settings import MODES, Mode
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    AutoCompactionChanged,
    DirectoriesChanged,
    Event,
    InstructionsLoaded,
    LoggedEvent,
    ModeChanged,
    ModelChanged,
    NoteAdded,
    PartialAnswer,
    PermissionGranted,
    SessionForked,
    SummaryDropped,
    ThoughtLevelChanged,
    TitleChanged,
    ToolReturned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.errors import InvalidParamsError, SessionConflictError
from acp_agent.sandbox.roots import moved_root
from acp_agent.storage.store import FoundMessage, SessionStore

Events = TypeVar("Events", bound=tuple[Event, ...])

Source: TypeAlias = Literal["new", "load", "resume"]
"""How a session was opened."""
TRANSCRIPTS = "transcripts"
"""Name of the transcripts' folder in the agent's home."""

_FORK_MARK = re.compile(r" \(fork(?: \d+)?\)\Z")
_MANY = 1_000_000
"""More sessions than any directory has."""
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
"""Events that do not change the conversation."""


class SessionLog:
    """Appends events to the store and applies them to the context under one lock. It is
    also `recall`'s `Archive`.

    :ivar context: the context after everything appended so far.
    """

    def __init__(self, store: SessionStore, session_id: str, context: Context) -> None:
        self.store = store
        self.session_id = session_id
        # The holder waits for the disk anyway.
        self._lock = anyio.Lock(fast_acquire=True)
        self._missed: Context | None = None
        self.context = context

    async def append(self, *events: Event) -> None:
        """Append events durably. A cancel waits until that is done, so that store and
        context never differ.

        :raises SessionConflictError: if another process has continued the conversation.
        :raises SessionNotFoundError: if the session was deleted.
        """
        await self.append_built(lambda _: events)

    async def append_built(
        self, build: Callable[[Context], Events], *, behind_others: bool = False
    ) -> Events:
        """Append events that depend on the context at the moment of the append, and
        return them.

        :param build: builds the events from the context. It is called while nothing
            else can be appended, and called again if another process appended first.
        :param behind_others: whether to retry after another process appended events of
            any kind. Otherwise, retry only after settings.
        """
        events: Events | None = None
        with anyio.CancelScope(shield=True):
            async with self._lock:
                while events := build(self.context):
                    try:
                        for logged in await self.store.append(
                            self.session_id, self.context.head, events
                        ):
                            self.context = self.context.apply(logged)
                    except SessionConflictError:
                        await (self._reload() if behind_others else self._catch_up())
                    else:
                        break
        assert events is not None  # a shielded scope swallows nothing
        return events

    async def change(self, event: Event) -> None:
        """Append a setting, retrying if another process appended first.

        Do not use this in a running turn, during which the conversation must not
        change.

        :raises SessionNotFoundError: if the session was deleted.
        """

        await self.append_built(lambda _: (event,), behind_others=True)

    async def confirm(self) -> None:
        """Check that no other process has continued the session, before doing something
        that must be logged.

        :raises SessionConflictError: if another process has continued it.
        :raises SessionNotFoundError: if the session was deleted.
        """
        async with self._lock:
            if await self._is_behind():
                await self._catch_up()

    async def refresh(self) -> None:
        """Read everything that another process may have appended."""
        async with self._lock:
            if await self._is_behind():
                await self._reload()

    def take_missed(self) -> Context | None:
        """Return the context from before another process appended, and forget it; None
        if no process has appended.
        """
        missed = self._missed
        self._missed = None
        return missed

    def events(self, after: int = 0) -> AsyncIterator[LoggedEvent]:
        """Iterate over the entries after a sequence number."""
        return self.store.events(self.session_id, after=after)

    async def read(self, seqs: Sequence[int]) -> tuple[LoggedEvent, ...]:
        """Return the entries with these sequence numbers that exist."""
        return await self.store.read(self.session_id, seqs)

    async def search(self, query: str, limit: int) -> Sequence[FoundMessage]:
        """Return the messages that match a query and that the model does not currently
        see, best first.
        """
        visible = {entry.seq for entry in self.context.entries if not entry.shortened}
        return await self.store.search(
            self.session_id, query, limit=limit, without=visible
        )

    async def prepare_search(self) -> None:
        """Index the messages that a search would otherwise have to index first."""
        await self.store.prepare_search(self.session_id)

    async def read_blob(self, sha256: str) -> bytes | None:
        """Return the stored bytes with this digest; None if they are gone."""
        return (await self.store.blobs(self.session_id, (sha256,))).get(sha256)

    async def context_at(self, seq: int) -> Context:
        """Return the context as it was after an entry."""
        return await self.store.context_at(self.session_id, seq)

    async def _is_behind(self) -> bool:
        return (await self.store.record(self.session_id)).head != self.context.head

    async def _catch_up(self) -> None:
        """Read the settings that another process appended.

        :raises SessionConflictError: if it appended anything else.
        """
        context = self.context
        async for logged in self.events(after=context.head):
            if not isinstance(logged.event, _SETTINGS):
                raise SessionConflictError(
                    "Another process has continued this session, so this turn cannot go on. Send the prompt "
                    "again to continue from the session's current state."
                )
            context = context.apply(logged)
        self._replace(context)

    async def _reload(self) -> None:
        self._replace(await self.store.context(self.session_id))

    def _replace(self, context: Context) -> None:
        if self._missed is None:
            self._missed = self.context
        self.context = context


def transcript_file(home: Path, session_id: str) -> Path:
    """Return the path of a session's transcript, the copy of its log for hooks. The
    file exists if a hook has asked for it.

    :param home: the agent's home.
    """
    return home / TRANSCRIPTS / f"{session_id}.jsonl"


def remove_transcript(home: Path, session_id: str) -> None:
    """Remove a session's transcript; do nothing if the id is not a file name."""
    if Path(session_id).name == session_id:
        with suppress(OSError, ValueError):
            transcript_file(home, session_id).unlink()


async def fork_session(
    store: SessionStore,
    session_id: str,
    at: int | str | None,
    cwd: str,
    additional_directories: Sequence[str],
    made: str,
    mode: Mode,
) -> None:
    """Create a stored session that continues another one from a given point.

    The fork has the history, compactions, pins, plan and model of the other session,
    but not its permissions. It also has the other session's mode if `mode_in` allows
    it.

    :param at: seq of the last entry to copy, or id of the last message to copy; None
        copies everything.
    :param cwd: absolute path of the new session's working directory.
    :param additional_directories: absolute paths.
    :param made: the new session's id.
    :param mode: the mode of a new session in these directories.
    :raises SessionNotFoundError: if there is no such session.
    :raises InvalidParamsError: if the session has no such entry or message.
    """
    record = await store.record(session_id)
    if at is None:
        at = record.head
    elif isinstance(at, str):
        at = await _end_of_message(store, session_id, at)
    context = await store.context_at(session_id, at)
    kept = mode_in(context, cwd, additional_directories, mode)
    forked = SessionForked(
        session_id,
        at,
        cwd,
        tuple(additional_directories),
        "" if kept == context.mode else kept,
    )
    events: list[Event] = [forked]
    if record.title:
        others = (
            await store.list(record.cwd, limit=_MANY, archived="include")
        ).sessions
        events.append(
            TitleChanged(fork_title(record.title, {other.title for other in others}))
        )
    await store.fork(session_id, made, at, cwd, additional_directories, events)


def fork_title(title: str, taken: Collection[str | None]) -> str:
    """Return a title that distinguishes a fork from the session that it continues and
    from that session's other forks.

    :param title: the title of the other session, which may be a fork too.
    :param taken: the titles that exist.
    """
    base = _FORK_MARK.sub("", title)
    number = 1
    while (made := f"{base} (fork{f' {number}' if number > 1 else ''})") in taken:
        number += 1
    return made


async def rename_session(store: SessionStore, session_id: str, title: str) -> None:
    """Set the title that the user chose for a stored session.

    :param title: a title from `titles.given_title`.
    :raises SessionNotFoundError: if there is no such session.
    """
    log = SessionLog(store, session_id, await store.context(session_id))
    await log.change(TitleChanged(title, "user"))


async def move_session(
    store: SessionStore, session_id: str, cwd: Path, mode: Mode
) -> str:
    """Change the working directory of a stored session, after the directory was moved.

    Missing additional directories inside the old directory are assumed to have moved
    with it.

    :param cwd: absolute path of the new directory.
    :param mode: the mode of a new session there.
    :returns: what the user should know about the session's mode; empty if the mode is
        still the same.
    :raises SessionNotFoundError: if there is no such session.
    """
    log = SessionLog(store, session_id, await store.context(session_id))
    former = log.context
    await log.change(moved_to(cwd, former, mode))
    return mode_notice(former.mode, log.context.mode)


def moved_to(cwd: Path, context: Context, mode: Mode) -> DirectoriesChanged:
    """Return the event that records a session's new directory; see `move_session`."""
    former = Path(context.cwd)
    more: list[str] = []
    for each in map(Path, context.additional_directories):
        is_within = each.is_relative_to(former) and not each.is_dir()
        more.append(str(cwd / each.relative_to(former) if is_within else each))
    root = moved_root(context.root, context.cwd, cwd)
    kept = mode_in(context, str(cwd), more, mode)
    return DirectoriesChanged(
        tuple(more), str(cwd), root, "" if kept == context.mode else kept
    )


def mode_in(
    context: Context, cwd: str, additional_directories: Sequence[str], mode: Mode
) -> str:
    """Return the mode that a session has in some directories.

    The user chose the session's mode for the directories that it had at that time. In
    other directories, it may not be freer than the mode of a new session there.

    :param cwd: absolute path of the working directory.
    :param mode: the mode of a new session in these directories.
    """
    stricter = MODES[: MODES.index(mode)]
    is_kept = context.mode in stricter or context.covers(cwd, additional_directories)
    return context.mode if is_kept else mode


def mode_notice(former: str, mode: str) -> str:
    """Return the notice that a session's mode does not apply in other directories;
    empty if it does.
    """
    if mode == former:
        return ""
    return (
        f"This session was in {former} mode. That mode was chosen for other directories, so the session is now in "
        f"{mode} mode."
    )


async def _end_of_message(store: SessionStore, session_id: str, message_id: str) -> int:
    """Return the last entry that belongs to a message, including an answer's tool
    results and the end of its turn.
    """
    found = 0
    async for logged in store.events(session_id):
        event = logged.event
        match event:
            case UserPrompted() | NoteAdded() | PartialAnswer() | AssistantAnswered():
                if found:
                    return found
                id = (
                    event.message.id
                    if isinstance(event, AssistantAnswered)
                    else event.message_id
                )
                if id == message_id and not isinstance(event, PartialAnswer):
                    found = logged.seq
            case ToolReturned() | TurnEnded() if found:
                found = logged.seq
            case _:
                pass
    if not found:
        raise InvalidParamsError(
            f"Session {session_id!r} has no message {message_id!r} at which to fork it."
        )
    return found
