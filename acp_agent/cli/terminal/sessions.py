"""Chooses the session for a command, by its ID or as the newest of this directory, and
opens it, or makes a new one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from acp_agent.app import build_services, open_database, start_home_logging
from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.cli.terminal.prompts import typed
from acp_agent.config import load_settings
from acp_agent.config.home import user_home
from acp_agent.conversation.events import UserPrompted
from acp_agent.errors import AgentError, SessionClosedError
from acp_agent.sandbox.roots import repository_root
from acp_agent.session.actor import Session
from acp_agent.session.log import move_session
from acp_agent.session.manager import SessionManager
from acp_agent.session.options import MODE, MODEL
from acp_agent.storage.store import ArchiveFilter, SessionRecord, SessionStore
from acp_agent.tools.text import counted
from acp_agent.visible import on_one_line

REFUSED = "The model refused to answer."
LEFT_OUT = "The prompt and what followed it were left out of the conversation, and stay in the session's history."
_ID_BEGINS = "sess_"
ALL = 1_000_000
"""Maximum number of sessions in one list."""


def add_session_choice(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add `--follow` and `--conversation-id`."""
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument(
        "--follow",
        action="store_true",
        help="continue the newest session of this directory or project",
    )
    group.add_argument(
        "-c",
        "--conversation-id",
        metavar="ID",
        dest="session_id",
        help="continue the session with this id, in its own directory",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--model` and `--mode`, and the choice of a session."""
    add_session_choice(parser, required=False)
    parser.add_argument(
        "--add-dir",
        action="append",
        default=[],
        dest="directories",
        metavar="DIRECTORY",
        help="additional directory that the session can use from now on; may be repeated",
    )
    parser.add_argument(
        "--model", metavar="PROVIDER/MODEL", help="model to use from now on"
    )
    parser.add_argument(
        "--mode",
        metavar="MODE",
        help="mode to use from now on: `ask`, `accept-edits`, `plan` or `full-access`",
    )


async def chosen_session(store: SessionStore, name: str | None) -> SessionRecord:
    """Return the session that was named.

    :param name: an ID or its beginning; None for the newest session of the current
        directory or, if it has none, of the nearest directory above it in the project.
    :raises AgentError: if there is no such session, or more than one.
    """
    if name is None:
        cwd = Path.cwd()
        for folder in _project_folders(cwd, user_home(os.environ)):
            page = await store.list(cwd=str(folder), limit=1, include_unused=())
            if page.sessions:
                return page.sessions[0]
        gone = [
            each
            for each in (await store.list(limit=ALL, include_unused=())).sessions
            if not _has_directory(each)
        ]
        advice = "`acp-agent sessions` lists all of them."
        if gone:
            advice += (
                f" If {gone[0].cwd}, which no longer exists, was moved here: "
                f"`acp-agent sessions move {gone[0].session_id}`."
            )
        raise AgentError(f"There is no session of {cwd}. {advice}")
    return await store.record(matching(name, await session_ids(store)))


def _project_folders(cwd: Path, home: Path | None) -> Iterator[Path]:
    """Yield a directory and its parents up to the root of its git repository. Outside a
    repository, stop below the user's home, unless the directory is the home itself.
    """
    parents = (cwd, *cwd.parents)
    home = home and home.resolve()  # since the current directory is resolved
    root = repository_root(cwd)
    for folder in parents:
        if (
            root is None
            and folder != cwd
            and (folder == home or folder == folder.parent)
        ):
            return
        yield folder
        if folder == root:
            return


async def session_ids(
    store: SessionStore, archived: ArchiveFilter = "exclude"
) -> list[str]:
    """Return the ids of all sessions, newest first."""
    return [
        record.session_id
        for record in (await store.list(limit=ALL, archived=archived)).sessions
    ]


def matching(name: str, ids: Sequence[str]) -> str:
    """Return the only ID that is equal to this name or begins with it. The name may
    omit the prefix `sess_` of every ID.

    :raises AgentError: if there is no such ID, or more than one.
    """
    digits = name.removeprefix(_ID_BEGINS)
    fitting = (
        [name]
        if name in ids
        else [each for each in ids if each.startswith((name, f"{_ID_BEGINS}{digits}"))]
    )
    if not fitting:
        raise AgentError(f"{name!r} is not a session. `acp-agent sessions` lists them.")
    if len(fitting) > 1 or not digits:
        raise AgentError(
            f"{name!r} is the beginning of {counted(len(fitting), 'session id')}. Type more of it."
        )
    return fitting[0]


def day_of(record: SessionRecord) -> str:
    """Return when a session was last changed, in local time."""
    return f"{datetime.fromtimestamp(record.updated_at / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"


def row_of(record: SessionRecord) -> str:
    """Return a session's row in a list."""
    cwd = on_one_line(record.cwd)
    title = on_one_line(record.title or "(untitled)")
    return f"{record.session_id}  {day_of(record)}  {cwd}  {title}"


@dataclass(slots=True)
class OpenedSession:
    """A session that a command has opened or made.

    :ivar session: the open session; `switch` replaces it.
    :ivar is_new: whether the command made the session.
    :ivar is_kept: whether the session existed before or is worth keeping. This is known
        once the session is closed.
    """

    store: SessionStore
    _manager: SessionManager
    _client: TerminalClient
    session: Session
    is_new: bool
    is_kept: bool = True

    async def switch(self, record: SessionRecord | None) -> str | None:
        """Open another session, and close the current one, which ends its turn.

        :param record: the other session's record; None to make a session in the same
            directories.
        :returns: the ID of the closed session; None if it was not worth keeping.
        :raises AgentError: if the other session cannot be opened. The current one then
            stays open.
        """
        cwd = str(self.session.state.cwd)
        more = () if record else self.session.state.context.additional_directories
        opened = await _opened(self._manager, record, cwd, more, self._client)
        left = self.session
        was_new = self.is_new
        self.session = opened
        self.is_new = record is None
        is_kept = await self._close(left, was_new)
        self._client.done = False
        self._client.usage = None
        return left.session_id if is_kept else None

    async def close(self) -> None:
        """Close the session. Delete it if it is new and was not used, so that no model
        was asked and no command was carried out.
        """
        self.is_kept = await self._close(self.session, self.is_new)

    async def _close(self, session: Session, is_new: bool) -> bool:
        with suppress(SessionClosedError):  # an interrupted one may have closed itself
            # Shows what is left of an answer.
            await self._manager.close(session.session_id)
        is_kept = not is_new or await _was_used(session, done=self._client.done)
        if not is_kept:
            await self._manager.delete(session.session_id)
        return is_kept


@asynccontextmanager
async def opened_session(
    arguments: argparse.Namespace, client: TerminalClient
) -> AsyncGenerator[OpenedSession]:
    """Open the chosen session, or make one in the current directory, and set its
    options. Close it at the end of the block.
    """
    env = os.environ
    start_home_logging(env)
    store = await open_database(env)
    try:
        async with anyio.create_task_group() as tasks:
            named = arguments.follow or arguments.session_id
            record = (
                await chosen_session(store, arguments.session_id) if named else None
            )
            if record is not None:
                record = await _offered_to_move(store, record)
            manager = SessionManager(build_services(store, env), tasks)
            session = await _opened(
                manager, record, str(Path.cwd()), _added(arguments.directories), client
            )
            opened = OpenedSession(store, manager, client, session, record is None)
            try:
                for option, value in ((MODEL, arguments.model), (MODE, arguments.mode)):
                    if value:
                        await session.set_option(option, value)
                yield opened
            finally:
                with anyio.CancelScope(shield=True):
                    await opened.close()
            tasks.cancel_scope.cancel()
    finally:
        await store.aclose()


def _added(names: Sequence[str]) -> list[str]:
    """Return the absolute paths of the directories of `--add-dir`.

    :raises AgentError: if one of the paths is not a directory.
    """
    for name in names:
        if not Path(name).expanduser().is_dir():
            raise AgentError(
                f"--add-dir {name}: there is no such directory. Nothing was sent."
            )
    return [os.path.abspath(Path(name).expanduser()) for name in names]  # noqa: PTH100 - keeps links


async def _opened(
    manager: SessionManager,
    record: SessionRecord | None,
    cwd: str,
    more: Sequence[str],
    client: TerminalClient,
) -> Session:
    """Open a session, or make one in this directory.

    :param more: additional directories in which the session works.
    """
    if record is None:
        return await manager.new(cwd, more, client.for_session)
    _require_directory(record)
    directories = list(dict.fromkeys((*record.additional_directories, *more)))
    return await manager.open(
        record.session_id, record.cwd, directories, client.for_session
    )


async def _offered_to_move(store: SessionStore, record: SessionRecord) -> SessionRecord:
    """Return a session's record. If its directory is gone, offer to move the session to
    the current directory.

    The session is not moved unless the user agrees.
    """
    if _has_directory(record):
        return record
    here = Path.cwd()
    gone = on_one_line(record.cwd)
    asked = f"The directory of this session, {gone}, no longer exists.\nMove the session to {on_one_line(here)}?"
    answer = await typed(f"{asked} [y]es, [n]o: ")
    if (answer or "").lower() not in ("y", "yes"):
        return record
    notice = await move_session(
        store, record.session_id, here, load_settings(os.environ, here).mode
    )
    if notice:
        print(notice, file=sys.stderr)
    return await store.record(record.session_id)


def _has_directory(record: SessionRecord) -> bool:
    return Path(record.cwd).is_dir()


def _require_directory(record: SessionRecord) -> None:
    """Refuse to open a session whose directory is gone, since its tools would work in a
    missing directory.

    :raises AgentError: if the directory is gone; the message says how to move the
        session.
    """
    if not _has_directory(record):
        raise AgentError(
            f"The directory of session {record.session_id}, {record.cwd}, no longer exists, so nothing was done. "
            f"If it was moved, run `acp-agent sessions move {record.session_id}` in its new place."
        )


async def _was_used(session: Session, *, done: bool) -> bool:
    """Return whether a session was used. The log shows whether a model was asked, but
    the context may not, since a refused prompt is removed from it.
    """
    prompts = [
        logged.event
        async for logged in session.state.log.events()
        if isinstance(logged.event, UserPrompted)
    ]
    return any(prompt.sent != () for prompt in prompts) or bool(prompts and done)
