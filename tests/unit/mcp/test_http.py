"""MCP servers over HTTP, streamable and with server-sent events: the official SDK's own, and those that refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.server.mcpserver import Context, MCPServer

from support.http_server import Exchange, http_server
from support.mcp import logged, ready, says, sdk_server, tool
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import results


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_tool_of_a_server_on_the_network_is_called_with_the_headers_of_its_entry(
    tmp_path: Path, transport: Literal["http", "sse"]
) -> None:
    server = MCPServer("garden")

    @server.tool()
    async def whoami(context: Context) -> str:
        """Say who asks."""
        headers = context.headers or {}
        return f"You are {headers.get('x-name')}."

    replies = (Reply(tool_calls=[ToolCall("mcp__garden__whoami")]), Reply("Done."))
    async with sdk_server(server, transport) as url:
        entry = {"type": transport, "name": "garden", "url": url, "headers": [{"name": "X-Name", "value": "Eve"}]}
        async with stage(tmp_path, *replies, mcp=[entry], mode="full-access") as it:
            await ready(it, "garden")
            assert await it.prompt() == {"stopReason": "end_turn"}
            [result] = results(it.server.calls[1].body)
            assert result.text == "You are Eve."
            # The session's end is the connection's.
            await it.agent.request("session/close", {"sessionId": it.session})


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_wants_a_login_is_told_of_without_its_token(tmp_path: Path, transport: str) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(401, {"error": "who are you?"}, {"www-authenticate": "Bearer"})

    async with http_server(refuse) as url:
        header = {"name": "Authorization", "value": "Bearer stale-token"}
        entry = {"type": transport, "name": "locked", "url": f"{url}/mcp", "headers": [header]}
        async with stage(tmp_path, Reply("Hello."), mcp=[entry]) as it:
            await logged(it, "MCP server locked could not be started")
            assert await it.prompt() == {"stopReason": "end_turn"}
            text = it.agent.text()
            assert "'locked' could not be started: it answered with HTTP status 401; put a valid token" in text
            log = (it.home / "state" / "logs" / "acp-agent.log").read_text()
            assert "locked" in log
            assert "stale-token" not in log + text


GONE: dict[str, Any] = {"code": -32001, "message": "Session not found"}


@pytest.mark.parametrize(
    ("status", "forgotten"),
    [
        (404, {"jsonrpc": "2.0", "id": None, "error": GONE}),
        # As servers have it that are older than the rule, or do not follow it.
        (400, {"jsonrpc": "2.0", "id": None, "error": GONE}),
        (400, "Bad Request: No valid session ID provided"),
    ],
)
async def test_a_server_that_has_forgotten_the_session_fails_that_call_and_is_connected_to_anew(
    tmp_path: Path, status: int, forgotten: Any
) -> None:
    sessions: list[str] = []
    asked: list[str] = []

    async def serve(exchange: Exchange) -> None:
        body = exchange.request.body or {}
        method, session = body.get("method"), exchange.request.headers.get("mcp-session-id", "")
        if "id" not in body:
            await exchange.respond(202 if exchange.request.method == "POST" else 405, "")
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body["id"]}
        if method == "initialize":
            sessions.append(f"session-{len(sessions)}")
            info = {"name": "web", "version": "1"}
            version = body["params"]["protocolVersion"]
            answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            await exchange.respond(200, answer, {"mcp-session-id": sessions[-1]})
        elif method == "tools/call":
            asked.append(session)
            await exchange.respond(
                *(status, forgotten) if session == "session-0" else (200, answer | {"result": says()})
            )
        else:
            await exchange.respond(200, answer | {"result": {"tools": [tool("work")]}})

    work = Reply(tool_calls=[ToolCall("mcp__web__work")])
    async with http_server(serve) as url:
        entry = {"type": "http", "name": "web", "url": f"{url}/mcp", "headers": []}
        async with stage(tmp_path, work, work, Reply("Done."), mcp=[entry], mode="full-access") as it:
            await ready(it, "web")
            await it.prompt()
            [failed], [worked] = (results(call.body) for call in it.server.calls[1:3])
            assert "'web' ended during this call" in failed.text
            assert "it does not know the session any more" in failed.text
            assert worked.text == "(the tool returned nothing)"
    assert asked == ["session-0", "session-1"]
