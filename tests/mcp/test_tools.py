"""Tools of MCP servers in whole turns: what the model is told of them, who is asked, what it reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.editors import ZED_BETA
from support.mcp import logged, mcp_program, ready, says, tool
from support.pictures import BROKEN
from support.replies import Reply, ToolCall
from support.stage import Stage, results, stage
from support.terminal import run_command

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
READS = {"annotations": {"readOnlyHint": True, "title": "Look around"}}
BUILT_IN = ["read", "write", "edit", "list", "glob", "grep", "shell", "plan", "recall", "ask_user"]


def told(it: Stage, call: int) -> list[str]:
    """Names of the tools in a request."""
    return [each["name"] for each in it.server.calls[call].body["tools"]]


def asked(it: Stage) -> list[str]:
    return [params["toolCall"]["title"] for params in it.agent.desk.permissions]


async def test_always_covers_a_tool_of_that_very_server_whatever_others_are_called(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in "123")
    for folder in (first, second, third):
        folder.mkdir()
    mine, other, third_one = (mcp_program(folder, "s", tools=[tool("put")]) for folder in (first, second, third))
    changed = {**mine.entry, "env": []}
    called: list[str] = []

    def script(body: Any) -> Reply:
        names = [each["name"] for each in body["tools"] if each["name"].startswith("mcp__s")]
        if body["input"][-1].get("type") == "function_call_output":
            return Reply("Done.")
        called.extend(names)
        return Reply(tool_calls=[ToolCall(name) for name in names])

    async def asked_with(it: Stage, *entries: dict[str, Any]) -> int:
        before = len(asked(it))
        session = await it.agent.new_session(it.folder, mcpServers=list(entries))
        assert await it.agent.prompt(session, "Put them", 60) == {"stopReason": "end_turn"}
        return len(asked(it)) - before

    async with stage(tmp_path, script=script) as it:
        it.agent.permission_answer = "allow_always"
        assert await asked_with(it, mine.entry) == 1
        assert await asked_with(it, mine.entry) == 0
        it.agent.permission_answer = "allow_once"
        assert await asked_with(it, other.entry) == 1
        assert await asked_with(it, changed) == 1
        it.agent.permission_answer = "allow_always"
        assert await asked_with(it, mine.entry, other.entry) == 1  # the other is now called s-2
        it.agent.permission_answer = "allow_once"
        assert await asked_with(it, other.entry, third_one.entry) == 2
        assert called[-2:] == ["mcp__s__put", "mcp__s-2__put"]
        listed = await run_command(it.home, "permissions")
        assert re.search(r"mcp__s__put \([0-9a-f]{12}\)\n", listed.out)


async def test_what_a_server_changes_is_asked_for_and_what_it_only_reads_is_not(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "oneOf": [{"required": ["what"]}]}
    structured = {"stones": [1, 2]}
    server = mcp_program(
        tmp_path,
        "garden",
        tools=[tool("put", inputSchema=schema), tool("look", **READS)],
        results={
            "put": says("It is put.", structuredContent=structured) | {"progress": "carrying"},
            "look": {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]},
        },
    )
    put, look = ToolCall("mcp__garden__put", {"what": "a stone"}), ToolCall("mcp__garden__look")
    replies = (Reply(tool_calls=[put, look]), Reply("Done."), Reply(tool_calls=[put]), Reply("No."))
    async with stage(tmp_path, *replies, mcp=[server.entry]) as it:
        await ready(it, "garden")
        it.agent.permission_answer = "allow_always"
        assert await it.prompt() == {"stopReason": "end_turn"}
        definitions = it.server.calls[0].body["tools"]
        assert [each["name"] for each in definitions] == [*BUILT_IN, "mcp__garden__put", "mcp__garden__look"]
        # What providers refuse at the top of a schema would fail every request of the session.
        assert definitions[-2]["parameters"] == {"type": "object", "properties": {"what": {"type": "string"}}}
        assert asked(it) == ["put (garden)"]
        first, second = it.server.calls[1].body["input"][-2:]
        assert first["output"] == 'It is put.\n{"stones": [1, 2]}'
        assert [block["type"] for block in second["output"]] == ["input_image"]
        assert PNG in second["output"][0]["image_url"]
        shown = it.calls()
        assert [(call["title"], call["kind"], call["status"]) for call in shown] == [
            ("put (garden)", "other", "completed"),
            ("Look around (garden)", "read", "completed"),
        ]
        assert shown[1]["content"] == [
            {"type": "content", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}}
        ]
        assert "carrying" in json.dumps(it.agent.updates(kind="tool_call_update"))
        # "Always" covers this tool, and plan mode covers nothing that changes anything.
        await it.agent.set_mode(it.session, "plan")
        assert await it.prompt() == {"stopReason": "end_turn"}
        [refused] = results(it.server.calls[3].body)
        assert "plan mode" in refused.text
        assert len(asked(it)) == 1
        assert server.calls() == [{"name": "put", "arguments": {"what": "a stone"}}, {"name": "look", "arguments": {}}]


async def test_names_that_clash_or_that_no_provider_takes_are_told_apart(tmp_path: Path) -> None:
    first = mcp_program(tmp_path, "my server", tools=[tool("find.it"), tool("find_it"), tool("x" * 80)], results={})
    second = mcp_program(tmp_path, "my/server", tools=[tool("find_it")], results={"find_it": says("The second.")})
    call = ToolCall("mcp__my_server-2__find_it")
    async with stage(
        tmp_path, Reply(tool_calls=[call]), Reply("Done."), mcp=[first.entry, second.entry], mode="full-access"
    ) as it:
        await ready(it, "my server")
        await ready(it, "my/server")
        assert await it.prompt() == {"stopReason": "end_turn"}
        names = told(it, 0)[len(BUILT_IN) :]
        assert len(names) == len(set(names)) == 4
        assert names[1] == "mcp__my_server__find_it"
        assert names[0].startswith("mcp__my_server__find_it_")
        assert all(len(name) <= 64 for name in names)
        assert [result.text for result in results(it.server.calls[1].body)] == ["The second."]
        assert second.calls()
        assert not first.calls()


async def test_a_changed_list_is_taken_over_with_the_next_turn_and_not_before(tmp_path: Path) -> None:
    later: dict[str, Any] = {"tools": [tool("grow"), tool("new")]}
    server = mcp_program(
        tmp_path,
        "tree",
        tools=[tool("grow")],
        results={"grow": says("It grows.") | {"then": later}, "new": says("New.")},
    )
    replies = (Reply(tool_calls=[ToolCall("mcp__tree__grow")]), Reply("Grown."), Reply("I see."))
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "tree")
        await it.prompt()
        await server.noted("tools/list", times=2)
        assert told(it, 0) == told(it, 1) == [*BUILT_IN, "mcp__tree__grow"]
        await it.prompt()
        assert told(it, 2) == [*BUILT_IN, "mcp__tree__grow", "mcp__tree__new"]


async def test_a_server_that_crashes_is_started_again_and_the_list_of_tools_stays_as_it_was(tmp_path: Path) -> None:
    tools = [tool("crash"), tool("work")]
    server = mcp_program(tmp_path, "shaky", tools=tools, results={"crash": {"exit": 3}, "work": says("Worked.")})
    crash, work = ToolCall("mcp__shaky__crash"), ToolCall("mcp__shaky__work")
    replies = (Reply(tool_calls=[crash]), Reply(tool_calls=[work]), Reply("Done."))
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "shaky")
        assert await it.prompt() == {"stopReason": "end_turn"}
        [lost], [found] = results(it.server.calls[1].body), results(it.server.calls[2].body)
        assert "'shaky' ended during this call" in lost.text
        assert "status 3" in lost.text
        assert found.text == "Worked."
        assert len(server.pids()) == 2
        bodies = [json.dumps(call.body["tools"]) for call in it.server.calls]
        assert bodies[0] == bodies[1] == bodies[2]


async def test_a_server_that_refuses_a_call_is_heard_and_not_started_again_whatever_code_it_takes(
    tmp_path: Path,
) -> None:
    results_of = {"buy": {"error": {"code": -32000, "message": "rate limited"}}, "work": says("Worked.")}
    server = mcp_program(tmp_path, "shop", tools=[tool("buy"), tool("work")], results=results_of)
    replies = [Reply(tool_calls=[ToolCall(f"mcp__shop__{name}")]) for name in ("buy", "work")]
    async with stage(tmp_path, *replies, Reply("Done."), mcp=[server.entry], mode="full-access") as it:
        await ready(it, "shop")
        await it.prompt()
        [refused], [worked] = results(it.server.calls[1].body), results(it.server.calls[2].body)
        assert refused.text == "The MCP server 'shop' has not answered this call: rate limited."
        assert worked.text == "Worked."
        assert len(server.pids()) == 1


async def test_a_server_that_keeps_crashing_is_given_up_and_tried_again_with_each_prompt(tmp_path: Path) -> None:
    tools = [tool("crash"), tool("work")]
    results_of = {"crash": {"exit": 1}, "work": says("Worked.")}
    server = mcp_program(tmp_path, "dying", tools=tools, results=results_of, fails_again=4)
    crash, work = ToolCall("mcp__dying__crash"), ToolCall("mcp__dying__work")
    replies = [reply for call in (crash, work, work) for reply in (Reply(tool_calls=[call]), Reply("Done."))]
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "dying")
        await it.prompt()
        await logged(it, "dying has ended too often and is given up")
        heard = len(it.agent.lines)
        await it.prompt()
        assert it.agent.text(since=heard).count("'dying' has ended too often") == 1
        [result] = results(it.server.calls[3].body)
        assert "'dying' has not answered this call: it is not running: it ended with status 1" in result.text
        heard = len(it.agent.lines)
        await it.prompt()
        [result] = results(it.server.calls[5].body)
        assert result.text == "Worked."
        assert len(server.pids()) == 6
        assert "dying" not in it.agent.text(since=heard)
        assert told(it, 0) == told(it, 2) == told(it, 4)


async def test_a_server_that_knows_no_handshake_is_spoken_to_as_it_wants(tmp_path: Path) -> None:
    server = mcp_program(
        tmp_path, "new", tools=[tool("work")], results={"work": says("Worked.", resultType="complete")}, modern=True
    )
    replies = (Reply(tool_calls=[ToolCall("mcp__new__work")]), Reply("Done."))
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "new")
        await it.prompt()
        assert [result.text for result in results(it.server.calls[1].body)] == ["Worked."]


async def test_a_recipe_may_allow_a_server_or_one_of_its_tools(tmp_path: Path) -> None:
    one = mcp_program(tmp_path, "one", tools=[tool("a")], results={"a": says("One a.")})
    two = mcp_program(tmp_path, "two", tools=[tool("a"), tool("b")], results={"a": says("Two a."), "b": says("Two b.")})
    recipe = "---\ndescription: Try\nallowed_tools: [mcp__one, mcp__two__b]\n---\nTry them.\n"
    recipes = tmp_path / "home" / "state" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "try.md").write_text(recipe)
    calls = [
        ToolCall("mcp__one__a"),
        ToolCall("mcp__two__a"),
        ToolCall("mcp__two__b"),
        ToolCall("shell", {"command": "ls"}),
    ]
    replies = (Reply(tool_calls=calls), Reply("Done."))
    async with stage(tmp_path, *replies, mcp=[one.entry, two.entry], mode="full-access") as it:
        await ready(it, "one")
        await ready(it, "two")
        assert await it.prompt("/try") == {"stopReason": "end_turn"}
        texts = [result.text for result in results(it.server.calls[1].body)]
        assert texts[0] == "One a."
        assert "mcp__two__a may not run in this recipe" in texts[1]
        assert texts[2] == "Two b."
        assert "shell may not run in this recipe" in texts[3]


async def test_a_broken_image_of_a_tool_is_a_line_for_the_model_and_the_session_goes_on(tmp_path: Path) -> None:
    blocks = [{"type": "image", "data": data, "mimeType": kind} for data, kind in BROKEN.values()]
    blocks.insert(2, {"type": "image", "data": PNG, "mimeType": "image/png"})
    server = mcp_program(tmp_path, "garden", tools=[tool("look", **READS)], results={"look": {"content": blocks}})
    replies = Reply(tool_calls=[ToolCall("mcp__garden__look")]), Reply("I see one.")
    async with stage(tmp_path, *replies, dialect="anthropic", mcp=[server.entry]) as it:
        await ready(it, "garden")
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = it.server.calls[1].body["messages"][-1]["content"]
        lines = [block["text"] for block in result["content"] if block["type"] == "text"]
        assert [block["type"] for block in result["content"]].index("image") == 2
        assert len(lines) == len(BROKEN)
        assert all("left out: it" in line for line in lines)
        [shown] = it.calls()
        assert [block["content"]["type"] for block in shown["content"]].count("image") == 1


ODD: list[Any] = [
    {"name": "none"},
    {"name": "empty", "inputSchema": {}},
    {"name": "list", "inputSchema": {"type": ["object", "null"]}},
    tool("note", annotations={"readOnlyHint": "perhaps"}),
    tool("title", title=5),
    tool("out", outputSchema=[]),
    "words",
]


async def test_an_odd_tool_is_left_out_by_its_name_and_the_others_stay(tmp_path: Path) -> None:
    odd = [{"name": "good"}, {"title": "no name"}]
    server = mcp_program(tmp_path, "garden", tools=[tool("first"), *ODD, tool("last")], results={}, prompts=odd)
    async with stage(tmp_path, Reply("Done."), mcp=[server.entry], editor=ZED_BETA) as it:
        await ready(it, "garden")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert told(it, 0)[len(BUILT_IN) :] == ["mcp__garden__first", "mcp__garden__last"]
        commands = it.agent.updates(kind="available_commands_update")[-1]["availableCommands"]
        assert "mcp:garden:good" in [command["name"] for command in commands]
        notices = [notice["title"] for notice in it.agent.updates(kind="notice")]
        assert len(notices) == 2
        assert "its tools 'none', 'empty', 'list', 'note', 'title' and 2 more are left out" in notices[0]
        assert "its prompt 'number 2' is left out" in notices[1]
        assert "'note'" in await logged(it, "of the MCP server garden: its tools")


async def test_what_a_tool_answers_is_not_matched_with_its_servers_patterns(tmp_path: Path) -> None:
    # Python's `re` would be at it for years.
    schema = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    answer = says("Found.") | {"structuredContent": {"name": "a" * 60 + "!"}}
    server = mcp_program(tmp_path, "garden", tools=[tool("look", outputSchema=schema)], results={"look": answer})
    calls = [ToolCall("mcp__garden__look", {})]
    replies = [Reply(tool_calls=calls), Reply("Done.")]
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "garden")
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.text.startswith("Found.")
        assert "a" * 60 in result.text


async def test_a_tool_with_an_argument_that_no_provider_takes_is_left_out_by_its_name(tmp_path: Path) -> None:
    odd = tool("odd", inputSchema={"type": "object", "properties": {"two words": {"type": "string"}}})
    server = mcp_program(tmp_path, "garden", tools=[odd, tool("look")])
    async with stage(tmp_path, Reply("Done."), mcp=[server.entry], editor=ZED_BETA) as it:
        await ready(it, "garden")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert told(it, 0)[len(BUILT_IN) :] == ["mcp__garden__look"]
        [notice] = it.agent.updates(kind="notice")
        assert "its tool 'odd' is left out, because providers of models do not take the names of" in notice["title"]


@pytest.mark.parametrize("method", ["prompts/list", "resources/list"])
async def test_a_list_that_a_server_refuses_costs_that_list_alone(tmp_path: Path, method: str) -> None:
    server = mcp_program(tmp_path, "garden", tools=[tool("look")], prompts=[], resources=[], refuses=[method])
    async with stage(tmp_path, Reply("Done."), mcp=[server.entry], editor=ZED_BETA) as it:
        await ready(it, "garden")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert told(it, 0)[-1] == "mcp__garden__look"
        [notice] = it.agent.updates(kind="notice")
        assert f"its {method.partition('/')[0]} could not be listed: boom." in notice["title"]
