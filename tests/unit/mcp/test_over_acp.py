"""MCP servers that the editor is itself: over the connection that is there, and otherwise as all others."""

from __future__ import annotations

import json
from pathlib import Path

from support.mcp import ready, says, tool
from support.mcp_editor import EditorServer, provide
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results

PRIVATE = {"ttlMs": 0, "cacheScope": "private"}
LOOK = tool("look", inputSchema={"type": "object", "properties": {"at": {"type": "string"}}})


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
            "desk://note": {"contents": [{"uri": "desk://note", "text": "Buy ink."}], **PRIVATE},
        },
    )
    replies = [Reply(tool_calls=[ToolCall("mcp__desk__look", {"at": "top"})]), Reply("I see."), Reply("Done.")]
    async with stage(tmp_path, *replies, Reply("Noted."), mode="full-access") as it:
        assert it.agent.initialized["agentCapabilities"]["mcpCapabilities"]["acp"] is True
        provide(it.agent, desk)
        session = await it.agent.new_session(it.folder, mcpServers=[desk.entry])
        await ready(it, "desk")
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        assert offered(it, 0) == ["mcp__desk__look"]
        [called] = [params for method, params in desk.got if method == "tools/call"]
        assert (called["name"], called["arguments"]) == ("look", {"at": "top"})
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
