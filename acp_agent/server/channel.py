"""Sends notifications and requests to an editor: `Channel` for a session,
`EditorServers` for the editor's MCP servers.

ACP, "Prompt Turn"; its unstable schema, `mcp/message`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from acp_agent.errors import InvalidParamsError, ToolError, sentence
from acp_agent.jsonrpc.messages import PeerClosedError, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.mcp.model import OnNotification, ServerGoneError
from acp_agent.protocol import JsonObject, JsonValue, methods
from acp_agent.protocol.updates import given, session_update, text_content

if TYPE_CHECKING:
    from acp_agent.protocol.wire import WireModel

Result = TypeVar("Result", bound="WireModel")

MAX_JOINED = 16_384
"""Maximum characters of adjacent text deltas that are merged while the editor is slow.
"""
JOINABLE = ("agent_message_chunk", "agent_thought_chunk", "compaction_summary_chunk")
_SERVER_UNAVAILABLE = -33001


class Channel:
    """Sends the updates and requests of one session.

    :param peer: the connection.
    :param session_id: the id by which the editor knows the session. Every message
        contains it.
    :param waiting: returns a context manager that is entered while a request waits for
        its response.
    :ivar notify: sends a notification other than a session update; see `Peer.notify`.
    """

    def __init__(
        self,
        peer: Peer,
        session_id: str,
        waiting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._peer = peer
        self.notify = peer.notify
        self._session_id = session_id
        self._waiting = waiting

    def send(self, update: JsonObject) -> Awaitable[None]:
        """Send an update. This waits for room in the outgoing queue, not for the write."""
        return self._peer.notify(
            methods.SESSION_UPDATE,
            session_update(self._session_id, update),
            merge=joined_deltas,
        )

    async def request_raw(
        self, method: str, params: JsonObject, *, timeout: float | None = None
    ) -> JsonValue:
        """Send a request, and return its result without validating it.

        :param params: the params without the session's id.
        :raises RpcError: if the editor answered with an error; see `Peer.request` for
            other exceptions.
        """
        async with self._waiting():
            return await self._peer.request(
                method, {"sessionId": self._session_id, **params}, timeout=timeout
            )

    async def request(
        self,
        method: str,
        params: JsonObject,
        result: type[Result],
        *,
        timeout: float | None = None,
    ) -> Result:
        """Send a request, and return its result as a model; see `request_raw`.

        :raises ToolError: if the result is invalid.
        """
        return result.from_result(
            await self.request_raw(method, params, timeout=timeout), method
        )


def joined_deltas(before: JsonObject, after: JsonObject) -> JsonObject | None:
    """Merge two adjacent text deltas of one message; return None if they cannot be
    merged.
    """
    match before, after:
        case (
            {"sessionId": session, "update": {"content": {"text": str(head)}, **first}},
            {
                "sessionId": same_session,
                "update": {"content": {"text": str(tail)}, **second},
            },
        ) if (session, first) == (same_session, second) and len(head) + len(
            tail
        ) <= MAX_JOINED:
            joined: JsonObject = {**second, "content": text_content(head + tail)}
            return (
                {**after, "update": joined}
                if second.get("sessionUpdate") in JOINABLE
                else None
            )
        case _:
            return None


class EditorServers:
    """`McpChannel` over one connection, for versions 1 and 2. The messages have the
    format of the TypeScript SDK. In an earlier draft of the RFD, a connection was
    opened first.

    :param peer: the connection.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._receivers: dict[tuple[JsonValue, JsonValue], OnNotification] = {}

    async def ask(
        self,
        server_id: str,
        request_id: str,
        method: str,
        params: JsonObject | None,
        notified: OnNotification,
    ) -> JsonObject:
        """Send a request; see `McpChannel.ask`."""
        key = (server_id, request_id)
        self._receivers[key] = notified
        try:
            message = given(
                serverId=server_id, requestId=request_id, method=method, params=params
            )
            response = await self._peer.request(methods.MCP_MESSAGE, message)
        except RpcError as error:
            if error.code == _SERVER_UNAVAILABLE:
                raise ServerGoneError(
                    "the editor does not have it (or no longer has it)"
                ) from error
            raise ToolError(
                f"the editor could not ask it: {sentence(error)}"
            ) from error
        except PeerClosedError as error:
            raise ServerGoneError("the editor has disconnected") from error
        finally:
            del self._receivers[key]
        if not isinstance(response, dict):
            raise ToolError("the editor's answer for it does not follow the protocol")
        return {
            name: response[name] for name in ("result", "error") if name in response
        }

    def receive(self, params: JsonObject) -> None:
        """Deliver a server's message to its pending request, or drop it if there is
        none.

        :raises InvalidParamsError: if the params are invalid.
        """
        method = params.get("method")
        inner = params.get("params")
        key = (params.get("serverId"), params.get("requestId"))
        if not all(
            isinstance(value, str) for value in (*key, method)
        ) or not isinstance(inner, dict | None):
            raise InvalidParamsError(
                f"{methods.MCP_MESSAGE}: serverId, requestId and method must be strings, and params an object."
            )
        if (notified := self._receivers.get(key)) is not None:
            notified(str(method), inner)
