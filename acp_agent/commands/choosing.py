"""The session that a command is about: by its id, by the beginning of that, or the newest of this directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from acp_agent.errors import AgentError, SessionNotFoundError
from acp_agent.storage.store import SessionRecord, SessionStore

_PAGE = 500


async def chosen_session(store: SessionStore, name: str | None) -> SessionRecord:
    """The session that was named.

    :param name: an id or its beginning; None for the newest session of the current directory.
    :raises AgentError: there is none, or more than one.
    """
    if name is None:
        cwd = current_directory()
        page = await store.list(cwd=cwd, limit=1, not_begun=())
        if not page.sessions:
            raise AgentError(f"There is no session of {cwd}. Name one; `acp-agent sessions` lists all of them.")
        return page.sessions[0]
    try:
        return await store.record(name)
    except SessionNotFoundError:
        return await store.record(matching(name, await session_ids(store)))


async def session_ids(store: SessionStore) -> list[str]:
    """The ids of all sessions, newest first."""
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.list(cursor=cursor, limit=_PAGE)
        ids += [record.session_id for record in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            return ids


def matching(name: str, ids: Sequence[str], *, or_file: bool = False) -> str:
    """The one session that has this id, or whose id begins so.

    :param or_file: whether a file might have been named as well.
    :raises AgentError: there is none, or more than one.
    """
    fitting = [name] if name in ids else [each for each in ids if each.startswith(name)]
    if not fitting:
        what = "neither a file nor a session" if or_file else "no session"
        raise AgentError(f"{name!r} is {what}. `acp-agent sessions` lists the sessions.")
    if len(fitting) > 1:
        raise AgentError(f"{name!r} is the beginning of {len(fitting)} sessions' ids: write more of it.")
    return fitting[0]


def current_directory() -> str:
    """The directory that a command was called in.

    :raises AgentError: it does not exist any more.
    """
    try:
        return str(Path.cwd())
    except FileNotFoundError as error:
        raise AgentError("The current directory does not exist any more; change to another one.") from error
