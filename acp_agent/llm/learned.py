"""`LearnedFacts`: what refusals have taught about models, for all sessions and after a restart.

A session's log has what was refused in that session. Here are the facts that hold for every conversation with a model:
parameters and forms that its server does not take, tools, images, and the size of the window. One file in the agent's
home holds them.

A fact is forgotten after a day, since servers are updated; a fact that is still true costs one refused request then. A
fact that takes an ability from the user is forgotten after ten minutes, and the window of a server on this machine or
network after an hour, since the user may start the server again with another option. A fact is about one server: it
does not count for another address or kind of the provider.
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
"""How the names of facts begin that take an ability from the user: no tools can be used, or images are not seen."""
_MOST = 200
"""Facts about one model. The oldest give way to newer ones."""
WINDOW = "window"
"""How the names of facts about the window begin."""
_SERVER = "server"


class LearnedFacts:
    """The facts about all models. Each is a text by its name, such as `takes max_tokens`: `1024`.

    :param home: the folder of all state; None keeps the facts in memory only.
    :param now: returns the current time.
    """

    def __init__(self, home: Path | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        advice = "what was learned of models in earlier sessions is not used; remove the file"
        self._file = None if home is None else StateFile(home / LEARNED_FILE, "models", advice)
        self._now = now
        self._entries: Entries = {}
        self._signature: tuple[int, ...] = ()
        self._lock = threading.Lock()

    def of(self, model: str, endpoint: Endpoint) -> dict[str, str]:
        """Return the facts about a model that hold now. Stats the file, and reads it if another process changed it.

        :param model: `provider/model`.
        """
        with self._lock:
            self._read()
            entry = self._entries.get(model)
        if entry is None or entry.get(_SERVER) != _digest_of(endpoint):
            return {}
        return {name: text.partition(" ")[2] for name, text in entry.items() if self._holds(name, text, endpoint)}

    def keep(self, model: str, endpoint: Endpoint, facts: Mapping[str, str | None]) -> None:
        """Remember facts about a model; None forgets one. Writes the file, so run this in a thread.

        If the file cannot be written, this process alone knows the facts.
        """
        server, now = _digest_of(endpoint), self._now().isoformat(timespec="seconds")
        given = {name: f"{now} {value}" for name, value in facts.items() if value is not None}

        def change(entries: Entries) -> None:
            former = entries.get(model, {})
            entry = former if former.get(_SERVER) == server else {}
            kept = {
                name: text for name, text in entry.items() if name not in facts and self._holds(name, text, endpoint)
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
        """Return whether a stored text is a fact, and young enough."""
        try:
            age = self._now() - datetime.fromisoformat(text.partition(" ")[0])
        except (ValueError, TypeError):  # no time, or one without a time zone
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
    """Return a digest of a server's address and API. The address may hold a password."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(f"{endpoint.kind} {endpoint.base_url}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
