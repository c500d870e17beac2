"""`Channel`: what one session sends to its editor: updates, requests, and questions to the user.

It has version 1's form of a permission dialog; version 2 has its own, and reports the session's state around it.

ACP, "Prompt Turn"; "Tool Calls", "Requesting Permission".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from acp_agent.errors import ToolError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol import JsonObject, JsonValue, as_object, methods, v1
from acp_agent.protocol.updates import session_update, text_content, tool_text
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.protocol.wire import WireModel

Result = TypeVar("Result", bound="WireModel")

MAX_JOINED = 16_384
"""Characters of neighbouring text deltas that are joined while the editor is slow."""
_JOINABLE = ("agent_message_chunk", "agent_thought_chunk", "compaction_summary_chunk")


class Channel:
    """Sends the messages of one session.

    :param peer: the connection.
    :param session_id: as the editor knows it; every message carries it, also one of a nested piece of work.
    :ivar notify: sends a notification that is no update of the session.
    """

    def __init__(self, peer: Peer, session_id: str) -> None:
        self._peer = peer
        self.notify = peer.notify
        self._session_id = session_id

    async def send(self, update: JsonObject) -> None:
        """Send an update: wait for room in the outgoing queue, not for the write."""
        await self._peer.notify(methods.SESSION_UPDATE, session_update(self._session_id, update), merge=joined_deltas)

    async def request(
        self, method: str, params: JsonObject, result: type[Result], *, timeout: float | None = None
    ) -> Result:
        """Ask the editor, and read its answer.

        :param params: without the session's id.
        :raises RpcError: what the editor answered; see `Peer.request` for the others.
        :raises ToolError: the answer cannot be used.
        """
        return result.from_result(await self.ask(method, params, timeout=timeout), method)

    async def ask(self, method: str, params: JsonObject, *, timeout: float | None = None) -> JsonValue:
        """Ask the editor, and return its answer as it came; see `request`."""
        return await self._peer.request(method, {"sessionId": self._session_id, **params}, timeout=timeout)

    async def select(self, tool_call: JsonObject, options: Sequence[JsonObject], description: str = "") -> str | None:
        """Have one of some options selected in a permission dialog.

        :param tool_call: what is asked about; whole, since not every editor knows it from before.
        :param options: at most one of each kind, since some editors keep only the last of a kind.
        :param description: more about the question, as Markdown.
        :returns: the option's id; None where the user has ended the turn.
        :raises RpcError: the editor could not ask.
        :raises ToolError: its answer is invalid.
        """
        params: JsonObject = {**self._dialog(tool_call, description), "options": [*options]}
        chosen = self._chosen(await self.ask(methods.SESSION_REQUEST_PERMISSION, params))
        if chosen is not None and chosen not in [option["optionId"] for option in options]:
            raise ToolError(f"The editor chose the option {one_line(chosen)!r}, which it was not offered.")
        return chosen

    def _dialog(self, tool_call: JsonObject, description: str) -> JsonObject:
        """Return the params of a permission dialog but for its options."""
        if description:
            shown = tool_call.get("content")
            tool_call = {**tool_call, "content": [tool_text(description), *(shown if isinstance(shown, list) else [])]}
        return {"toolCall": tool_call}

    def _chosen(self, answer: JsonValue) -> str | None:
        """Return the id of the option that was selected; None where the user has ended the turn."""
        outcome = v1.RequestPermissionResponse.from_result(answer, methods.SESSION_REQUEST_PERMISSION).outcome
        return outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None


def joined_deltas(before: JsonObject, after: JsonObject) -> JsonObject | None:
    """Merge two adjacent text deltas of one message; return None if they cannot be merged."""
    first, second = as_object(before["update"]), as_object(after["update"])
    if before["sessionId"] != after["sessionId"] or second.get("sessionUpdate") not in _JOINABLE:
        return None
    if any(first.get(key) != second.get(key) for key in ("sessionUpdate", "messageId", "compactionId")):
        return None
    head, tail = as_object(first.get("content")).get("text"), as_object(second.get("content")).get("text")
    if not isinstance(head, str) or not isinstance(tail, str) or len(head) + len(tail) > MAX_JOINED:
        return None
    return {**after, "update": {**second, "content": text_content(head + tail)}}
