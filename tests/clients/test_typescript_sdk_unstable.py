"""What is unstable in both versions of the protocol, with an editor made of the
official TypeScript SDK.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.models import Reply, ToolCall, model_server
from support.npm import npm_package
from support.typescript import talk

STEPS = [
    {"content": "Look", "status": "completed"},
    {"content": "Clean", "status": "pending"},
]


@pytest.mark.parametrize("version", [1, 2])
async def test_what_is_unstable_is_what_the_sdk_understands(
    tmp_path: Path, version: int
) -> None:
    npm_package("@agentclientprotocol/sdk")
    script = [
        Reply(tool_calls=[ToolCall("mcp__desk__look")]),
        Reply("I see a lamp."),
        Reply(tool_calls=[ToolCall("plan", {"entries": STEPS})]),
        Reply(tool_calls=[ToolCall("plan", {"entries": []})]),
        Reply("No plan is needed."),
        Reply(tool_calls=[ToolCall("mcp__desk__clean")]),
        Reply("It is clean."),
    ]
    words = (str(version), str(tmp_path))
    async with model_server(script) as server:
        facts = await talk(
            "acp_client_unstable.mjs", tmp_path, server.env("openai"), tmp_path, words
        )
        bodies = [json.dumps(call.body) for call in server.calls]

    assert facts["problems"] == []
    assert facts["exitCode"] == 0

    # The editor's own MCP server: its tools are called, say how far they are, and
    # change.
    assert facts["first"] == facts["planned"] == facts["cleaned"] == "end_turn"
    assert facts["permissions"] == 2
    assert "look: a lamp" in bodies[1]
    assert "mcp__desk__clean" not in bodies[0]
    assert "clean: a lamp" in bodies[-1]
    assert "1/2 Looking" in json.dumps(facts["updates"])
    assert set(facts["got"]) == {
        "server/discover",
        "tools/list",
        "tools/call",
        "subscriptions/listen",
    }

    # The plan comes and goes.
    plans = [
        each for each in facts["updates"] if each["sessionUpdate"].startswith("plan")
    ]
    kinds = [each["sessionUpdate"] for each in plans]
    assert kinds == ["plan_update", "plan_removed" if version == 1 else "plan_update"]
    assert [entry["content"] for entry in plans[0]["plan"]["entries"]] == [
        "Look",
        "Clean",
    ]

    # Sessions, and who is signed in.
    account = {"label": "openai: the key in OPENAI_API_KEY", "active": True}
    assert facts["standing"] == {"state": "authenticated", "accounts": [account]}
    assert facts["statuses"] == ["unknown"]
    assert facts["titled"] == {"title": "The fork"}
    assert facts["open"]["status"] == "open"
    assert facts["open"].get("state") == (
        {"state": "idle", "stopReason": "end_turn"} if version == 2 else None
    )
    assert facts["saved"] == {"status": "saved"}
    assert [row["title"] for row in facts["listed"]["sessions"]] == ["The fork"]
    assert [row["archived"] for row in facts["archived"]["sessions"]] == [True]
    assert "openai" in [row["providerId"] for row in facts["providers"]["providers"]]
