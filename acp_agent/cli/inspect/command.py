"""`acp-agent inspect`: a session as one HTML page, written to a file, or served on loopback and followed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import anyio
from anyio.abc import SocketStream
from anyio.to_thread import run_sync

from acp_agent.app import open_database
from acp_agent.cli.inspect import loopback
from acp_agent.cli.inspect.loopback import head, respond
from acp_agent.cli.inspect.page import MARK, html_page, page_data
from acp_agent.cli.inspect.plot import Level, plot
from acp_agent.cli.inspect.story import Story
from acp_agent.cli.terminal.addresses import Address
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.safe import SafeStream, safe_for
from acp_agent.cli.terminal.sessions import chosen_session
from acp_agent.compaction.budget import TokenBudget
from acp_agent.config import Settings, load_settings
from acp_agent.config.state_file import atomic_write
from acp_agent.errors import AgentError, ConfigError, StorageError
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.protocol import JsonObject
from acp_agent.regular import open_regular
from acp_agent.storage.store import SessionRecord, SessionStore

_POLL_SECONDS = 0.5
_SILENCE = 30
"""Polls of the log without a new entry before the page gets a keep-alive."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="its id, or the beginning of it; the newest session of this directory where none is given",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-o", "--output", metavar="FILE", help="the file to write (`SESSION.html` in this directory), `-` for stdout"
    )
    where.add_argument(
        "--serve",
        nargs="?",
        const="127.0.0.1:0",
        metavar="HOST:PORT",
        help="show it to this machine's browser instead, and follow the session while it goes on; a free port of "
        "127.0.0.1 where none is given",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Write the page, or show it until ctrl-c.

    :returns: 0.
    :raises AgentError: there is no such session, the file is something else, or the address is not on loopback.
    """
    address = Address.read(arguments.serve) if arguments.serve is not None else None
    if address is not None and not address.is_loopback:
        raise AgentError(
            f"{address.host!r} is not on loopback. A session is shown to this machine alone: use 127.0.0.1, and "
            "forward the port with ssh for another."
        )
    store = await open_database(os.environ)
    try:
        record = await chosen_session(store, arguments.session)
        session = _FollowedSession(store, record, os.environ)
        if address is None:
            page = html_page(await session.data())
            # In a thread, since a pipe may be read slowly.
            await run_sync(_write, arguments.output or f"{record.session_id}.html", page, abandon_on_cancel=True)
            return 0
        async with anyio.create_task_group() as tasks:
            print(await tasks.start(loopback.serve, address.host, address.port, session.answer), flush=True)
            aside("The page follows the session. Ctrl-c ends it.")
        return 0
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


class _FollowedSession:
    """A session as far as its log has been read."""

    def __init__(self, store: SessionStore, record: SessionRecord, env: Mapping[str, str]) -> None:
        self._store = store
        self._session_id = record.session_id
        self._settings = _settings_of(env, record.cwd)
        self._registry = Registry(self._settings, env) if self._settings is not None else None
        self._env = env
        self._safe = cache(safe_for(env))
        self._story = Story()
        self._reading = anyio.Lock()

    async def data(self) -> JsonObject:
        """Return what is in the page as it is now.

        :raises StorageError: an entry of the log cannot be read.
        """
        async with self._reading:
            try:
                async for logged in self._store.events(self._session_id, self._story.head):
                    self._story.feed(logged)
            except StorageError as error:
                raise StorageError(f"{self._session_id}: {error}") from error
            picture = plot(self._story, self._levels(self._story.model))
            return page_data(self._story, self._session_id, picture, self._safe, SafeStream(self._env).feed)

    async def answer(self, stream: SocketStream, path: str) -> None:
        """Answer a browser's request for the page, its data, or news of the log."""
        if path == "events":
            await self._tell(stream)
        elif path not in ("", "data"):
            await respond(stream, "404 Not Found", "text/plain", "There is no such page.\n")
        else:
            try:
                await self._store.record(self._session_id)
                data = await self.data()
            except AgentError as error:
                await respond(stream, "410 Gone", "text/plain", f"{error}\n")
            else:
                text, kind = (
                    (json.dumps(data), "application/json") if path else (html_page(data, live=True), "text/html")
                )
                await respond(stream, "200 OK", kind, text)

    async def _tell(self, stream: SocketStream) -> None:
        """Tell of each growth of the log, as server-sent events, until the session is gone."""
        await stream.send(head("200 OK", "text/event-stream"))
        last, silent = -1, 0
        with suppress(AgentError):
            while True:
                now = (await self._store.record(self._session_id)).head
                if now != last or silent >= _SILENCE:
                    await stream.send(f"data: {now}\n\n".encode())
                    last, silent = now, 0
                silent += 1
                await anyio.sleep(_POLL_SECONDS)

    def _levels(self, model: str) -> dict[Level, int]:
        """Return where compactions of a model are due, as the configuration has it now, without asking a provider."""
        levels: dict[Level, int] = {}
        if self._settings is not None and self._registry is not None:
            with suppress(ConfigError):  # the provider is there no more
                window, profile = self._registry.context_window(model), self._registry.profile(model)
                usable = TokenBudget(window, min(profile.max_output_tokens, window // 2)).usable
                wanted = self._settings.compaction_for(model)
                levels["window"] = window
                if wanted.auto:
                    levels["threshold"] = int(usable * wanted.threshold)
                if wanted.prepare is not None:
                    levels["prepare"] = int(usable * wanted.prepare)
        return levels


def _settings_of(env: Mapping[str, str], cwd: str) -> Settings | None:
    """Return the configuration as it is now; None where it cannot be read, or is not of this machine."""
    try:
        return load_settings(env, Path(cwd), providers=BUILT_IN_PROVIDERS)
    except ConfigError as error:
        aside(f"Shown without the lines of the thresholds: {error}")
        return None


def _write(name: str, page: str) -> None:
    """Write the page and print where: for the user alone, only in the place of another such page; a pipe or a device
    gets it as it is.

    :raises AgentError: there is something else, or it cannot be written.
    :raises BrokenPipeError: the pipe was closed.
    """
    path = Path(name)
    try:
        if name == "-":
            sys.stdout.buffer.write(page.encode())
            return
        if path.exists() and not path.is_file():
            path.write_bytes(page.encode())
            return
        _replace(path, page)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AgentError(f"{path} cannot be written ({error.strerror}).") from error
    print(path)


def _replace(path: Path, page: str) -> None:
    if os.path.lexists(path):
        with open_regular(path) as file:
            if file.read(len(MARK)) != MARK.encode():
                raise AgentError(f"{path} is there already, and is no page of this command. Name another with -o.")
    with atomic_write(path) as file:
        file.write(page.encode())
