"""A tool that the provider refuses: however the error names it, the session continues
without it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acp_agent.conversation.messages import ToolDefinition
from acp_agent.llm.errors import CallFailed, read_error
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.refused_tools import refused_tools
from support.lines import AgentError
from support.mcp import mcp_program, ready, says, tool
from support.memory import stage
from support.models import DialectName
from support.replies import Reply, ToolCall

NAMES = ("read", "list", "mcp__a__one", "mcp__a__two")
TOOLS = tuple(ToolDefinition(name, "", {"type": "object"}) for name in NAMES)
IN_CONTEXT = "In context=('properties', 'x'), array schema missing items."
GOOGLE = "GenerateContentRequest.tools[0].function_declarations"
ERRORS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "OpenAI": (
        {
            "error": {
                "message": f"Invalid schema for function 'mcp__a__one': {IN_CONTEXT}",
                "param": "tools[2].function",
            }
        },
        ("mcp__a__one",),
    ),
    "OpenAI, by the place alone": (
        {"error": {"message": "Invalid schema", "param": "tools[3].parameters"}},
        ("mcp__a__two",),
    ),
    "Anthropic": (
        {"error": {"message": "tools.2.custom.input_schema: JSON schema is invalid"}},
        ("mcp__a__one",),
    ),
    "Google": (
        {
            "error": {
                "message": f"* {GOOGLE}[2].parameters.properties[x].items: missing field.\n* {GOOGLE}[3].name: invalid"
            }
        },
        ("mcp__a__one", "mcp__a__two"),
    ),
    "Google, in other words": (
        {
            "error": {
                "message": "Invalid value at 'request.tools[3].functionDeclarations[0].parameters'"
            }
        },
        ("mcp__a__two",),
    ),
    "FastAPI": (
        {
            "detail": [
                {"loc": ["body", "tools", 2, "function"], "msg": "value is not valid"}
            ]
        },
        ("mcp__a__one",),
    ),
    "an arrow": ({"detail": "body -> tools -> 3 -> function: wrong"}, ("mcp__a__two",)),
    "a pointer": (
        {"message": "/tools/2/function/parameters/type must be equal to constant"},
        ("mcp__a__one",),
    ),
    "Python": (
        {"message": "request['tools'][2]['function'] is invalid"},
        ("mcp__a__one",),
    ),
    "a built-in tool": ({"message": 'Invalid tool "read": no schema'}, ("read",)),
    "a word": ({"message": "You cannot read this with a tool"}, ()),
    "a longer name": ({"message": "the tool mcp__a__one_more is unknown"}, ()),
    "a number that is no place": ({"message": "at most 3 tools. 2 are too many"}, ()),
    "a place that is not there": ({"message": "tools.30: wrong"}, ()),
    "a message": ({"message": "messages.2.content.0.tools.3: wrong"}, ()),
    "calls": ({"message": "messages[2].tool_calls[3].function: wrong"}, ()),
    "what the agent adds": (
        {"message": "tools.3.defer_loading: Extra inputs are not permitted"},
        (),
    ),
}


@pytest.mark.parametrize("what", ERRORS)
@pytest.mark.parametrize("nested", [False, True], ids=["Responses", "Chat Completions"])
def test_an_error_names_a_tool_by_its_name_or_by_its_place(
    what: str, nested: bool
) -> None:
    answer, names = ERRORS[what]
    body: Any = {
        "tools": [
            {"function": {"name": name}} if nested else {"name": name} for name in NAMES
        ]
    }
    message = read_error(json.dumps(answer))[0]
    failure = CallFailed("status", message, status=400, body=json.dumps(answer))
    request = ModelRequest("m", "", (), TOOLS)
    assert refused_tools(failure, body, [tool.name for tool in request.tools]) == names


def refusal(names: list[str], dialect: DialectName) -> Any:
    """Return the error of a server that refuses the first tool with `bad` in its name,
    or None if there is none.
    """
    at = next((number for number, name in enumerate(names) if "bad" in name), None)
    if at is None:
        return None
    if dialect == "anthropic":
        message = f"tools.{at}.custom.input_schema: JSON schema is invalid."
        return {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": message},
        }
    if dialect == "google":
        place = f"tools[0].function_declarations[{at}].parameters.properties[x].items"
        return [
            {
                "error": {
                    "code": 400,
                    "message": f"* GenerateContentRequest.{place}: missing field.\n",
                }
            }
        ]
    return {
        "error": {
            "message": f"Invalid schema for function '{names[at]}'",
            "code": "invalid_function_parameters",
        }
    }


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "google"])
async def test_a_refused_tool_is_left_out_in_that_session_and_after_a_restart(
    tmp_path: Path, dialect: DialectName
) -> None:
    server = mcp_program(
        tmp_path,
        "s",
        tools=[tool("bad"), tool("good"), tool("bad2")],
        results={"good": says("Done.")},
    )

    def names(body: Any) -> list[str]:
        return [
            each.get("name") or each["function"]["name"]
            for each in body.get("tools", ())
        ]

    def script(body: Any) -> Reply:
        if refused := refusal(names(body), dialect):
            return Reply(http_status=400, body=refused)
        return (
            Reply("Hi.")
            if "Done." in json.dumps(body)
            else Reply(tool_calls=[ToolCall("mcp__s__good")])
        )

    async with stage(
        tmp_path,
        script=script,
        dialect=dialect,
        config={},
        mcp=[server.entry],
        mode="full-access",
    ) as it:
        await ready(it, "s")
        assert await it.prompt() == {"stopReason": "end_turn"}
        calls = it.server.calls
        assert [sum("bad" in name for name in names(call.body)) for call in calls] == [
            2,
            1,
            0,
            0,
        ]
        assert "Done." in json.dumps(calls[3].body)
        assert (
            "refused 2 tools. The session continues without: mcp__s__bad, mcp__s__bad2."
            in it.agent.text()
        )
        await it.agent.request("session/close", {"sessionId": it.session})
        await it.agent.load(it.session, it.folder, mcpServers=[server.entry])
        await server.noted("tools/list", times=2)
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert len(calls) == 5
        assert names(calls[4].body)[-1] == "mcp__s__good"
        assert not any("bad" in name for name in names(calls[4].body))
        # Another session has to learn it again.
        other = await it.agent.new_session(it.folder, mcpServers=[server.entry])
        await server.noted("tools/list", times=3)
        await it.agent.prompt(other, "Hi")
        assert len(calls) > 6


async def test_a_tool_that_an_error_only_mentions_is_kept(tmp_path: Path) -> None:
    server = mcp_program(tmp_path, "s", tools=[tool("good")])
    refused = Reply(
        http_status=400,
        body={
            "error": {
                "message": "The function mcp__s__good was called in a bad message."
            }
        },
    )
    async with stage(
        tmp_path, refused, refused, Reply("Hi."), mcp=[server.entry]
    ) as it:
        await ready(it, "s")
        with pytest.raises(AgentError, match="in a bad message"):
            await it.prompt()
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "mcp__s__good" in json.dumps(it.server.calls[2].body["tools"])


async def test_a_provider_that_refuses_tools_as_such_is_not_asked_for_each_of_them(
    tmp_path: Path,
) -> None:
    def script(body: Any) -> Reply:
        return Reply(
            http_status=400, body={"error": {"message": "tools[0].type: unknown kind"}}
        )

    async with stage(tmp_path, script=script) as it:
        for _ in range(2):
            with pytest.raises(AgentError, match="unknown kind"):
                await it.prompt()
        assert len(it.server.calls) == 6
        assert "The session continues without" not in it.agent.text()


async def test_descriptions_are_shortened_for_a_provider_that_finds_them_too_long(
    tmp_path: Path,
) -> None:
    server = mcp_program(
        tmp_path, "s", tools=[{**tool("talk"), "description": "d" * 3000}]
    )

    def script(body: Any) -> Reply:
        lengths = [len(each["description"]) for each in body["tools"]]
        at = next(
            (number for number, length in enumerate(lengths) if length > 1024), None
        )
        if at is None:
            return Reply("Hi.")
        message = (
            f"Invalid 'tools[{at}].function.description': string too long. Expected a string with maximum length 1024, "
            f"but got a string with length {lengths[at]} instead."
        )
        return Reply(
            http_status=400,
            body={"error": {"message": message, "code": "string_above_max_length"}},
        )

    async with stage(tmp_path, script=script, mcp=[server.entry]) as it:
        await ready(it, "s")
        for _ in range(2):
            assert await it.prompt() == {"stopReason": "end_turn"}
        assert len(it.server.calls) == 3
        told = it.server.calls[2].body["tools"][-1]
        assert (told["name"], len(told["description"])) == ("mcp__s__talk", 1024)
