"""The client that MCP's conformance suite starts for each scenario: an in-memory agent
with one server.

    python -m support.mcp_conformance http://localhost:4711/mcp

The agent gets one prompt. Its model calls each tool of the server once, with numbers as
arguments. Every question that the server asks the user is accepted unchanged.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from support.mcp import ready
from support.memory import stage
from support.questions import accepted, answers
from support.replies import Reply, ToolCall

NUMBERS = {"a": 5, "b": 3}


def script(body: Any) -> Reply:
    """Call the next tool that has not been called yet."""
    called = [
        item["name"] for item in body["input"] if item.get("type") == "function_call"
    ]
    for tool in body["tools"]:
        name = tool["name"]
        if name.startswith("mcp__") and name not in called:
            wanted = tool["parameters"]["properties"]
            return Reply(
                tool_calls=[ToolCall(name, {key: NUMBERS[key] for key in wanted})]
            )
    return Reply("Done.")


async def main(url: str) -> None:
    entry = {"type": "http", "name": "suite", "url": url, "headers": []}
    with tempfile.TemporaryDirectory() as folder:
        async with stage(
            Path(folder), script=script, mcp=[entry], mode="full-access"
        ) as it:
            await ready(it, "suite")
            answers(it, *[accepted()] * 5)
            stopped = await it.prompt(timeout=60)
            assert stopped == {"stopReason": "end_turn"}, stopped


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
