"""Messages to search for, and the search that finds their places."""

from __future__ import annotations

from acp_agent.conversation.events import (
    Event,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    Text,
)
from acp_agent.storage.store import SessionStore


def said(text: str) -> Event:
    return UserPrompted("msg", (Text(text),))


async def seqs(store: SessionStore, query: str, session_id: str = "s1", **bounds: int) -> list[int]:
    return [found.seq for found in await store.search(session_id, query, limit=bounds.pop("limit", 50), **bounds)]
