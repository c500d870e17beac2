"""`LearnedFacts`: what the agent has learned about models from refusals. The facts are
shared by all sessions and survive a restart.

A session's log records what was refused in that session. This module keeps the facts
that hold for every conversation with a model: the parameters, forms, tools and images
that its server does not accept, and the size of its context window. The facts are
stored in one file in the agent's home.

A fact is forgotten after a day, since servers are updated. If the fact is still true
then, relearning it costs one refused request. A fact that disables a capability is
forgotten after ten minutes, and the window of a server on this machine or network after
an hour, since the user may restart the server with other options. A fact applies to one
server only; it no longer applies if the provider's address or kind changes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from acp_agent.config.state_file import Entries, StateFile, file_signature
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen
from acp_agent.llm.places import Endpoint

_log = logging.getLogger(__name__)

LEARNED_FILE = "learned.json"
KEPT = timedelta(days=1)
KEPT_LOSS = timedelta(minutes=10)
KEPT_LOCAL_WINDOW = timedelta(hours=1)
LOSSES = ("refused functions", "refused images", "image ")
"""Prefixes of the names of facts that disable a capability: the model cannot use tools
or see images.
"""
_MOST = 200
"""The maximum number of facts about one model. New facts replace the oldest."""
WINDOW = "window"
"""Prefix of the names of facts about the context window."""
_SERVER = "server"


class LearnedFacts:
    """The facts about all models. Each fact has a name and a text, such as `takes
    max_tokens`: `1024`.

    :param home: the folder of all state; None keeps the facts in memory only.
    :param now: returns the current time.
    """

    def __init__(
        self,
        home: Path | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        advice = "facts learned about models in earlier sessions are ignored; remove the file"
        self._file = (
            None if home is None else StateFile(home / LEARNED_FILE, "models", advice)
        )
        self._now = now
        self._entries: Entries = {}
        self._signature: tuple[int, ...] = ()
        self._lock = threading.Lock()

    def of(self, model: str, endpoint: Endpoint) -> dict[str, str]:
        """Return the facts about a model that are currently valid.

        Calls `stat` on the file, and reads it if another process has changed it.

        :param model: `provider/model`.
        """
        with self._lock:
            self._read()
            entry = self._entries.get(model)
        if entry is None or entry.get(_SERVER) != _digest_of(endpoint):
            return {}
        return {
            name: text.partition(" ")[2]
            for name, text in entry.items()
            if self._holds(name, text, endpoint)
        }

    def keep(
        self, model: str, endpoint: Endpoint, facts: Mapping[str, str | None]
    ) -> None:
        """Remember facts about a model; the value None removes a fact. Writes the file,
        so call this in a thread.

        If the file cannot be written, the facts are known to this process only.
        """
        server = _digest_of(endpoint)
        now = self._now().isoformat(timespec="seconds")
        given = {
            name: f"{now} {value}" for name, value in facts.items() if value is not None
        }

        def change(entries: Entries) -> None:
            former = entries.get(model, {})
            entry = former if former.get(_SERVER) == server else {}
            kept = {
                name: text
                for name, text in entry.items()
                if name not in facts and self._holds(name, text, endpoint)
            }
            newest = sorted((kept | given).items(), key=lambda each: each[1])[-_MOST:]
            entries[model] = {_SERVER: server, **dict(newest)}

        with self._lock:
            self._read()
            change(self._entries)
            if self._file is None:
                return
            try:
                with self._file.update() as entries:
                    change(entries)
                    self._entries = dict(entries)
                self._signature = file_signature(self._file.path)
            except ConfigError as error:
                _log.warning("%s", error)

    def _read(self) -> None:
        if self._file is None:
            return
        signature = file_signature(self._file.path)
        if signature != self._signature:
            self._signature = signature
            with suppress(ConfigError):
                self._entries = self._file.read()

    def _holds(self, name: str, text: str, endpoint: Endpoint) -> bool:
        """Return whether a stored text is a valid fact that has not expired."""
        try:
            age = self._now() - datetime.fromisoformat(text.partition(" ")[0])
        except (ValueError, TypeError):  # not a time, or a time without a time zone
            return False
        kept = KEPT
        if name.startswith(LOSSES):
            kept = KEPT_LOSS
        elif name.startswith(WINDOW) and endpoint.is_local:
            kept = KEPT_LOCAL_WINDOW
        return -KEPT < age < kept


@frozen
class LearnedModel:
    """The facts about one model of one server.

    :ivar name: `provider/model`.
    """

    name: str
    endpoint: Endpoint
    all_facts: LearnedFacts

    def facts(self) -> dict[str, str]:
        """See `LearnedFacts.of`."""
        return self.all_facts.of(self.name, self.endpoint)

    def keep(self, facts: Mapping[str, str | None]) -> None:
        """See `LearnedFacts.keep`."""
        self.all_facts.keep(self.name, self.endpoint, facts)


def _digest_of(endpoint: Endpoint) -> str:
    """Return a digest of a server's address and API. The address may contain a
    password.
    """
    import hashlib  # loads OpenSSL

    return hashlib.sha256(
        f"{endpoint.kind} {endpoint.base_url}".encode("utf-8", "surrogatepass")
    ).hexdigest()[:16]
