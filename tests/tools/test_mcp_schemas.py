"""Schemas of MCP tools as every provider takes them: one that is refused would fail every request of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from acp_agent.conversation.messages import JsonObject
from acp_agent.tools.mcp_elicitation import Calling
from acp_agent.tools.mcp_offer import Answer, OfferedTool
from acp_agent.tools.mcp_tools import DESCRIPTION_LIMIT, input_schema, tools_of


class Server:
    name = "server"
    identity = "0"

    async def call(
        self, tool: str, arguments: JsonObject, report: Callable[[str], Awaitable[None]], calling: Calling
    ) -> Answer:
        raise AssertionError("nobody calls it")


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"anyOf": []}}, "anyOf": [{}]},
            {"type": "object", "properties": {"a": {"anyOf": []}}},
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"], "$defs": {"A": {}}},
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"], "$defs": {"A": {}}},
        ),
    ],
)
def test_a_schema_is_an_object_without_alternatives_at_the_top(given: Any, taken: Any) -> None:
    assert input_schema(given) == taken


def test_a_tool_with_a_property_that_providers_refuse_is_left_out_and_one_listed_twice_is_there_once() -> None:
    good = OfferedTool("good", "", "x" * 2 * DESCRIPTION_LIMIT, {"properties": {"a-b.c": {}}})
    bad = OfferedTool("bad", "", "", {"properties": {"two words": {}}})
    tools = tools_of(Server(), "server", (good, bad, OfferedTool("good", "", "another", {})))
    assert [tool.name for tool in tools] == ["mcp__server__good"]
    assert len(tools[0].description) == DESCRIPTION_LIMIT
