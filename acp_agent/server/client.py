"""`WireClient`: one session's editor, as far as it is the same in every version of the protocol: updates, in order.

Owns what an editor must have seen before what. Does not know how an update looks on the wire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace

from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1 import content, methods, updates
from acp_agent.server.bounds import pieces
from acp_agent.server.mcp_messages import EditorServers
from acp_agent.turn.updates import (
    CallAnnounced,
    CallFinished,
    CompactionFinished,
    CompactionStarted,
    TitleUpdated,
    Update,
)

MAX_JOINED = 16_384
"""Characters of neighbouring text deltas that are joined while the editor is slow."""


class WireClient(ABC):
    """The part of `SessionClient` that shows updates.

    :param peer: the connection.
    :param session_id: as the editor knows it; every message carries it, also one of a nested piece of work.
    :param servers: the MCP servers that the editor itself is.
    """

    def __init__(self, peer: Peer, session_id: str, servers: EditorServers) -> None:
        self._peer = peer
        self._servers = servers
        self._session_id = session_id
        self._begun: set[str] = set()
        self._title: str | None = None

    @property
    def mcp_channel(self) -> EditorServers:
        """How MCP servers are reached that the editor itself is."""
        return self._servers

    @abstractmethod
    def _present(self, update: Update) -> Iterator[JsonObject]:
        """The update on the wire, in as many as it takes; none where this editor is not to be told."""

    async def show(self, update: Update) -> None:
        """Send an update, if this editor is to be told; a title once, though what is on offer comes with it as well."""
        if isinstance(update, TitleUpdated) and update.title == self._title:
            return
        for whole in self._with_beginning(update):
            for piece in pieces(whole):
                for wire in self._present(piece):
                    await self._send(wire)
            # Not before: a cancel may reach whoever waits for room in the queue.
            match whole:
                case CallAnnounced(call_id=id) | CompactionStarted(compaction_id=id):
                    self._begun.add(id)
                case CallFinished(call_id=id) | CompactionFinished(compaction_id=id):
                    self._begun.discard(id)
                case TitleUpdated(title=title):
                    self._title = title
                case _:
                    pass

    async def _send(self, wire: JsonObject) -> None:
        await self._peer.notify(methods.SESSION_UPDATE, updates.session_update(self._session_id, wire), merge=_joined)

    def _with_beginning(self, update: Update) -> tuple[Update, ...]:
        """The update; and what an editor must have seen before the end of a call or a compaction, where a cancel was
        quicker. Editors show an update of what they do not know as a failure for ever."""
        match update:
            case CallFinished(replayed=False) if update.call_id not in self._begun:
                return (replace(update, replayed=True),)
            case CompactionFinished(replayed=False) if update.compaction_id not in self._begun:
                return (CompactionStarted(update.compaction_id, ""), update)
            case _:
                return (update,)


def _joined(before: JsonObject, after: JsonObject) -> JsonObject | None:
    """Two neighbouring text deltas of one message as one, where they are that."""
    first, second = before["update"], after["update"]
    if not isinstance(first, dict) or not isinstance(second, dict) or before["sessionId"] != after["sessionId"]:
        return None
    kind = first["sessionUpdate"]
    if kind != second["sessionUpdate"] or kind not in _JOINABLE:
        return None
    if first.get("messageId") != second.get("messageId") or first.get("compactionId") != second.get("compactionId"):
        return None
    old, new = first["content"], second["content"]
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None
    head, tail = old.get("text"), new.get("text")
    if not isinstance(head, str) or not isinstance(tail, str) or len(head) + len(tail) > MAX_JOINED:
        return None
    return {**after, "update": {**second, "content": content.text_content(head + tail)}}


_JOINABLE = ("agent_message_chunk", "agent_thought_chunk", "compaction_summary_chunk")
