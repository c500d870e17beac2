"""`acp-agent sessions`: list, rename, remove, archive, move and fork sessions."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from acp_agent.app import open_database
from acp_agent.cli.terminal.sessions import ALL, matching, row_of, session_ids
from acp_agent.config import home_dir, load_settings
from acp_agent.conversation.messages import JsonObject, new_id
from acp_agent.errors import InvalidParamsError
from acp_agent.session.log import (
    fork_session,
    move_session,
    remove_transcript,
    rename_session,
)
from acp_agent.session.titles import given_title
from acp_agent.storage.store import SessionRecord, SessionStore
from acp_agent.visible import on_one_line

_ID = "its id or the beginning of it, as "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    _add_list_options(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    # The options may also precede the sub-command. The inner parser's defaults would
    # overwrite them.
    _add_list_options(
        actions.add_parser("list", help="list the sessions (the default action)"),
        argparse.SUPPRESS,
    )
    for name, text, listed in (
        ("rm", "remove sessions and their history permanently", "sessions"),
        (
            "archive",
            "hide sessions from the list without removing them",
            "sessions",
        ),
        (
            "unarchive",
            "show archived sessions in the list again",
            "sessions --archived",
        ),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "ids",
            nargs="+",
            metavar="ID",
            help=f"{_ID}`acp-agent {listed}` lists it; may be repeated",
        )
    rename = actions.add_parser("rename", help="rename a session")
    rename.add_argument("id", metavar="ID", help=f"{_ID}`acp-agent sessions` lists it")
    rename.add_argument(
        "title",
        nargs="+",
        metavar="TITLE",
        help="new title; generated titles do not replace it",
    )
    move = actions.add_parser(
        "move",
        help="change the directory of a session after you moved it",
    )
    move.add_argument("id", metavar="ID", help=f"{_ID}`acp-agent sessions` lists it")
    move.add_argument(
        "directory",
        metavar="DIRECTORY",
        nargs="?",
        default=".",
        help="where the session's directory is now (default: the current directory)",
    )
    fork = actions.add_parser(
        "fork",
        help="create a session that continues from a point in another one, and print its id",
    )
    fork.add_argument("id", metavar="ID", help=f"{_ID}`acp-agent sessions` lists it")
    fork.add_argument(
        "--at",
        type=int,
        metavar="N",
        help="last entry to copy, by its number in `acp-agent inspect` (default: the newest)",
    )


def _add_list_options(parser: argparse.ArgumentParser, default: object = False) -> None:
    for option, text in (
        ("--archived", "list only archived sessions"),
        ("--json", "print a JSON array, for scripts; see `acp-agent help scripts`"),
    ):
        parser.add_argument(option, action="store_true", default=default, help=text)


async def run(arguments: argparse.Namespace) -> int:
    """List the sessions, newest first, or change the named ones.

    :raises AgentError: if a named session does not exist, or if its name is the
        beginning of several IDs.
    :raises InvalidParamsError: if a session has no such entry to fork at, if the
        destination of a move is not a directory, or if a title has no printable
        characters.
    """
    store = await open_database(os.environ)
    try:
        await _act(store, arguments)
    finally:
        await store.aclose()
    return 0


async def _act(store: SessionStore, arguments: argparse.Namespace) -> None:
    match arguments.action:
        case "rm":
            # Find all sessions before removing the first one.
            for session_id in await _named(store, arguments.ids):
                await store.delete(session_id)
                remove_transcript(home_dir(os.environ), session_id)
                print(f"Removed {session_id}.")
        case "archive" | "unarchive":
            done = "Archived" if arguments.action == "archive" else "Listed again"
            for session_id in await _named(store, arguments.ids):
                await store.archive(session_id, archived=arguments.action == "archive")
                print(f"{done} {session_id}.")
        case "rename":
            title = given_title(" ".join(arguments.title))
            [session_id] = await _named(store, [arguments.id])
            await rename_session(store, session_id, title)
            print(f"{session_id} is now called: {title}")
        case "move":
            directory = _directory(arguments.directory)
            [session_id] = await _named(store, [arguments.id])
            mode = load_settings(os.environ, directory).mode
            notice = await move_session(store, session_id, directory, mode)
            print(
                f"{session_id} now belongs to {on_one_line(directory)}. {notice}".rstrip()
            )
        case "fork":
            [session_id] = await _named(store, [arguments.id])
            record = await store.record(session_id)
            made = new_id("sess")
            directories = (record.cwd, record.additional_directories)
            mode = load_settings(os.environ, Path(record.cwd)).mode
            await fork_session(
                store, session_id, arguments.at, *directories, made, mode
            )
            print(made)
        case _:
            archived = "only" if arguments.archived else "exclude"
            records = (
                await store.list(limit=ALL, archived=archived, include_unused=())
            ).sessions
            if arguments.json:
                # ASCII is the same in every locale, and JSON in ASCII contains no
                # escape sequences.
                print(json.dumps([_as_json(record) for record in records], indent=2))
            else:
                for record in records:
                    print(row_of(record))


async def _named(store: SessionStore, names: Sequence[str]) -> list[str]:
    ids = await session_ids(store, "include")
    return [matching(name, ids) for name in names]


def _as_json(record: SessionRecord) -> JsonObject:
    """Return a session as JSON, with ACP's member names."""
    return {
        "sessionId": record.session_id,
        "cwd": record.cwd,
        "additionalDirectories": list(record.additional_directories),
        "title": record.title,
        "createdAt": _time(record.created_at),
        "updatedAt": _time(record.updated_at),
        "archived": record.archived,
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def _directory(named: str) -> Path:
    directory = Path(named).resolve()
    if not directory.is_dir():
        raise InvalidParamsError(f"{named} is not a directory. Nothing was moved.")
    return directory
