"""MCP servers over HTTP, streamable and with server-sent events: the official SDK's own, and those that refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from mcp.server.mcpserver import Context, MCPServer

from support.http_server import Exchange, http_server
from support.mcp import logged, ready, says, sdk_server, tool
from support.replies import Reply, ToolCall
from support.stage import results, stage


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


async def test_headers_of_the_configuration_get_the_values_of_variables(tmp_path: Path) -> None:
    server = MCPServer("garden")

    @server.tool()
    async def whoami(context: Context) -> str:
        """Say who asks."""
        return f"You are {(context.headers or {}).get('x-name')}."

    replies = (Reply(tool_calls=[ToolCall("mcp__garden__whoami")]), Reply("Done."))
    async with sdk_server(server, "http") as url:
        config = {"mcp_servers": {"garden": {"url": url, "headers": {"X-Name": "the ${MY_NAME}!"}}}}
        async with stage(tmp_path, *replies, config=config, env={"MY_NAME": "gardener"}, mode="full-access") as it:
            await ready(it, "garden")
            assert await it.prompt() == {"stopReason": "end_turn"}
            assert [result.text for result in results(it.server.calls[1].body)] == ["You are the gardener!."]


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
            assert "'locked' could not be started: it wants to know who you are (HTTP 401)" in text
            log = (it.home / "state" / "logs" / "acp-agent.log").read_text()
            assert "locked" in log
            assert "stale-token" not in log + text


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_is_elsewhere_now_is_told_of_without_any_address(tmp_path: Path, transport: str) -> None:
    async def move(exchange: Exchange) -> None:
        await exchange.respond(302, "", {"location": "http://127.0.0.1:9/mcp?key=a-secret-key"})

    async with http_server(move) as url:
        entry = {"type": transport, "name": "moved", "url": f"{url}/mcp?key=another-secret", "headers": []}
        async with stage(tmp_path, Reply("Hello."), mcp=[entry]) as it:
            log = await logged(it, "MCP server moved could not be started")
            assert await it.prompt() == {"stopReason": "end_turn"}
            text = it.agent.text()
            assert "'moved' could not be started: it sends on to another address (HTTP 302)" in text
            assert not any(secret in log + text for secret in ("a-secret-key", "another-secret", "127.0.0.1"))


async def test_a_server_that_has_forgotten_the_session_is_connected_to_again(tmp_path: Path) -> None:
    sessions: list[str] = []
    forgotten = False

    async def serve(exchange: Exchange) -> None:
        nonlocal forgotten
        body = exchange.request.body or {}
        method = body.get("method")
        if exchange.request.method != "POST":
            await exchange.respond(405, "")
        elif method == "initialize":
            sessions.append(f"session-{len(sessions)}")
            info = {"name": "web", "version": "1"}
            version = body["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
            await exchange.respond(200, answer, {"mcp-session-id": sessions[-1]})
        elif "id" not in body:
            await exchange.respond(202, "")
        elif method == "tools/call" and body["params"]["name"] == "refuse":
            error = {"code": -32000, "message": "Session terminated"}
            await exchange.respond(200, {"jsonrpc": "2.0", "id": body["id"], "error": error})
        elif method == "tools/call" and not forgotten:
            forgotten = True
            await exchange.respond(404, "who?")
        else:
            result = says("Worked.") if method == "tools/call" else {"tools": [tool("work"), tool("refuse")]}
            await exchange.respond(200, {"jsonrpc": "2.0", "id": body["id"], "result": result})

    work, refuse = ToolCall("mcp__web__work"), ToolCall("mcp__web__refuse")
    replies = (*(Reply(tool_calls=[call]) for call in (work, work, refuse)), Reply("Done."))
    async with http_server(serve) as url:
        entry = {"type": "http", "name": "web", "url": f"{url}/mcp", "headers": []}
        async with stage(tmp_path, *replies, mcp=[entry], mode="full-access") as it:
            await ready(it, "web")
            await it.prompt()
            assert "ended during this call" in results(it.server.calls[1].body)[0].text
            assert results(it.server.calls[2].body)[0].text == "Worked."
            # What it answers itself ends nothing, whatever its code and its words are.
            assert "has not answered this call: Session terminated" in results(it.server.calls[3].body)[0].text
            assert sessions == ["session-0", "session-1"]
