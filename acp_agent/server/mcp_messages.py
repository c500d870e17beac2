"""`EditorServers`: MCP servers inside the editor, reached over the ACP connection.

It matches a server's messages to requests, and reports why a request was not answered. It is the same in every version
of the protocol.

ACP's unstable schema, `MessageMcpRequest`, `MessageMcpResponse` and `MessageMcpNotification`, the same in versions 1
and 2; the code is that of the TypeScript SDK's binding. The RFD "MCP over ACP" has had another form, in which
a connection is opened first.
"""

from __future__ import annotations

from acp_agent.errors import InvalidParamsError, ToolError, sentence
from acp_agent.jsonrpc.messages import PeerClosedError, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.mcp.model import OnNotification, ServerGoneError
from acp_agent.protocol import JsonObject, JsonValue, methods
from acp_agent.protocol.updates import given

SERVER_UNAVAILABLE = -33001


class EditorServers:
    """`McpChannel` over one connection.

    :param peer: the connection.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._receivers: dict[tuple[JsonValue, JsonValue], OnNotification] = {}

    async def ask(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None, notified: OnNotification
    ) -> JsonObject:
        """Send a request; see `McpChannel.ask`."""
        key = (server_id, request_id)
        self._receivers[key] = notified
        try:
            message: JsonObject = {"serverId": server_id, "requestId": request_id, "method": method}
            message |= given(params=params)
            response = await self._peer.request(methods.MCP_MESSAGE, message)
        except RpcError as error:
            raise _failure(error) from error
        except PeerClosedError as error:
            raise ServerGoneError("the editor has gone") from error
        finally:
            del self._receivers[key]
        if not isinstance(response, dict):
            raise ToolError("what the editor answered for it is not what the protocol says")
        return {name: response[name] for name in ("result", "error") if name in response}

    def receive(self, params: JsonObject) -> None:
        """Deliver a server's message. One that belongs to no pending request comes too late and is dropped.

        :raises InvalidParamsError: it is not what the protocol says.
        """
        method, inner = params.get("method"), params.get("params")
        key = (params.get("serverId"), params.get("requestId"))
        if not all(isinstance(value, str) for value in (*key, method)) or not isinstance(inner, dict | None):
            raise InvalidParamsError(
                f"{methods.MCP_MESSAGE}: serverId, requestId and method must be strings, and params an object."
            )
        heard = self._receivers.get(key)
        if heard is not None:
            heard(str(method), inner)


def _failure(error: RpcError) -> ToolError:
    if error.code == SERVER_UNAVAILABLE:
        return ServerGoneError("the editor does not have it (any more)")
    return ToolError(f"the editor could not ask it: {sentence(error)}")
