"""MCP servers that the editor is itself: over the connection that is there, and otherwise as all others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.client import AgentError
from support.editors import ZED_BETA
from support.lines import Line
from support.mcp import logged, ready, says, tool
from support.mcp_editor import EditorServer, provide
from support.memory import stage
from support.replies import Reply, ToolCall
from support.serving import never_answer
from support.stage import Stage, results

LOOK = tool("look", inputSchema={"type": "object", "properties": {"at": {"type": "string"}}})


async def opened(it: Stage, *servers: EditorServer) -> str:
    """A session with these servers, which the editor provides."""
    provide(it.agent, *servers)
    return await it.agent.new_session(it.folder, mcpServers=[server.entry for server in servers])


def _asks(line: Line) -> bool:
    return line.kind == "request" and line.method == "mcp/message"


def offered(it: Stage, call: int) -> list[str]:
    """The names of the tools of MCP servers that the model was told of."""
    tools = json.loads(json.dumps(it.server.calls[call].body["tools"]))
    names = [each.get("name") or each["function"]["name"] for each in tools]
    return [name for name in names if name.startswith("mcp__")]


async def test_tools_prompts_and_resources_of_the_editor_are_used_as_those_of_any_server(tmp_path: Path) -> None:
    desk = EditorServer(
        "desk",
        tools=[LOOK],
        prompts=[{"name": "tidy", "arguments": [{"name": "what", "required": True}]}],
        resources=[{"uri": "desk://note", "name": "note"}],
        results={
            "look": says("A lamp."),
            "tidy": {"messages": [{"role": "user", "content": {"type": "text", "text": "Tidy the drawer."}}]},
            "desk://note": {
                "contents": [{"uri": "desk://note", "text": "Buy ink."}],
                "ttlMs": 0,
                "cacheScope": "private",
            },
        },
    )
    replies = [Reply(tool_calls=[ToolCall("mcp__desk__look", {"at": "top"})]), Reply("I see."), Reply("Done.")]
    async with stage(tmp_path, *replies, Reply("Noted."), mode="full-access") as it:
        assert it.agent.initialized["agentCapabilities"]["mcpCapabilities"]["acp"] is True
        session = await opened(it, desk)
        await ready(it, "desk")
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        assert offered(it, 0) == ["mcp__desk__look"]
        assert desk.calls() == [{"name": "look", "arguments": {"at": "top"}}]
        assert [result.text for result in results(it.server.calls[1].body)] == ["A lamp."]
        # Another tool comes, and is there in the next turn.
        desk.lists["tools"] = [LOOK, tool("clean")]
        desk.lists["prompts"] = [*desk.lists["prompts"], {"name": "sort"}]
        heard = len(it.agent.lines)
        await desk.changed("tools")
        await it.agent.wait_update("available_commands_update", session, since=heard, timeout=10)
        assert await it.agent.prompt(session, "/mcp:desk:tidy drawer", 30) == {"stopReason": "end_turn"}
        assert offered(it, 2) == ["mcp__desk__look", "mcp__desk__clean"]
        assert "Tidy the drawer." in json.dumps(it.server.calls[2].body)
        assert await it.agent.prompt(session, "Do @desk:desk://note", 30) == {"stopReason": "end_turn"}
        assert "Buy ink." in json.dumps(it.server.calls[3].body)
        # With the session it is let go, and nothing is asked of it any more.
        assert list(desk.active.values()) == ["subscriptions/listen"]
        await it.agent.request("session/close", {"sessionId": session})
        await it.agent.until(lambda: not desk.active, 10)
        asked = len(desk.got)
        await it.agent.request("session/list", {})
        assert len(desk.got) == asked


async def test_servers_that_are_gone_mute_or_wrong_are_told_of_and_the_session_works(tmp_path: Path) -> None:
    async def older(message: Mapping[str, Any]) -> Any:
        return {"error": {"code": -32022, "message": "Unsupported", "data": {"supported": ["2025-06-18"]}}}

    async def nonsense(message: Mapping[str, Any]) -> Any:
        return {"neither": 1}

    good, old, odd, mute, gone = (EditorServer(name, tools=[LOOK]) for name in ("good", "old", "odd", "mute", "gone"))
    old.handlers["server/discover"] = older
    odd.handlers["server/discover"] = nonsense
    mute.handlers["server/discover"] = never_answer
    gone.there = False
    async with stage(tmp_path, Reply("One."), Reply("Two."), editor=ZED_BETA) as it:
        session = await opened(it, gone, old, odd, mute, good)
        for name in ("gone", "old", "odd"):
            await logged(it, f"MCP server {name} could not be started")
        assert await it.agent.prompt(session, "Go on", 30) == {"stopReason": "end_turn"}
        assert offered(it, 0) == ["mcp__good__look"]
        told = json.dumps(it.agent.updates(kind="notice"))
        assert "'gone' could not be started: the editor does not have it" in told
        assert "'old' could not be started: " in told
        assert "'odd' could not be started: what it answered is not what the protocol says" in told
        assert "'mute' is not ready yet" in told
        assert "'good'" not in told
        # One that comes back is there with the next prompt.
        gone.there = True
        assert await it.agent.prompt(session, "And now?", 30) == {"stopReason": "end_turn"}
        await ready(it, "gone")
        await gone.listened_to()


async def test_a_server_that_goes_during_a_call_fails_that_call_and_is_connected_to_anew(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK], results={"look": says("A lamp.")})
    call = Reply(tool_calls=[ToolCall("mcp__desk__look")])
    async with stage(tmp_path, call, Reply("Oh."), call, Reply("I see."), mode="full-access") as it:

        async def vanish(message: Mapping[str, Any]) -> Any:
            del desk.handlers["tools/call"]
            raise AgentError(-33001, "MCP server registration unavailable")

        desk.handlers["tools/call"] = vanish
        session = await opened(it, desk)
        await ready(it, "desk")
        await it.agent.prompt(session, "Look", 30)
        [failed] = results(it.server.calls[1].body)
        assert "'desk' ended during this call" in failed.text
        await it.agent.prompt(session, "Again", 30)
        assert [result.text for result in results(it.server.calls[3].body)] == ["A lamp."]
