"""MCP servers over HTTP, streamable and with server-sent events: the official SDK's
own, and those that refuse.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.server.mcpserver import Context, MCPServer

from support.http_server import Exchange, http_server
from support.mcp import logged, ready, says, sdk_server, tool
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import results

CERTIFICATE = Path(__file__).parents[1] / "llm" / "self_signed.pem"


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
        entry = {
            "type": transport,
            "name": "garden",
            "url": url,
            "headers": [{"name": "X-Name", "value": "Eve"}],
        }
        async with stage(tmp_path, *replies, mcp=[entry], mode="full-access") as it:
            await ready(it, "garden")
            assert await it.prompt() == {"stopReason": "end_turn"}
            [result] = results(it.server.calls[1].body)
            assert result.text == "You are Eve."
            # The session's end is the connection's.
            await it.agent.request("session/close", {"sessionId": it.session})


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_wants_a_login_is_told_of_without_its_token(
    tmp_path: Path, transport: str
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(
            401, {"error": "who are you?"}, {"www-authenticate": "Bearer"}
        )

    async with http_server(refuse) as url:
        header = {"name": "Authorization", "value": "Bearer stale-token"}
        entry = {
            "type": transport,
            "name": "locked",
            "url": f"{url}/mcp",
            "headers": [header],
        }
        async with stage(tmp_path, Reply("Hello."), mcp=[entry]) as it:
            await logged(it, "MCP server locked could not be started")
            assert await it.prompt() == {"stopReason": "end_turn"}
            text = it.agent.text()
            assert (
                "'locked' could not be started: it answered with HTTP status 401; add a valid token"
                in text
            )
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
        method = body.get("method")
        session = exchange.request.headers.get("mcp-session-id", "")
        if "id" not in body:
            await exchange.respond(
                202 if exchange.request.method == "POST" else 405, ""
            )
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body["id"]}
        if method == "initialize":
            sessions.append(f"session-{len(sessions)}")
            info = {"name": "web", "version": "1"}
            version = body["params"]["protocolVersion"]
            answer["result"] = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            await exchange.respond(200, answer, {"mcp-session-id": sessions[-1]})
        elif method == "tools/call":
            asked.append(session)
            await exchange.respond(
                *(status, forgotten)
                if session == "session-0"
                else (200, answer | {"result": says()})
            )
        else:
            await exchange.respond(200, answer | {"result": {"tools": [tool("work")]}})

    work = Reply(tool_calls=[ToolCall("mcp__web__work")])
    async with http_server(serve) as url:
        entry = {"type": "http", "name": "web", "url": f"{url}/mcp", "headers": []}
        async with stage(
            tmp_path, work, work, Reply("Done."), mcp=[entry], mode="full-access"
        ) as it:
            await ready(it, "web")
            await it.prompt()
            [failed], [worked] = (results(call.body) for call in it.server.calls[1:3])
            assert "'web' exited during this call" in failed.text
            assert "it no longer knows the session" in failed.text
            assert worked.text == "(the tool returned nothing)"
    assert asked == ["session-0", "session-1"]


BROKEN = {
    "hangs up": "",
    "hangs up within the stream": "",
    "ends the stream": "",
    "is behind a broken gateway": "it answered with HTTP status 502",
    "is silent": "it did not answer within 0.5 seconds",
}


@pytest.mark.parametrize("how", [*BROKEN, "refuses"])
async def test_a_call_that_no_answer_came_to_may_or_may_not_have_been_done(
    tmp_path: Path, how: str
) -> None:
    async def serve(exchange: Exchange) -> None:
        body = exchange.request.body or {}
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body.get("id")}
        match body.get("method"):
            case "initialize":
                info = {"name": "web", "version": "1"}
                version = body["params"]["protocolVersion"]
                answer["result"] = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
                await exchange.respond(200, answer)
            case "tools/list":
                await exchange.respond(
                    200, answer | {"result": {"tools": [tool("work")]}}
                )
            case "tools/call":
                match how:
                    case "hangs up":
                        exchange.hang_up()
                    case "hangs up within the stream":
                        await exchange.start()
                        await exchange.send(b": wait\n\n")
                        exchange.hang_up()
                    case "ends the stream":
                        await exchange.start()
                        await exchange.end()
                    case "is silent":
                        await anyio.sleep_forever()
                    case _:
                        await exchange.respond(502 if how in BROKEN else 400, {})
            case _:
                await exchange.respond(
                    202 if exchange.request.method == "POST" else 405, ""
                )

    async with http_server(serve) as url:
        configured = {
            "web": {"url": f"{url}/mcp", "timeout": 0.5 if how == "is silent" else 20}
        }
        replies = (Reply(tool_calls=[ToolCall("mcp__web__work")]), Reply("Done."))
        async with stage(
            tmp_path, *replies, config={"mcp_servers": configured}, mode="full-access"
        ) as it:
            await ready(it, "web")
            await it.prompt()
            [failed] = results(it.server.calls[1].body)
            assert ("which may or may not have run" in failed.text) is (how in BROKEN)
            assert (
                BROKEN.get(
                    how, "did not answer this call: it answered with HTTP status 400"
                )
                in failed.text
            )


async def test_a_certificate_that_is_not_trusted_is_told_with_the_variable_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        writer.close()

    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    entries = [
        {"type": transport, "name": transport, "url": url, "headers": []}
        for transport in ("http", "sse")
    ]
    try:
        async with stage(tmp_path, Reply("Hi."), Reply("Hi."), mcp=entries) as it:
            for transport in ("http", "sse"):
                await logged(it, f"MCP server {transport} could not be started")
            await it.prompt()
            assert it.agent.text().count("its certificate is not trusted") == 2
            assert it.agent.text().count("set SSL_CERT_FILE to a PEM file") == 2
            monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
            session = await it.agent.new_session(it.folder, mcpServers=entries)
            heard = len(it.agent.lines)
            await it.agent.prompt(session, "Hi")
            assert (
                it.agent.text(since=heard).count("it answered with HTTP status 401")
                == 2
            )
    finally:
        listening.close()
