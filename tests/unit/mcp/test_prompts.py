"""Prompts of MCP servers as slash commands, and their resources where a prompt names
them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.client import AgentError
from support.editors import ACPX
from support.mcp import mcp_program, ready
from support.memory import stage
from support.replies import Reply
from support.stage import conversation

ARGUMENTS = [
    {"name": "file", "description": "Which", "required": True},
    {"name": "depth"},
]


async def test_a_prompt_is_a_slash_command_with_arguments(tmp_path: Path) -> None:
    server = mcp_program(
        tmp_path,
        "Review",
        prompts=[
            {"name": "Look At", "description": "Look at a file", "arguments": ARGUMENTS}
        ],
        made={"Look At": "Look at {file} well."},
    )
    async with stage(
        tmp_path, Reply("Looked."), Reply("Again."), mcp=[server.entry], editor=ACPX
    ) as it:
        offered = await it.agent.wait_for(
            lambda line: "mcp:review:look-at" in json.dumps(line.params or {}), 30
        )
        commands = {
            each["name"]: each for each in offered.params["update"]["availableCommands"]
        }
        assert "compact" in commands
        command = commands["mcp:review:look-at"]
        assert command["description"] == "Look at a file (MCP server Review)"
        assert command["input"] == {"hint": "file=… [depth=…]"}
        assert await it.prompt('/mcp:review:look-at file="a b.txt"') == {
            "stopReason": "end_turn"
        }
        assert conversation(it.server.calls[0].body)[-1] == (
            "user",
            "Look at a b.txt well.",
        )
        assert await it.prompt("/mcp:review:look-at the first file") == {
            "stopReason": "end_turn"
        }
        assert conversation(it.server.calls[1].body)[-1] == (
            "user",
            "Look at the first file well.",
        )
        with pytest.raises(
            AgentError, match="`/mcp:review:look-at` was not run: it needs `file`"
        ) as missing:
            await it.prompt("/mcp:review:look-at depth=3")
        assert missing.value.code == -32602
        with pytest.raises(
            AgentError,
            match=r"has no prompt 'other'\. Its prompts are: /mcp:review:look-at",
        ):
            await it.prompt("/mcp:review:other")
        heard = len(it.agent.lines)
        await it.prompt("/help")
        assert (
            "`/mcp:review:look-at file=… [depth=…]`: Look at a file"
            in it.agent.text(since=heard)
        )
        # A prompt is replayed as it was typed.
        await it.agent.load(it.session, it.folder)
        assert "/mcp:review:look-at the first file" in json.dumps(
            it.agent.updates(kind="user_message_chunk")
        )


async def test_a_resource_that_a_prompt_names_is_read_for_the_model(
    tmp_path: Path,
) -> None:
    server = mcp_program(
        tmp_path,
        "docs",
        resources=[
            {"uri": "note://one", "name": "One"},
            {"uri": "note://three", "name": "Three"},
        ],
        contents={
            "note://one": "The first note.",
            "note://two": "The second note.",
            "note://three": "The third.",
        },
    )
    async with stage(
        tmp_path, Reply("Read."), Reply("Read."), mcp=[server.entry]
    ) as it:
        await ready(it, "docs")
        text = "Compare @docs:note://one, (@docs:note://three.) and me@docs:note://no with @nobody:note://one."
        link = {"type": "resource_link", "uri": "note://two", "name": "Two"}
        listed = {"type": "resource_link", "uri": "note://one", "name": "One"}
        await it.prompt([{"type": "text", "text": text}, link])
        said = conversation(it.server.calls[0].body)[-1][1]
        assert said.startswith(text)
        assert said.count("The first note.") == 1
        assert "The third." in said
        # An editor's own link that no server lists.
        assert "The second note." not in said
        await it.prompt([{"type": "text", "text": "And this: "}, listed])
        assert (
            conversation(it.server.calls[1].body)[-1][1].count("The first note.") == 1
        )
        with pytest.raises(
            AgentError, match="'docs' did not return note://four: no such thing"
        ):
            await it.prompt("What is in @docs:note://four?")
        assert len(it.server.calls) == 2
