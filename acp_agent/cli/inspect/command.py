"""`acp-agent inspect`: a session as one HTML page, written to a file, or served on
loopback and followed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from hmac import compare_digest
from pathlib import Path
from typing import Any

import anyio

from acp_agent.app import checked_settings, open_database
from acp_agent.cli.inspect.page import MARK, Level, html_page, page_data
from acp_agent.cli.inspect.story import Story
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.cli.terminal.sessions import chosen_session
from acp_agent.compaction.budget import TokenBudget
from acp_agent.config.state_file import atomic_write
from acp_agent.errors import AgentError, ConfigError
from acp_agent.llm.registry import Registry
from acp_agent.protocol import JsonObject
from acp_agent.regular import open_regular
from acp_agent.server.web import WebServer, listening_socket
from acp_agent.session.attachments import Attachments
from acp_agent.session.models.requests import request_of
from acp_agent.storage.store import SessionRecord, SessionStore

_HOST = "127.0.0.1"
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="session id or unique prefix (default: the newest session of this directory or project)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="file to write, or `-` for stdout (default: `SESSION.html` in this directory)",
    )
    where.add_argument(
        "--serve",
        nargs="?",
        type=int,
        const=0,
        metavar="PORT",
        help="serve the page on 127.0.0.1 instead, and update it while the session continues (default: "
        "any free port)",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Write the page, or show it until ctrl-c.

    :returns: 0.
    :raises AgentError: there is no such session, the file is something else, or the
        port is taken.
    """
    store = await open_database(os.environ)
    try:
        record = await chosen_session(store, arguments.session)
        session = _FollowedSession(store, record)
        if arguments.serve is None:
            _write(
                arguments.output or f"{record.session_id}.html",
                html_page(await session.data()),
            )
        else:
            await session.serve(arguments.serve)
        return 0
    finally:
        await store.aclose()


class _FollowedSession:
    """A session as far as its log has been read, served as a page for this machine's
    user alone.

    It accepts only host names of loopback (against DNS rebinding), and its address
    contains a token that other users of this machine do not know.
    """

    def __init__(self, store: SessionStore, record: SessionRecord) -> None:
        self._store = store
        self._session_id = record.session_id
        self._settings = checked_settings(os.environ, Path(record.cwd))
        self._registry = Registry(self._settings, os.environ)
        self._safe = cache(safe_for())
        self._story = Story()
        self._reading = anyio.Lock()
        self._root = f"/{secrets.token_urlsafe(16)}/"

    async def data(self) -> JsonObject:
        """Return what is in the page as it is now.

        :raises StorageError: an entry of the log cannot be read.
        """
        async with self._reading:
            async for logged in self._store.events(self._session_id, self._story.head):
                self._story.feed(logged)
            levels = self._levels(self._story.model)
            sent = await self._reasoning_sent()
            return page_data(self._story, self._session_id, levels, self._safe, sent)

    async def serve(self, port: int) -> None:
        """Serve the page until cancelled, at an address that is printed."""
        listening = listening_socket(_HOST, port)
        port = listening.getsockname()[1]
        hosts = [[f"{name}:{port}".encode()] for name in (_HOST, "localhost")]

        async def app(
            scope: Mapping[str, Any],
            _: object,
            send: Callable[[dict[str, Any]], Awaitable[None]],
        ) -> None:
            given = [
                value for name, value in scope.get("headers", ()) if name == b"host"
            ]
            misnamed = 421, "text/plain", "This page has no such name.\n"
            status, kind, text = (
                await self._answer(scope) if given in hosts else misnamed
            )
            headers = [(b"content-type", f"{kind}; charset=utf-8".encode()), *_HEADERS]
            await send(
                {"type": "http.response.start", "status": status, "headers": headers}
            )
            await send({"type": "http.response.body", "body": text.encode()})

        print(f"http://{_HOST}:{port}{self._root}", flush=True)
        aside("The page follows the session. Ctrl-c ends it.")
        await WebServer(app).serve([listening])

    async def _answer(self, scope: Mapping[str, Any]) -> tuple[int, str, str]:
        """Return status, MIME type and text."""
        path = str(scope["path"])
        if not compare_digest(path[: len(self._root)].encode(), self._root.encode()):
            return 404, "text/plain", "Open the address that acp-agent printed.\n"
        try:
            match path[len(self._root) :]:
                case "":
                    return 200, "text/html", html_page(await self.data(), live=True)
                case "data":
                    head = (await self._store.record(self._session_id)).head
                    if scope["query_string"] == str(head).encode():
                        return 204, "text/plain", ""
                    return 200, "application/json", json.dumps(await self.data())
                case _:
                    return 404, "text/plain", "There is no such page.\n"
        except AgentError as error:
            return 410, "text/plain", f"{error}\n"

    async def _reasoning_sent(self) -> frozenset[str] | None:
        """Return the ids of the answers whose reasoning the next request is sent with;
        None if that is not known.
        """
        context = self._story.context
        model = self._story.model
        try:
            resolved = self._registry.resolve(model)
        except AgentError:  # such as a provider that is not configured any more
            return None
        attachments = Attachments(self._read_blob)
        request = await attachments.resolved(
            request_of(context, context.messages, model), resolved.profile
        )
        return resolved.provider.reasoning_sent(request)

    async def _read_blob(self, sha256: str) -> bytes | None:
        return (await self._store.blobs(self._session_id, (sha256,))).get(sha256)

    def _levels(self, model: str) -> dict[Level, int]:
        """Return where compactions of a model are due, as the configuration has it now,
        without asking a provider.
        """
        levels: dict[Level, int] = {}
        with suppress(ConfigError):  # the provider is there no more
            resolved = self._registry.resolve(model)
            window = resolved.window
            usable = TokenBudget(
                window, min(resolved.profile.max_output_tokens, window // 2)
            ).usable
            wanted = self._settings.compaction_for(model)
            levels["window"] = window
            if wanted.auto:
                levels["threshold"] = int(usable * wanted.threshold)
            if wanted.prepare is not None:
                levels["prepare"] = int(usable * wanted.prepare)
        return levels


def _write(name: str, page: str) -> None:
    """Write the page and print where: for the user alone, and only in the place of
    another such page.

    :raises AgentError: there is something else, or it cannot be written.
    """
    path = Path(name)
    if name == "-":
        sys.stdout.buffer.write(page.encode())
        return
    try:
        if os.path.lexists(path):
            with open_regular(path) as file:
                if file.read(len(MARK)) != MARK.encode():
                    raise AgentError(
                        f"{path} exists, and was not written by this command. Choose another file with -o."
                    )
        with atomic_write(path) as file:
            file.write(page.encode())
    except OSError as error:
        raise AgentError(f"{path} cannot be written ({error.strerror}).") from error
    print(path)
