"""Names of what MCP servers offer: legal everywhere, different from each other, and
always the same.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError
from acp_agent.mcp.model import identity, secrets, with_values
from acp_agent.mcp.tools import command_part, server_names, tool_names

ODD = st.one_of(st.text(max_size=90), st.from_regex(r"[a-z_.-]{0,12}", fullmatch=True))


@given(st.lists(ODD, max_size=6))
def test_servers_are_told_apart_whatever_they_are_called(names: list[str]) -> None:
    shorts = server_names(names)
    assert len(shorts) == len(names)
    assert len({short.lower() for short in shorts}) == len(names)
    # Two underscores would let a server's tool look like another server's.
    assert all(
        re.fullmatch(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*", short) and len(short) <= 24
        for short in shorts
    )
    assert server_names(names[:1])[:1] == shorts[:1]


@given(st.lists(ODD, max_size=8), st.randoms())
def test_tools_are_told_apart_and_their_order_changes_no_name(
    tools: list[str], random: object
) -> None:
    names = tool_names("server", tools)
    assert set(names) == set(tools)
    assert len(set(names.values())) == len(names)
    assert all(
        re.fullmatch(r"mcp__server__[A-Za-z0-9_-]+", name) and len(name) <= 64
        for name in names.values()
    )
    assert tool_names("server", sorted(tools)) == names


@given(ODD)
def test_a_prompts_part_of_a_slash_command_is_one(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", command_part(name))


def test_a_server_has_other_digits_than_each_other_one() -> None:
    servers = [
        McpServer("s", "stdio", command="run"),
        McpServer("s", "stdio", command="run", args=("a",)),
        McpServer("s", "stdio", command="run", args=("a", "b")),
        McpServer("s", "stdio", command="run", env={"A": "b"}),
        McpServer("s", "http", url="https://a.example/mcp"),
        McpServer("s", "http", url="https://b.example/mcp"),
        McpServer("s", "acp", server_id="1"),
        McpServer("s", "acp", server_id="2"),
        McpServer("t", "acp", server_id="1"),
    ]
    assert len({identity(server) for server in servers}) == len(servers)
    login = replace(
        servers[4], name="t", headers={"Authorization": "Bearer new"}, timeout=1.0
    )
    assert identity(login) == identity(servers[4])


def test_an_entry_gets_the_values_of_the_variables_that_it_names_and_none_of_them_is_shown() -> (
    None
):
    server = McpServer(
        "s",
        "http",
        url="https://x",
        headers={"Authorization": "Bearer ${TOKEN}"},
        variables=True,
    )
    assert with_values(server, {"TOKEN": "open-sesame"}).headers == {
        "Authorization": "Bearer open-sesame"
    }
    assert secrets(server, {"TOKEN": "open-sesame"}) == ["Bearer open-sesame"]
    with pytest.raises(ToolError, match="TOKEN, which is not set"):
        with_values(server, {})
