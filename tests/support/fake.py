"""A tiny agent that does what the prompt says, and the client at its other end."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from support.client import AgentProcess, connected_agent
from support.editors import ZED, Editor

FAKE = [sys.executable, "-S", str(Path(__file__).parents[1] / "support_tests" / "fake_agent.py")]
CALL = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Edit a.py", "kind": "edit", "status": "pending"}
ASK = {
    "ask": "session/request_permission",
    "params": {
        "toolCall": {"toolCallId": "t1", "title": "Edit a.py", "kind": "edit", "rawInput": {"path": "a.py"}},
        "options": [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ],
    },
}


def fake(home: Path, **options: Any) -> AbstractAsyncContextManager[AgentProcess]:
    return connected_agent(home=home, argv=FAKE, **options)


async def do(agent: AgentProcess, *actions: dict[str, Any]) -> dict[str, Any]:
    """Open a session and let the agent do these actions."""
    session = await agent.new_session("/")
    return await agent.prompt(session, json.dumps(actions))


def chunk(text: str, **over: Any) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"update": {"sessionUpdate": "agent_message_chunk", "messageId": "m0", "content": content, **over}}


async def problems_of(home: Path, *actions: dict[str, Any], editor: Editor = ZED) -> list[str]:
    async with fake(home, capabilities=editor) as agent:
        await do(agent, *actions)
        problems = list(agent.problems)
        agent.problems.clear()
    return problems
