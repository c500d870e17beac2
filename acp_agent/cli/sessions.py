"""`acp-agent sessions`: list, remove, archive, move and fork sessions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from acp_agent.app import open_database
from acp_agent.cli.terminal.sessions import ALL, matching, row_of, session_ids
from acp_agent.config import home_dir
from acp_agent.conversation.messages import new_id
from acp_agent.errors import InvalidParamsError
from acp_agent.session.log import fork_session, move_session, remove_transcript


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
    move = actions.add_parser("move", help="have a session work in another directory, where its own was moved to")
    move.add_argument("id", metavar="ID", help="as `acp-agent sessions` lists it")
    move.add_argument(
        "directory", metavar="DIRECTORY", nargs="?", default=".", help="the current one where none is given"
    )
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
    :raises InvalidParamsError: if a session has no such entry to fork at, or the place to move it to is no directory.
    """
    store = await open_database(os.environ)
    try:
        match arguments.action:
            case "rm":
                for session_id in arguments.ids:
                    await store.record(session_id)
                    await store.delete(session_id)
                    remove_transcript(home_dir(os.environ), session_id)
                    print(f"Removed {session_id}.")
            case "archive" | "unarchive":
                done = "Archived" if arguments.action == "archive" else "Listed again"
                for session_id in arguments.ids:
                    await store.archive(session_id, archived=arguments.action == "archive")
                    print(f"{done} {session_id}.")
            case "move":
                directory = _directory(arguments.directory)
                session_id = matching(arguments.id, await session_ids(store))
                await move_session(store, session_id, directory)
                print(f"{session_id} now belongs to {directory}.")
            case "fork":
                record, made = await store.record(arguments.id), new_id("sess")
                directories = record.cwd, record.additional_directories
                await fork_session(store, arguments.id, arguments.at, *directories, made)
                print(made)
            case _:
                archived = "only" if arguments.archived else "exclude"
                for record in (await store.list(limit=ALL, archived=archived, not_begun=())).sessions:
                    print(row_of(record))
    finally:
        await store.aclose()
    return 0


def _directory(named: str) -> Path:
    directory = Path(named).resolve()
    if not directory.is_dir():
        raise InvalidParamsError(f"{named} is not a directory. Nothing was moved.")
    return directory
