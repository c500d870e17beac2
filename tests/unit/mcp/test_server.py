"""One server, from its start to its end, without a session around it."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from acp_agent.mcp import server as module
from support.mcp import mcp_program, says, tool
from support.mcp_running import Running


async def test_a_server_that_crashes_is_started_again_and_one_that_refuses_a_call_is_not(
    tmp_path: Path,
) -> None:
    results = {
        "crash": {"exit": 3},
        "buy": {"error": {"code": -32000, "message": "rate limited"}},
        "work": says("Worked."),
    }
    program = mcp_program(
        tmp_path, "shaky", tools=[tool(name) for name in results], results=results
    )
    running = Running(program, tmp_path)
    async with running.run() as server:
        tools = server.tools
        lost = await running.call("crash")
        assert (
            "'shaky' exited during this call, which may or may not have run: it ended with status 3"
            in lost
        )
        assert await running.call("work") == ["Worked."]
        assert (
            await running.call("buy")
            == "The MCP server 'shaky' did not answer this call: rate limited."
        )
        assert await running.call("work") == ["Worked."]
        assert server.tools is tools
    assert len(program.pids()) == 2
    assert not running.told


async def test_a_server_that_keeps_crashing_is_given_up_and_started_again_when_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTART_DELAYS", (0.0, 0.0, 0.0))
    results = {"crash": {"exit": 1}, "work": says("Worked.")}
    program = mcp_program(
        tmp_path,
        "dying",
        tools=[tool(name) for name in results],
        results=results,
        fails_again=3,
    )
    running = Running(program, tmp_path)
    async with running.run() as server:
        await running.call("crash")
        assert await running.call("work") == (
            "The MCP server 'dying' did not answer this call: it is not running: it ended with status 1."
        )
        assert [text.partition(":")[0] for text in running.told] == [
            "The MCP server 'dying' keeps exiting"
        ]
        server.revive()
        while server.state == "failed":
            await anyio.lowlevel.checkpoint()
        assert await running.call("work") == ["Worked."]
    assert len(program.pids()) == 5


async def test_a_server_that_knows_no_handshake_is_spoken_to_as_it_wants(
    tmp_path: Path,
) -> None:
    results = {"work": says("Worked.", resultType="complete")}
    running = Running(
        mcp_program(
            tmp_path, "new", tools=[tool("work")], results=results, modern=True
        ),
        tmp_path,
    )
    async with running.run():
        assert await running.call("work") == ["Worked."]


NAMES = tool(
    "names",
    inputSchema={"type": "object", "properties": {"two words": {"type": "string"}}},
)


async def test_what_nobody_could_use_of_an_offer_is_left_out_by_its_name_and_the_rest_is_there(
    tmp_path: Path,
) -> None:
    program = mcp_program(
        tmp_path,
        "garden",
        tools=[tool("first"), NAMES, tool("last")],
        prompts=[{"name": "good"}],
        resources=[],
        refuses=["resources/list"],
    )
    running = Running(program, tmp_path)
    async with running.run() as server:
        assert [each.name for each in server.tools] == [
            "mcp__garden__first",
            "mcp__garden__last",
        ]
        assert [each.name for each in server.offer.prompts] == ["good"]
        [told] = running.told
        assert told.endswith("the names of their arguments: names.")


async def test_a_list_that_changes_while_it_is_listed_is_listed_again(
    tmp_path: Path,
) -> None:
    leaf = tool("leaf")
    twig = tool("twig")
    root = tool("root")
    changes = [{"tools": [leaf, twig]}, {"tools": [leaf, twig, root]}]
    program = mcp_program(tmp_path, "tree", tools=[leaf], while_listed=changes)
    running = Running(program, tmp_path)
    async with running.run():
        await running.until("leaf", "twig", "root")
    assert sum(note.get("got") == "tools/list" for note in program.notes()) == 3


async def test_a_server_that_never_says_what_it_offers_is_given_up(
    tmp_path: Path,
) -> None:
    running = Running(mcp_program(tmp_path, "mute", mute=True), tmp_path, 0.5)
    async with running.run() as server:
        assert server.reason == "it did not list what it offers within 0.5 seconds"
    assert (
        "'mute' could not be started: it did not list what it offers within 0.5"
        in running.told[0]
    )


@pytest.mark.parametrize(
    "said", ["Odd \\ud83d", "Odd \udce2"], ids=["half", "no UTF-8"]
)
async def test_what_a_server_prints_by_mistake_is_passed_over_and_half_a_character_costs_that_character(
    tmp_path: Path, said: str
) -> None:
    line = f'{{"result":{{"content":[{{"type":"text","text":"{said}!"}}]}},"jsonrpc":"2.0","id":ID}}'
    prints = [
        "Hello, I am a server.",
        "{}",
        "[]",
        "null",
        '{"jsonrpc":"2.0","id":[1],"result":{}}',
        '{"id":',
        "\x01",
    ]
    program = mcp_program(
        tmp_path,
        "odd",
        prints=prints,
        tools=[tool("say")],
        results={"say": {"line": line}},
    )
    running = Running(program, tmp_path)
    async with running.run():
        [text] = await running.call("say")
        assert text.split() == ["Odd", "\ufffd!"]
