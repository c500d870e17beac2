"""MCP servers that the editor is itself: over the connection that is there, and
otherwise as all others.

`EditorServer` is as strict as the TypeScript SDK's: MCP 2026-07-28 alone, which has no
handshake and says who asks in every request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.conversation.messages import JsonObject
from acp_agent.mcp.model import OnNotification
from acp_agent.mcp.transports import Watch, over_acp
from support.client import AgentError, AgentProcess
from support.mcp import ready, says, tool
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results

VERSION = "2026-07-28"
ABOUT = "io.modelcontextprotocol/"
_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
}


class EditorServer:
    """One server.

    :ivar got: method and params of every request, oldest first.
    :ivar active: the ids of the requests that are being worked on.
    """

    def __init__(
        self,
        name: str,
        *,
        results: Mapping[str, Any] | None = None,
        **lists: list[dict[str, Any]],
    ) -> None:
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

    async def says(
        self, request_id: str, method: str, params: Mapping[str, Any]
    ) -> None:
        assert self.agent is not None
        message = self.message(request_id, method, params)
        await self.agent.notify("mcp/message", message)

    def message(
        self, request_id: str, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the params of `mcp/message`."""
        return {
            "serverId": self.server_id,
            "requestId": request_id,
            "method": method,
            "params": params,
        }

    async def changed(self, name: str) -> None:
        for request_id in list(self._listening):
            params = {"_meta": {f"{ABOUT}subscriptionId": request_id}}
            await self.says(request_id, f"notifications/{name}/list_changed", params)

    async def handle(self, message: Mapping[str, Any]) -> dict[str, Any]:
        request_id = message["requestId"]
        method = message["method"]
        params = message.get("params") or {}
        if request_id in self.active:
            raise AgentError(-32602, "duplicate active MCP request ID")
        meta = params.get("_meta") or {}
        if meta.get(f"{ABOUT}protocolVersion") != VERSION or not isinstance(
            meta.get(f"{ABOUT}clientCapabilities"), dict
        ):
            return {
                "error": {
                    "code": -32602,
                    "message": f"Invalid params: {method} does not say who asks",
                }
            }
        self.got.append((method, params))
        self.active[request_id] = method
        try:
            return await self._answer(request_id, method, params)
        finally:
            del self.active[request_id]

    async def _answer(
        self, request_id: str, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        if method == "server/discover":
            able = {name: {"listChanged": True} for name in self.lists}
            return _result(
                supportedVersions=[VERSION],
                capabilities=able,
                ttlMs=0,
                cacheScope="private",
            )
        if method in _LISTS and _LISTS[method] in self.lists:
            return _result(
                **{_LISTS[method]: self.lists[_LISTS[method]]},
                ttlMs=0,
                cacheScope="private",
            )
        if method == "subscriptions/listen":
            return await self.listen(request_id, params)
        name = str(params.get("uri") or params.get("name"))
        if (
            method in ("tools/call", "prompts/get", "resources/read")
            and name in self._results
        ):
            return _result(**self._results[name])
        return {
            "error": {"code": -32601, "message": f"Method not found: {method} {name}"}
        }

    async def listen(
        self, request_id: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Answer `subscriptions/listen`: never, until it is taken back."""
        self._listening.add(request_id)
        try:
            meta = {"_meta": {f"{ABOUT}subscriptionId": request_id}}
            acknowledged = {"notifications": params["notifications"], **meta}
            await self.says(
                request_id, "notifications/subscriptions/acknowledged", acknowledged
            )
            await anyio.sleep_forever()
            raise AssertionError("it sleeps until it is cancelled")
        finally:
            self._listening.remove(request_id)


def provide(agent: AgentProcess, server: EditorServer) -> None:
    """Have the editor answer for this server, and for no other."""
    server.agent = agent

    async def handle(message: Mapping[str, Any]) -> Any:
        if message["serverId"] != server.server_id:
            raise AgentError(
                -33001,
                "MCP server registration unavailable",
                {"serverId": message["serverId"]},
            )
        return await server.handle(message)

    agent.handlers["mcp/message"] = handle


def _result(**members: Any) -> dict[str, Any]:
    return {"result": {"resultType": "complete", **members}}


PRIVATE = {"ttlMs": 0, "cacheScope": "private"}
LOOK = tool(
    "look", inputSchema={"type": "object", "properties": {"at": {"type": "string"}}}
)


def offered(it: Stage, call: int) -> list[str]:
    """The names of the tools of MCP servers that the model was told of."""
    tools = json.loads(json.dumps(it.server.calls[call].body["tools"]))
    names = [each.get("name") or each["function"]["name"] for each in tools]
    return [name for name in names if name.startswith("mcp__")]


class Flood:
    """A channel of an editor whose server sends many notifications before it answers."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def ask(
        self,
        server_id: str,
        request_id: str,
        method: str,
        params: JsonObject | None,
        notified: OnNotification,
    ) -> JsonObject:
        for number in range(self._count):
            notified("notifications/progress", {"progress": number, "progressToken": 1})
        return {"result": {}}


@pytest.mark.parametrize(("count", "is_overrun"), [(999, False), (2_500, True)])
async def test_notifications_that_nobody_reads_are_dropped_up_to_a_limit_and_the_answer_comes(
    count: int, is_overrun: bool
) -> None:
    watch = Watch()
    async with over_acp("desk", Flood(count), watch) as (received, to_server):
        request = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call")
        await to_server.send(SessionMessage(request))
        await anyio.wait_all_tasks_blocked()
        got = 0
        with anyio.fail_after(20):
            async for each in received:
                assert isinstance(each, SessionMessage)
                if isinstance(each.message, types.JSONRPCResponse):
                    break
                got += 1
    assert got == min(count, 1_000)
    assert watch.overrun.is_set() is is_overrun
    assert watch.changed.is_set() is is_overrun  # one may have reported a change


async def test_the_user_is_told_of_dropped_notifications_and_the_result_is_complete(
    tmp_path: Path,
) -> None:
    desk = EditorServer("desk", tools=[LOOK], results={"look": says("A lamp.")})
    answer = desk._answer

    async def flood(
        request_id: str, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        if method == "tools/call":
            token = params["_meta"]["progressToken"]
            line = {"progress": 1, "progressToken": token}
            message = desk.message(request_id, "notifications/progress", line)
            whole = {"jsonrpc": "2.0", "method": "mcp/message", "params": message}
            assert desk.agent is not None
            await desk.agent.send_bytes((json.dumps(whole) + "\n").encode() * 3_000)
        return await answer(request_id, method, params)

    desk._answer = flood
    replies = [
        Reply(tool_calls=[ToolCall("mcp__desk__look", {"at": "top"})]),
        Reply("I see."),
        Reply("Done."),
    ]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        provide(it.agent, desk)
        session = await it.agent.new_session(it.folder, mcpServers=[desk.entry])
        await ready(it, "desk")
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        assert [each.text for each in results(it.server.calls[1].body)] == ["A lamp."]
        await it.agent.until(
            lambda: any(
                "so some are dropped" in line for line in map(str, it.agent.lines)
            ),
            10,
        )


async def test_tools_prompts_and_resources_of_the_editor_are_used_as_those_of_any_server(
    tmp_path: Path,
) -> None:
    desk = EditorServer(
        "desk",
        tools=[LOOK],
        prompts=[{"name": "tidy", "arguments": [{"name": "what", "required": True}]}],
        resources=[{"uri": "desk://note", "name": "note"}],
        results={
            "look": says("A lamp."),
            "tidy": {
                "messages": [
                    {
                        "role": "user",
                        "content": {"type": "text", "text": "Tidy the drawer."},
                    }
                ]
            },
            "desk://note": {
                "contents": [{"uri": "desk://note", "text": "Buy ink."}],
                **PRIVATE,
            },
        },
    )
    replies = [
        Reply(tool_calls=[ToolCall("mcp__desk__look", {"at": "top"})]),
        Reply("I see."),
        Reply("Done."),
    ]
    async with stage(tmp_path, *replies, Reply("Noted."), mode="full-access") as it:
        assert (
            it.agent.initialized["agentCapabilities"]["mcpCapabilities"]["acp"] is True
        )
        provide(it.agent, desk)
        session = await it.agent.new_session(it.folder, mcpServers=[desk.entry])
        await ready(it, "desk")
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        assert offered(it, 0) == ["mcp__desk__look"]
        [called] = [params for method, params in desk.got if method == "tools/call"]
        assert (called["name"], called["arguments"]) == ("look", {"at": "top"})
        assert [result.text for result in results(it.server.calls[1].body)] == [
            "A lamp."
        ]
        # Another tool comes, and is there in the next turn.
        desk.lists["tools"] = [LOOK, tool("clean")]
        desk.lists["prompts"] = [*desk.lists["prompts"], {"name": "sort"}]
        heard = len(it.agent.lines)
        await desk.changed("tools")
        await it.agent.wait_update(
            "available_commands_update", session, since=heard, timeout=10
        )
        assert await it.agent.prompt(session, "/mcp:desk:tidy drawer", 30) == {
            "stopReason": "end_turn"
        }
        assert offered(it, 2) == ["mcp__desk__look", "mcp__desk__clean"]
        assert "Tidy the drawer." in json.dumps(it.server.calls[2].body)
        assert await it.agent.prompt(session, "Do @desk:desk://note", 30) == {
            "stopReason": "end_turn"
        }
        assert "Buy ink." in json.dumps(it.server.calls[3].body)
        # With the session it is let go, and nothing is asked of it any more.
        assert list(desk.active.values()) == ["subscriptions/listen"]
        await it.agent.request("session/close", {"sessionId": session})
        await it.agent.until(lambda: not desk.active, 10)
        asked = len(desk.got)
        await it.agent.request("session/list", {})
        assert len(desk.got) == asked
