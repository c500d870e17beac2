"""What has been said so far, as an editor keeps it: updates, messages, tool calls.

    agent.updates(kind="plan"), agent.text(), agent.texts("agent_thought_chunk"), agent.tool("call-1")
    await agent.wait_update("tool_call_update", status="completed", since=len(agent.lines))

Sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.lines import Line
from support.wire import Wire


class Conversation(Wire):
    """A wire whose `session/update` notifications can be asked for."""

    def updates(
        self, session_id: str | None = None, kind: str | None = None, *, since: int = 0
    ) -> list[Mapping[str, Any]]:
        """The `update` of every `session/update`, in order.

        :param kind: a `sessionUpdate`, such as `tool_call`.
        :param since: index in `lines` to begin with.
        """
        return [
            line.update
            for line in self.lines[since:]
            if line.update
            and session_id in (None, line.params["sessionId"])
            and kind in (None, line.update_kind)
        ]

    def texts(
        self,
        kind: str = "agent_message_chunk",
        session_id: str | None = None,
        *,
        since: int = 0,
    ) -> dict[str | None, str]:
        """The text of each message by `messageId`, in order of their first chunks.

        Without the empty line at its beginning that sets a message apart from the one
        before it.
        """
        texts: dict[str | None, str] = {}
        for update in self.updates(session_id, kind, since=since):
            id = update.get("messageId") or update.get("compactionId")
            text = update["content"].get("text", "")
            texts[id] = texts[id] + text if id in texts else text.removeprefix("\n\n")
        return texts

    def text(
        self,
        kind: str = "agent_message_chunk",
        session_id: str | None = None,
        *,
        since: int = 0,
    ) -> str:
        """The messages of `texts`, one after the other with a newline between them."""
        return "\n".join(self.texts(kind, session_id, since=since).values())

    def tool(self, tool_call_id: str) -> dict[str, Any]:
        """A tool call as an editor shows it now: its announcement and its updates
        merged.
        """
        merged: dict[str, Any] = {}
        for update in self.updates():
            if update.get("toolCallId") == tool_call_id:
                merged |= {
                    key: value for key, value in update.items() if value is not None
                }
        return merged

    async def wait_update(
        self,
        kind: str,
        session_id: str | None = None,
        *,
        timeout: float = 5,
        since: int = 0,
        **fields: Any,
    ) -> Mapping[str, Any]:
        """Wait for an update of a kind in which every one of these fields has this
        value.
        """

        def wanted(line: Line) -> bool:
            update = line.update
            return (
                line.update_kind == kind
                and session_id in (None, line.params["sessionId"])
                and all(update.get(key) == value for key, value in fields.items())
            )

        return (await self.wait_for(wanted, timeout, since=since)).update
