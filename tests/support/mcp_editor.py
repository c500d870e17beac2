"""MCP servers that an editor is itself, over its connection with the agent (`mcp/message` of ACP's unstable schema).

    desk = EditorServer("desk", tools=[tool("look")], results={"look": says("Here.")})
    provide(it.agent, desk)                             # from here on the editor answers `mcp/message`
    session = await it.agent.new_session(it.folder, mcpServers=[desk.entry])
    await desk.changed("tools")                         # tells who listens

As strict as the TypeScript SDK's: MCP 2026-07-28 alone, which has no handshake and says who asks in every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from support.client import AgentError, AgentProcess

VERSION = "2026-07-28"
ABOUT = "io.modelcontextprotocol/"
_LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}


class EditorServer:
    """One server.

    :ivar got: method and params of every request, oldest first.
    :ivar active: the ids of the requests that are being worked on.
    """

    def __init__(self, name: str, *, results: Mapping[str, Any] | None = None, **lists: list[dict[str, Any]]) -> None:
        self.name = name
        self.server_id = f"server of {name}"
        self.lists = lists
        self.got: list[tuple[str, Mapping[str, Any]]] = []
        self.active: dict[str, str] = {}
        self.agent: AgentProcess | None = None
        self._results = results or {}
        self._listening: set[str] = set()

    @property
    def entry(self) -> dict[str, Any]:
        """As an editor names it in `mcpServers`."""
        return {"type": "acp", "name": self.name, "serverId": self.server_id}

    async def says(self, request_id: str, method: str, params: Mapping[str, Any]) -> None:
        assert self.agent is not None
        message = {"serverId": self.server_id, "requestId": request_id, "method": method, "params": params}
        await self.agent.notify("mcp/message", message)

    async def changed(self, name: str) -> None:
        for request_id in list(self._listening):
            params = {"_meta": {f"{ABOUT}subscriptionId": request_id}}
            await self.says(request_id, f"notifications/{name}/list_changed", params)

    async def handle(self, message: Mapping[str, Any]) -> dict[str, Any]:
        request_id, method, params = message["requestId"], message["method"], message.get("params") or {}
        if request_id in self.active:
            raise AgentError(-32602, "duplicate active MCP request ID")
        meta = params.get("_meta") or {}
        if meta.get(f"{ABOUT}protocolVersion") != VERSION or not isinstance(
            meta.get(f"{ABOUT}clientCapabilities"), dict
        ):
            return {"error": {"code": -32602, "message": f"Invalid params: {method} does not say who asks"}}
        self.got.append((method, params))
        self.active[request_id] = method
        try:
            return await self._answer(request_id, method, params)
        finally:
            del self.active[request_id]

    async def _answer(self, request_id: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method == "server/discover":
            able = {name: {"listChanged": True} for name in self.lists}
            return _result(supportedVersions=[VERSION], capabilities=able, ttlMs=0, cacheScope="private")
        if method in _LISTS and _LISTS[method] in self.lists:
            return _result(**{_LISTS[method]: self.lists[_LISTS[method]]}, ttlMs=0, cacheScope="private")
        if method == "subscriptions/listen":
            return await self.listen(request_id, params)
        name = str(params.get("uri") or params.get("name"))
        if method in ("tools/call", "prompts/get", "resources/read") and name in self._results:
            return _result(**self._results[name])
        return {"error": {"code": -32601, "message": f"Method not found: {method} {name}"}}

    async def listen(self, request_id: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer `subscriptions/listen`: never, until it is taken back."""
        self._listening.add(request_id)
        try:
            meta = {"_meta": {f"{ABOUT}subscriptionId": request_id}}
            acknowledged = {"notifications": params["notifications"], **meta}
            await self.says(request_id, "notifications/subscriptions/acknowledged", acknowledged)
            await anyio.sleep_forever()
            raise AssertionError("it sleeps until it is cancelled")
        finally:
            self._listening.remove(request_id)


def provide(agent: AgentProcess, server: EditorServer) -> None:
    """Have the editor answer for this server, and for no other."""
    server.agent = agent

    async def handle(message: Mapping[str, Any]) -> Any:
        if message["serverId"] != server.server_id:
            raise AgentError(-33001, "MCP server registration unavailable", {"serverId": message["serverId"]})
        return await server.handle(message)

    agent.handlers["mcp/message"] = handle


def _result(**members: Any) -> dict[str, Any]:
    return {"result": {"resultType": "complete", **members}}
