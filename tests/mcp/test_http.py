"""MCP servers over HTTP, streamable and with server-sent events: the official SDK's own, and those that refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.server.mcpserver import Context, MCPServer

from support.http_server import Exchange, http_server
from support.mcp import logged, ready, says, sdk_server, tool
from support.replies import Reply, ToolCall
from support.stage import conversation, results, stage


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
async def test_a_server_that_has_forgotten_the_session_is_connected_to_and_asked_again(
    tmp_path: Path, status: int, forgotten: Any
) -> None:
    sessions: list[str] = []
    asked: list[str] = []
    forgetting = {"work in session-0", "review in session-1"}

    async def serve(exchange: Exchange) -> None:
        body = exchange.request.body or {}
        method, session = body.get("method"), exchange.request.headers.get("mcp-session-id", "")
        if "id" not in body:
            await exchange.respond(202 if exchange.request.method == "POST" else 405, "")
            return
        name = (body.get("params") or {}).get("name")
        if name:
            asked.append(f"{name} in {session}")
        if name == "never" or f"{name} in {session}" in forgetting:
            await exchange.respond(status, forgotten)
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body["id"]}
        headers: dict[str, str] = {}
        if method == "initialize":
            sessions.append(f"session-{len(sessions)}")
            headers["mcp-session-id"] = sessions[-1]
            version, able = body["params"]["protocolVersion"], {"tools": {}, "prompts": {}}
            info = {"name": "web", "version": "1"}
            answer["result"] = {"protocolVersion": version, "capabilities": able, "serverInfo": info}
        elif name == "refuse":
            answer["error"] = GONE
        elif name == "review":
            answer["result"] = {"messages": [{"role": "user", "content": {"type": "text", "text": "Review it."}}]}
        elif name:
            answer["result"] = says("Worked.")
        else:
            tools = [tool("work"), tool("refuse"), tool("never")]
            answer["result"] = {"tools": tools, "prompts": [{"name": "review"}]}
        await exchange.respond(400 if name == "refuse" else 200, answer, headers)

    work, refuse, never = (ToolCall(f"mcp__web__{name}") for name in ("work", "refuse", "never"))
    replies = (*(Reply(tool_calls=[call]) for call in (work, refuse, work)), Reply("Done."), Reply("Reviewed."))
    async with http_server(serve) as url:
        entry = {"type": "http", "name": "web", "url": f"{url}/mcp", "headers": []}
        more = (Reply(tool_calls=[never]), Reply("Done."))
        async with stage(tmp_path, *replies, *more, mcp=[entry], mode="full-access") as it:
            await ready(it, "web")
            await it.prompt()
            first, refused, last = (results(call.body)[0].text for call in it.server.calls[1:4])
            assert (first, last) == ("Worked.", "Worked.")
            # What it answers itself is no reason to ask again, whatever its code and its words are.
            assert "has not answered this call: Session not found" in refused
            await it.prompt("/mcp:web:review")
            assert "Review it." in conversation(it.server.calls[4].body)[-1][1]
            # One that never knows the session is asked twice.
            await it.prompt()
            assert "has not answered this call: " in results(it.server.calls[6].body)[0].text
    assert asked == [
        "work in session-0", "work in session-1", "refuse in session-1", "work in session-1",
        "review in session-1", "review in session-2",
        "never in session-2", "never in session-3",
    ]  # fmt: skip
