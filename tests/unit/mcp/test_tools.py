"""Tools of MCP servers in whole turns: what the model is told of them, who is asked,
what it reads.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from acp_agent.mcp.tools import DESCRIPTION_LIMIT
from support.called import call_command
from support.mcp import mcp_program, ready, says, tool
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
READS = {"annotations": {"readOnlyHint": True, "title": "Look around"}}
BUILT_IN = [
    "read",
    "write",
    "edit",
    "list",
    "glob",
    "grep",
    "shell",
    "plan",
    "recall",
    "ask_user",
]


def told(it: Stage, call: int) -> list[str]:
    """Names of the tools in a request."""
    return [each["name"] for each in it.server.calls[call].body["tools"]]


def asked(it: Stage) -> list[str]:
    return [params["toolCall"]["title"] for params in it.agent.desk.permissions]


async def test_always_covers_a_tool_of_that_very_server_whatever_others_are_called(
    tmp_path: Path,
) -> None:
    first, second, third = (tmp_path / name for name in "123")
    for folder in (first, second, third):
        folder.mkdir()
    mine, other, third_one = (
        mcp_program(folder, "s", tools=[tool("put")])
        for folder in (first, second, third)
    )
    changed = {**mine.entry, "env": []}
    called: list[str] = []

    def script(body: Any) -> Reply:
        names = [
            each["name"] for each in body["tools"] if each["name"].startswith("mcp__s")
        ]
        if body["input"][-1].get("type") == "function_call_output":
            return Reply("Done.")
        called.extend(names)
        return Reply(tool_calls=[ToolCall(name) for name in names])

    async def asked_with(it: Stage, *entries: dict[str, Any]) -> int:
        before = len(asked(it))
        session = await it.agent.new_session(it.folder, mcpServers=list(entries))
        assert await it.agent.prompt(session, "Put them", 60) == {
            "stopReason": "end_turn"
        }
        return len(asked(it)) - before

    async with stage(tmp_path, script=script) as it:
        it.agent.permission_answer = "allow_always"
        assert await asked_with(it, mine.entry) == 1
        assert await asked_with(it, mine.entry) == 0
        it.agent.permission_answer = "allow_once"
        assert await asked_with(it, other.entry) == 1
        assert await asked_with(it, changed) == 1
        it.agent.permission_answer = "allow_always"
        # The other is now called s-2.
        assert await asked_with(it, mine.entry, other.entry) == 1
        it.agent.permission_answer = "allow_once"
        assert await asked_with(it, other.entry, third_one.entry) == 2
        assert called[-2:] == ["mcp__s__put", "mcp__s-2__put"]
        listed = await call_command(it.home, "permissions")
        assert re.search(r"mcp__s__put \([0-9a-f]{12}\)\n", listed.out)


async def test_what_a_server_changes_is_asked_for_and_what_it_only_reads_is_not(
    tmp_path: Path,
) -> None:
    schema = {
        "type": "object",
        "properties": {"what": {"type": "string"}},
        "oneOf": [{"required": ["what"]}],
    }
    structured = {"stones": [1, 2]}
    server = mcp_program(
        tmp_path,
        "garden",
        tools=[tool("put", inputSchema=schema), tool("look", **READS)],
        results={
            "put": {
                "content": [],
                "structuredContent": structured,
                "progress": "carrying",
            },
            "look": {
                "content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]
            },
        },
    )
    put = ToolCall("mcp__garden__put", {"what": "a stone"})
    look = ToolCall("mcp__garden__look")
    replies = (
        Reply(tool_calls=[put, look]),
        Reply("Done."),
        Reply(tool_calls=[put]),
        Reply("No."),
    )
    async with stage(tmp_path, *replies, mcp=[server.entry]) as it:
        await ready(it, "garden")
        it.agent.permission_answer = "allow_always"
        assert await it.prompt() == {"stopReason": "end_turn"}
        definitions = it.server.calls[0].body["tools"]
        assert [each["name"] for each in definitions] == [
            *BUILT_IN,
            "mcp__garden__put",
            "mcp__garden__look",
        ]
        # What providers refuse at the top of a schema would fail every request of the
        # session.
        wanted = {
            "type": "object",
            "properties": {"what": {"type": "string"}},
            "required": ["what"],
        }
        assert definitions[-2]["parameters"] == wanted
        assert asked(it) == ["put (garden)"]
        first, second = it.server.calls[1].body["input"][-2:]
        assert first["output"] == '{"stones": [1, 2]}'
        assert [block["type"] for block in second["output"]] == ["input_image"]
        assert PNG in second["output"][0]["image_url"]
        shown = it.calls()
        assert [(call["title"], call["kind"], call["status"]) for call in shown] == [
            ("put (garden)", "other", "completed"),
            ("Look around (garden)", "read", "completed"),
        ]
        assert shown[1]["content"] == [
            {
                "type": "content",
                "content": {"type": "image", "data": PNG, "mimeType": "image/png"},
            }
        ]
        assert "carrying" in json.dumps(it.agent.updates(kind="tool_call_update"))
        # "Always" covers this tool, and plan mode covers nothing that changes anything.
        await it.agent.set_mode(it.session, "plan")
        assert await it.prompt() == {"stopReason": "end_turn"}
        [refused] = results(it.server.calls[3].body)
        assert "plan mode" in refused.text
        assert len(asked(it)) == 1
        assert server.calls() == [
            {"name": "put", "arguments": {"what": "a stone"}},
            {"name": "look", "arguments": {}},
        ]


async def test_a_changed_list_is_taken_over_with_the_next_turn_and_not_before(
    tmp_path: Path,
) -> None:
    later: dict[str, Any] = {"tools": [tool("grow"), tool("new")]}
    server = mcp_program(
        tmp_path,
        "tree",
        tools=[tool("grow")],
        results={"grow": says("It grows.") | {"then": later}, "new": says("New.")},
    )
    replies = (
        Reply(tool_calls=[ToolCall("mcp__tree__grow")]),
        Reply("Grown."),
        Reply("I see."),
    )
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "tree")
        await it.prompt()
        await server.noted("tools/list", times=2)
        assert told(it, 0) == told(it, 1) == [*BUILT_IN, "mcp__tree__grow"]
        await it.prompt()
        assert told(it, 2) == [*BUILT_IN, "mcp__tree__grow", "mcp__tree__new"]


async def test_tools_are_told_in_a_form_that_every_provider_takes(
    tmp_path: Path,
) -> None:
    def with_schema(name: str, schema: Any, **more: Any) -> dict[str, Any]:
        return {"name": name, "inputSchema": schema, **more}

    unused = {
        f"Unused{number}": {"type": "object", "description": "x" * 500}
        for number in range(50)
    }
    tools = [
        with_schema(
            "tags",
            {
                "properties": {"tags": {"type": "array"}},
                "required": ["tags", "q", "tags"],
            },
        ),
        with_schema(
            "page",
            {
                "properties": {"p": {"$ref": "#/$defs/P"}},
                "$defs": {"P": {"type": "str"}, **unused},
            },
        ),
        with_schema("none", None, description=None),
        with_schema(
            "null", {"type": "object", "properties": None, "required": None}, title=None
        ),
        with_schema("text", "object", description=["no", "text"]),
        {"name": "bare", "description": "d"},
        with_schema("later", {"type": "object"}, execution={"taskSupport": "required"}),
        with_schema(
            "perhaps", {"type": "object"}, execution={"taskSupport": "optional"}
        ),
        with_schema(
            "hole",
            {"required": ["q", None, 3], "properties": {"q": True}},
            annotations={"title": 5},
        ),
        with_schema(
            "icons",
            {},
            icons={},
            execution="forbidden",
            annotations={"readOnlyHint": True},
        ),
        with_schema("long", {"type": "object"}, description="d" * 9000),
        {"title": "without a name"},
    ]
    server = mcp_program(tmp_path, "odd", tools=tools)
    async with stage(tmp_path, Reply("Hi."), mcp=[server.entry]) as it:
        await ready(it, "odd")
        assert await it.prompt() == {"stopReason": "end_turn"}
        told = {
            each["name"]: each
            for each in it.server.calls[0].body["tools"]
            if each["name"].startswith("mcp__")
        }
        names = [
            "tags",
            "page",
            "none",
            "null",
            "text",
            "bare",
            "perhaps",
            "icons",
            "long",
        ]
        empty = {"type": "object", "properties": {}}
        assert {*told} == {"mcp__odd__hole", *(f"mcp__odd__{name}" for name in names)}
        assert told["mcp__odd__hole"]["parameters"] == empty | {
            "properties": {"q": {}},
            "required": ["q"],
        }
        tags = {"type": "array", "items": {}}
        assert told["mcp__odd__tags"]["parameters"] == empty | {
            "properties": {"tags": tags},
            "required": ["tags"],
        }
        assert told["mcp__odd__page"]["parameters"]["$defs"] == {
            "P": {"type": "string"}
        }
        assert all(
            told[f"mcp__odd__{name}"]["parameters"] == empty for name in names[2:]
        )
        assert len(told["mcp__odd__long"]["description"]) == DESCRIPTION_LIMIT
        assert (
            "left out, because they can only run as tasks, which this agent does not support: later."
            in it.agent.text()
        )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"x": None}},
        {"type": "string"},
        {"type": ["object", "null"], "properties": {"x": {"type": "string"}}},
        {"type": None, "properties": {"x": 5, "y": ["z"]}},
    ],
)
async def test_a_tool_with_an_invalid_schema_keeps_no_other_tool_away(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    odd = {"name": "odd", "inputSchema": schema}
    server = mcp_program(tmp_path, "two", tools=[odd, tool("look")])
    async with stage(tmp_path, Reply("Hi."), mcp=[server.entry]) as it:
        await ready(it, "two")
        await it.prompt()
        names = {each["name"] for each in it.server.calls[0].body["tools"]}
        assert {"mcp__two__look", "mcp__two__odd"} <= names


async def test_a_tool_with_a_schema_of_any_depth_keeps_no_other_tool_away(
    tmp_path: Path,
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"type": "object", "properties": {"a": deep}}
    server = mcp_program(
        tmp_path, "deep", tools=[{"name": "deep", "inputSchema": deep}, tool("look")]
    )
    async with stage(tmp_path, Reply("Hi."), mcp=[server.entry]) as it:
        await ready(it, "deep")
        await it.prompt()
        names = {each["name"] for each in it.server.calls[0].body["tools"]}
        assert {"mcp__deep__look", "mcp__deep__deep"} <= names
