"""MCP servers that are dead, missing or slow, and the end of all: a session works on, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from acp_agent.config.settings import McpServer
from acp_agent.session.mcp import MAX_TOOLS, PATIENCE_SECONDS
from acp_agent.tools.mcp import READ_SECONDS
from acp_agent.tools.mcp_server import START_SECONDS, Place, SessionServer
from support.checkout import REPOSITORY
from support.editors import ZED, ZED_BETA, Editor
from support.mcp import logged, mcp_program, ready, says, tool
from support.processes import Process, descendants, outlive
from support.replies import Reply, ToolCall
from support.stage import Stage, results, stage

READS = {"annotations": {"readOnlyHint": True}}


def running(it: Stage) -> set[Process]:
    return {
        process
        for process in descendants(it.agent.pid)
        if "mcp_script" in process.command or "sleep" in process.command
    }


@pytest.mark.parametrize("editor", [ZED, ZED_BETA], ids=["without notices", "with notices"])
async def test_a_dead_and_a_missing_server_are_told_of_and_the_others_work(tmp_path: Path, editor: Editor) -> None:
    dead = mcp_program(tmp_path, "dead", exit=7, stderr="no licence for sesame-street\n")
    dead_entry = {**dead.entry, "env": [{"name": "DOOR", "value": "sesame-street"}]}
    missing = {"name": "missing", "command": "/no/such/program", "args": [], "env": []}
    refused = {
        "type": "http",
        "name": "nobody",
        "url": "http://127.0.0.1:9/mcp?key=a-secret-key",
        "headers": [{"name": "X-Key", "value": "another-secret"}],
    }
    good = mcp_program(tmp_path, "good", tools=[tool("help")], results={"help": says("Helped.")})
    replies = (Reply(tool_calls=[ToolCall("mcp__good__help")]), Reply("Done."), Reply("Again."))
    servers = [dead_entry, missing, refused, good.entry]
    async with stage(tmp_path, *replies, editor=editor, mcp=servers, mode="full-access") as it:
        await ready(it, "good")
        for name in ("dead", "missing", "nobody"):
            await logged(it, f"MCP server {name} could not be started")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [result.text for result in results(it.server.calls[1].body)] == ["Helped."]
        notices = json.dumps(it.agent.updates(kind="notice"))
        told = it.agent.text() if editor is ZED else notices
        assert "'dead' could not be started: it ended with status 7 and said: no licence for ***" in told
        assert "'missing' could not be started: there is no program" in told
        assert "'nobody' could not be started: nothing answers" in told
        assert (notices == "[]") is (editor is ZED)
        log = (it.home / "state" / "logs" / "acp-agent.log").read_text()
        assert all(name in log for name in ("dead", "missing", "nobody"))
        assert not any(secret in log + told for secret in ("sesame", "a-secret-key", "another-secret"))
        # They are tried again with each prompt, but nobody wants to hear the same twice.
        heard = len(it.agent.lines)
        await it.prompt()
        assert "could not be started" not in it.agent.text(since=heard)


async def test_the_tools_of_a_slow_server_come_when_it_is_ready(tmp_path: Path) -> None:
    slow = mcp_program(tmp_path, "slow", tools=[tool("late")], results={}, slow=True)
    async with stage(tmp_path, Reply("One."), Reply("Two."), mcp=[slow.entry]) as it:
        await it.prompt("/help")
        handle = await it.agent.start_prompt(it.session, "Cancelled while it waits for the server")
        for _ in range(10):
            await it.agent.request("session/list", {})
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}
        assert "is not ready yet" not in it.agent.text()
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "'slow' is not ready yet" in it.agent.text()
        await logged(it, "MCP server slow is not ready yet")
        assert "mcp__slow__late" not in json.dumps(it.server.calls[0].body["tools"])
        await slow.go()
        await ready(it, "slow")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "mcp__slow__late" in json.dumps(it.server.calls[1].body["tools"])


async def test_a_server_gets_its_own_variables_and_no_key_and_ends_with_its_session(tmp_path: Path) -> None:
    server = mcp_program(tmp_path, "kept", tools=[tool("one")], results={}, child=True, stubborn=True)
    async with stage(tmp_path, Reply("Hi."), Reply("Hi."), mcp=[server.entry]) as it:
        await ready(it, "kept")
        [start] = [note for note in server.notes() if "started" in note]
        assert start["env"]["MCP_MARK"] == "its-own-value"
        assert start["cwd"] == str(it.folder)
        assert "PATH" in start["env"]
        assert not any("KEY" in name or "AGENT" in name for name in start["env"])
        first = running(it)
        assert len(first) == 2
        await it.agent.request("session/close", {"sessionId": it.session})
        assert not await outlive(first, seconds=2)
        # Opened again, by whatever way, a session has the servers that come with that.
        await it.agent.load(it.session, it.folder, mcpServers=[server.entry])
        await server.noted("tools/list", times=2)
        second = running(it)
        await it.agent.resume(it.session, it.folder, mcpServers=[server.entry])
        assert not await outlive(second, seconds=2)
        await server.noted("tools/list", times=3)
        third = running(it)
        assert len(third) == 2
        await it.agent.close_stdin()
        assert await it.agent.wait_exit() == 0
        assert not await outlive(third, seconds=1)


async def test_a_call_that_is_never_answered_ends_with_the_turn(tmp_path: Path) -> None:
    server = mcp_program(
        tmp_path, "deaf", tools=[tool("hang"), tool("work")], results={"hang": {"hang": True}, "work": says("Worked.")}
    )
    replies = (
        Reply(tool_calls=[ToolCall("mcp__deaf__hang")]),
        Reply(tool_calls=[ToolCall("mcp__deaf__work")]),
        Reply("Done."),
    )
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "deaf")
        pending = await it.agent.start_prompt(it.session, "Go")
        await server.noted("tools/call")
        await it.agent.cancel(it.session)
        assert await pending.result(20) == {"stopReason": "cancelled"}
        await server.noted("notifications/cancelled")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [result.text for result in results(it.server.calls[2].body)] == ["Worked."]
        assert len(server.pids()) == 1


async def test_servers_of_the_configuration_run_in_every_session_with_values_of_variables(tmp_path: Path) -> None:
    own = mcp_program(tmp_path, "own", tools=[tool("mine")], results={"mine": {"hang": True}})
    both = mcp_program(tmp_path, "both", tools=[tool("of_the_configuration")], results={})
    editors = mcp_program(tmp_path / "..", "both", tools=[tool("of_the_editor")], results={})
    configured = {
        "own": {**own.configured, "env": {"TOKEN_OF_MINE": "x-${MY_TOKEN}-x"}, "timeout": 0.5},
        "both": both.configured,
        "unset": {"command": sys.executable, "env": {"A": "${NO_SUCH_VARIABLE}"}},
    }
    replies = (Reply(tool_calls=[ToolCall("mcp__own__mine")]), Reply("Done."))
    async with stage(
        tmp_path,
        *replies,
        config={"mcp_servers": configured},
        env={"MY_TOKEN": "open-sesame"},
        mcp=[editors.entry],
        mode="full-access",
    ) as it:
        await ready(it, "own")
        await ready(it, "both")
        await logged(it, "MCP server unset could not be started")
        assert await it.prompt() == {"stopReason": "end_turn"}
        names = [each["name"] for each in it.server.calls[0].body["tools"]][-2:]
        assert names == ["mcp__both__of_the_editor", "mcp__own__mine"]
        [result] = results(it.server.calls[1].body)
        assert "did not answer within 0.5 seconds" in result.text
        [start] = [note for note in own.notes() if "started" in note]
        assert start["env"]["TOKEN_OF_MINE"] == "x-open-sesame-x"
        assert not both.pids()
        assert "NO_SUCH_VARIABLE, which is not set" in it.agent.text()


@pytest.mark.parametrize("said", ["Odd \\ud83d", "Odd \t\\ud83d", "Odd \udce2"], ids=["half", "raw tab", "no UTF-8"])
async def test_half_a_character_in_an_answer_costs_that_character(tmp_path: Path, said: str) -> None:
    line = f'{{"result":{{"content":[{{"type":"text","text":"{said}!"}}]}},"jsonrpc":"2.0","id":ID}}'
    server = mcp_program(tmp_path, "odd", tools=[tool("say", **READS)], results={"say": {"line": line}})
    replies = Reply(tool_calls=[ToolCall("mcp__odd__say")]), Reply("Done.")
    async with stage(tmp_path, *replies, mcp=[server.entry]) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.text.split() == ["Odd", "\ufffd!"]


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":ID,"result":{"content":[',
        '{"result":{"content":[\\x],"structuredContent":{"id":77}},"jsonrpc":"2.0","id":ID}',
        '{"result":5,"id":ID,"jsonrpc":"2.0"}',
    ],
)
async def test_an_answer_that_cannot_be_understood_fails_its_call_at_once(tmp_path: Path, line: str) -> None:
    server = mcp_program(tmp_path, "odd", tools=[tool("say", **READS)], results={"say": {"line": line}})
    replies = Reply(tool_calls=[ToolCall("mcp__odd__say")]), Reply("Done.")
    async with stage(tmp_path, *replies, mcp=[server.entry]) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.text == (
            "The MCP server 'odd' has not answered this call: what it answered is not what the protocol says."
        )
        await logged(it, "an MCP server has answered with what is not JSON-RPC")
        assert len(server.pids()) == 1


async def test_what_a_server_prints_by_mistake_is_passed_over(tmp_path: Path) -> None:
    prints = ["Hello, I am a server.", "{}", "[]", "null", '{"jsonrpc":"2.0","id":[1],"result":{}}', '{"id":', "\x01"]
    server = mcp_program(tmp_path, "chatty", prints=prints, tools=[tool("say", **READS)], results={"say": says("Yes.")})
    replies = Reply(tool_calls=[ToolCall("mcp__chatty__say")]), Reply("Done.")
    async with stage(tmp_path, *replies, mcp=[server.entry]) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [result.text for result in results(it.server.calls[1].body)] == ["Yes."]


async def test_a_line_that_is_longer_than_any_message_ends_the_server_and_says_so(tmp_path: Path) -> None:
    line = {"filled": 65 << 20, "line": '{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}'}
    server = mcp_program(tmp_path, "wordy", tools=[tool("say", **READS)], results={"say": line})
    replies = Reply(tool_calls=[ToolCall("mcp__wordy__say")]), Reply("Done.")
    async with stage(tmp_path, *replies, mcp=[server.entry]) as it:
        assert await it.prompt(timeout=40) == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert "it wrote a line of more than 64 MiB" in result.text


async def test_a_server_that_never_says_what_it_offers_is_given_up(tmp_path: Path) -> None:
    entry = mcp_program(tmp_path, "mute", mute=True)
    command, *args = entry.configured["command"], *entry.configured["args"]
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    place = Place((tmp_path,), os.environ, start_seconds=0.5)
    server = SessionServer(McpServer("mute", "stdio", command, tuple(args)), "mute", place, tell, lambda: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        with anyio.fail_after(20):
            await server.settled()
        assert server.reason == "it has not said within 0.5 seconds what it offers"
        server.close()
    assert "'mute' could not be started: it has not said within 0.5 seconds" in told[0]


async def test_no_more_tools_are_sent_than_a_request_may_hold(tmp_path: Path) -> None:
    server = mcp_program(tmp_path, "many", tools=[tool(f"tool{number}") for number in range(MAX_TOOLS)], results={})
    async with stage(tmp_path, Reply("Yes."), Reply("Again."), mcp=[server.entry], editor=ZED_BETA) as it:
        await ready(it, "many")
        await it.prompt()
        await it.prompt()
        for call in it.server.calls:
            names = [each["name"] for each in call.body["tools"]]
            assert len(names) == MAX_TOOLS
            assert "read" in names
        [notice] = it.agent.updates(kind="notice")
        assert f"have {MAX_TOOLS} tools, of which the model is told of the first" in notice["title"]


def test_the_page_says_how_long_a_server_may_take() -> None:
    page = " ".join((REPOSITORY / "docs" / "mcp.md").read_text("utf-8").split())
    assert f"The first prompt waits up to {PATIENCE_SECONDS:g} seconds" in page
    assert f"a server has {START_SECONDS:g} seconds to say what it offers" in page
    assert f"a prompt or a resource of a server may take {READ_SECONDS:g} seconds" in page
    assert f"{MAX_TOOLS} tools" in page
