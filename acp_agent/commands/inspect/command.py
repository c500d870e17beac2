"""`acp-agent inspect`: which session, where to, and what is needed besides its log."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import anyio

from acp_agent.app import open_database
from acp_agent.commands.choosing import chosen_session
from acp_agent.commands.inspect.data import Texts, page_data
from acp_agent.commands.inspect.live import loopback_address, serve
from acp_agent.commands.inspect.page import html_page
from acp_agent.commands.inspect.plot import plot
from acp_agent.commands.inspect.writing import put
from acp_agent.commands.progress import counting
from acp_agent.commands.safe import SafeStream, safe_for
from acp_agent.commands.terminal import aside
from acp_agent.compaction.budget import TokenBudget
from acp_agent.config import Settings, load_settings
from acp_agent.errors import ConfigError, StorageError
from acp_agent.inspection.story import Story
from acp_agent.inspection.views import Inspection, ModelLines
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.protocol import JsonObject
from acp_agent.storage.store import SessionStore

_MANY = 1_000
"""Entries of a log whose reading somebody has to wait for."""
_STDOUT = "/dev/stdout"


async def run(arguments: argparse.Namespace) -> int:
    """Write the page, or show it until ctrl-c.

    :returns: 0.
    :raises AgentError: there is no such session, the file is somebody else's, or the address is not on loopback.
    """
    env = os.environ
    address = loopback_address(arguments.serve) if arguments.serve is not None else None
    store = await open_database(env)
    try:
        record = await chosen_session(store, arguments.session)
        looked_at = _LookedAt(store, record.session_id, env, _settings_of(env, record.cwd))
        if address is None:
            path = _STDOUT if arguments.output == "-" else arguments.output or f"{record.session_id}.html"
            with _told(record.head) as advance:
                page = await looked_at.page(advance)
            await put(Path(path), page)
            return 0
        looked_at.live = True
        async with anyio.create_task_group() as tasks:
            print(await tasks.start(serve, address, looked_at), flush=True)
            aside("The page follows the session. Ctrl-c ends it.")
        return 0
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


class _LookedAt:
    """A session that is looked at, as far as its log has been read.

    :ivar live: whether its page asks for what is new.
    """

    def __init__(self, store: SessionStore, session_id: str, env: Mapping[str, str], settings: Settings | None) -> None:
        self._store = store
        self._session_id = session_id
        self._settings = settings
        self._registry = Registry(settings, env) if settings is not None else None
        self._story = Story()
        self._env = env
        self._safe = safe_for(env)
        self._texts = Texts(self._safe, self._growing)
        self._reading = anyio.Lock()
        self._data: JsonObject | None = None
        self.live = False

    async def head(self) -> int:
        """Seq of the last entry of the log."""
        return (await self._store.record(self._session_id)).head

    async def page(self, advance: Callable[[], None] = lambda: None) -> str:
        """The page as it is now.

        :param advance: is called for every entry that is read.
        """
        return html_page(await self._read(advance), live=self.live)

    async def data(self, known: int) -> str:
        """What is in it, as JSON.

        :param known: so many texts from the first on are left out.
        """
        data = await self._read()
        return json.dumps({**data, "texts": self._texts.all[known:]}, separators=(",", ":"))

    async def _read(self, advance: Callable[[], None] = lambda: None) -> JsonObject:
        async with self._reading:
            head = self._story.head
            try:
                async for logged in self._store.events(self._session_id, head):
                    self._story.feed(logged)
                    advance()
            except StorageError as error:
                raise StorageError(f"{self._session_id}: {error}") from error
            if self._data is None or self._story.head != head:
                seen = self._story.view()
                picture = plot(seen, self._lines(seen))
                self._data = page_data(seen, self._session_id, picture, self._texts)
            return self._data

    def _growing(self, text: str) -> str:
        """An answer that is not complete: in a file nothing comes behind it."""
        return SafeStream(self._env).feed(text) if self.live else self._safe(text)

    def _lines(self, seen: Inspection) -> dict[str, ModelLines]:
        if self._settings is None or self._registry is None:
            return {}
        return _model_lines(self._settings, self._registry, {point.model for point in seen.points})


def _settings_of(env: Mapping[str, str], cwd: str) -> Settings | None:
    """The configuration as it is now; None where it cannot be read, or is not of this machine, which is told."""
    try:
        return load_settings(env, Path(cwd), providers=BUILT_IN_PROVIDERS)
    except ConfigError as error:
        aside(f"Shown without the lines of the thresholds: {error}")
        return None


def _model_lines(settings: Settings, registry: Registry, models: Iterable[str]) -> dict[str, ModelLines]:
    """Where compactions are due, as the configuration has it now, without asking a provider.

    :param models: `provider/model`; those of providers that there are no more have no lines.
    """
    lines: dict[str, ModelLines] = {}
    for name in models:
        with suppress(ConfigError):
            window, profile = registry.context_window(name), registry.profile(name)
            usable = TokenBudget(window, min(profile.max_output_tokens, window // 2)).usable
            wanted = settings.compaction_for(name)
            threshold = int(usable * wanted.threshold) if wanted.auto else None
            prepare = int(usable * wanted.prepare) if wanted.prepare is not None else None
            lines[name] = ModelLines(window, threshold, prepare)
    return lines


def _told(entries: int) -> AbstractContextManager[Callable[[], None]]:
    """Says how far the reading of a log is, where it takes a while."""
    return counting("entries", entries) if entries >= _MANY else nullcontext(lambda: None)
