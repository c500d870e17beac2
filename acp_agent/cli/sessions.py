"""`acp-agent sessions`: the list of all sessions; removing, archiving and forking some."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from acp_agent.app import open_database
from acp_agent.config import home_dir
from acp_agent.conversation.messages import new_id
from acp_agent.session.log import fork_session, remove_transcript
from acp_agent.storage.store import ArchiveFilter, SessionStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument("--archived", action="store_true", help="list those that are archived, and no others")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, text, listed in (
        ("rm", "remove sessions with their history, for good", "sessions"),
        ("archive", "leave sessions out of the list, with all they hold kept", "sessions"),
        ("unarchive", "list sessions again that were archived", "sessions --archived"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("ids", nargs="+", metavar="ID", help=f"as `acp-agent {listed}` lists it; may be repeated")
    fork = actions.add_parser("fork", help="make a session that goes on from a point of another one; prints its id")
    fork.add_argument("id", metavar="ID", help="as `acp-agent sessions` lists it")
    fork.add_argument(
        "--at",
        type=int,
        metavar="N",
        help="the last entry that the new session has, by its number in `acp-agent inspect`; all of them where none is "
        "given",
    )


async def run(arguments: argparse.Namespace) -> int:
    """List the sessions, newest first; or do something with those that are named.

    :raises SessionNotFoundError: one that is named is not there.
    :raises InvalidParamsError: a session has no such entry to fork it at.
    """
    store = await open_database(os.environ)
    try:
        match arguments.action:
            case "rm":
                await _each(arguments.ids, "Removed", lambda session_id: _remove(store, session_id))
            case "archive":
                await _each(arguments.ids, "Archived", lambda session_id: store.archive(session_id, archived=True))
            case "unarchive":
                await _each(arguments.ids, "Listed again", lambda session_id: store.archive(session_id, archived=False))
            case "fork":
                print(await _fork(store, arguments.id, arguments.at))
            case _:
                await _list(store, "only" if arguments.archived else "exclude")
    finally:
        await store.aclose()
    return 0


async def _each(ids: Sequence[str], done: str, work: Callable[[str], Awaitable[None]]) -> None:
    for session_id in ids:
        await work(session_id)
        print(f"{done} {session_id}.")


async def _remove(store: SessionStore, session_id: str) -> None:
    await store.record(session_id)
    await store.delete(session_id)
    remove_transcript(home_dir(os.environ), session_id)


async def _fork(store: SessionStore, session_id: str, at: int | None) -> str:
    record, made = await store.record(session_id), new_id("sess")
    await fork_session(store, session_id, at, record.cwd, record.additional_directories, made)
    return made


async def _list(store: SessionStore, archived: ArchiveFilter) -> None:
    cursor: str | None = None
    while True:
        page = await store.list(cursor=cursor, archived=archived, not_begun=())
        for record in page.sessions:
            changed = datetime.fromtimestamp(record.updated_at / 1000, UTC).astimezone()
            print(f"{record.session_id}  {changed:%Y-%m-%d %H:%M}  {record.cwd}  {record.title or '(untitled)'}")
        cursor = page.next_cursor
        if cursor is None:
            return
