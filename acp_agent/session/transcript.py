"""The log of a session as JSON lines in a file, for hooks that read one. Written when a hook first wants it, and
carried on each time it is wanted again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from anyio import to_thread

from acp_agent.conversation.codec import encode
from acp_agent.conversation.events import LoggedEvent
from acp_agent.storage.store import SessionStore


class Transcript:
    """One session's file.

    :param folder: where it is kept; made where it is missing.
    """

    def __init__(self, store: SessionStore, session_id: str, folder: Path) -> None:
        self._store = store
        self._session_id = session_id
        self._path = folder / f"{session_id}.jsonl"
        self._written = 0

    async def write(self) -> str:
        """Bring the file up to date.

        :returns: its absolute path.
        """
        events = [event async for event in self._store.events(self._session_id, after=self._written)]
        if events or not self._written:
            await to_thread.run_sync(self._append, events)
            self._written = events[-1].seq if events else self._written
        return str(self._path)

    def _append(self, events: list[LoggedEvent]) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if self._written else os.O_TRUNC)
        with os.fdopen(os.open(self._path, flags, 0o600), "w", encoding="utf-8") as file:
            for event in events:
                file.write(json.dumps({"seq": event.seq, "at": event.at, "event": json.loads(encode(event.event))}))
                file.write("\n")
