"""MCP servers that are dead, missing or slow, and the end of all: a session works on,
and leaves nothing behind.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from acp_agent.mcp.client import READ_SECONDS
from acp_agent.mcp.model import START_SECONDS
from acp_agent.session import mcp as module
from acp_agent.session.mcp import MAX_TOOLS, PATIENCE_SECONDS
from support.checkout import REPOSITORY
from support.editors import ZED, ZED_BETA, Editor
from support.mcp import logged, mcp_program, ready, says, tool
from support.memory import stage
from support.processes import Process, descendants, outlive
from support.replies import Reply, ToolCall
from support.stage import Stage, results


def running(it: Stage) -> set[Process]:
    return {
        process
        for process in descendants(it.agent.pid)
        if "mcp_script" in process.command or "sleep" in process.command
    }


@pytest.mark.parametrize(
    "editor", [ZED, ZED_BETA], ids=["without notices", "with notices"]
)
async def test_a_dead_and_a_missing_server_are_told_of_and_the_others_work(
    tmp_path: Path, editor: Editor
) -> None:
    dead = mcp_program(
        tmp_path, "dead", exit=7, stderr="no licence for sesame-street\n"
    )
    dead_entry = {**dead.entry, "env": [{"name": "DOOR", "value": "sesame-street"}]}
    missing = {"name": "missing", "command": "/no/such/program", "args": [], "env": []}
    refused = {
        "type": "http",
        "name": "nobody",
        "url": "http://127.0.0.1:9/mcp?key=a-secret-key",
        "headers": [{"name": "X-Key", "value": "another-secret"}],
    }
    good = mcp_program(
        tmp_path, "good", tools=[tool("help")], results={"help": says("Helped.")}
    )
    replies = (
        Reply(tool_calls=[ToolCall("mcp__good__help")]),
        Reply("Done."),
        Reply("Again."),
    )
    servers = [dead_entry, missing, refused, good.entry]
    async with stage(
        tmp_path, *replies, editor=editor, mcp=servers, mode="full-access"
    ) as it:
        await ready(it, "good")
        for name in ("dead", "missing", "nobody"):
            await logged(it, f"MCP server {name} could not be started")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [result.text for result in results(it.server.calls[1].body)] == [
            "Helped."
        ]
        notices = json.dumps(it.agent.updates(kind="notice"))
        told = it.agent.text() if editor is ZED else notices
        assert (
            "'dead' could not be started: it ended with status 7 and said: no licence for ***"
            in told
        )
        assert (
            "'missing' could not be started: no such file or directory: /no/such/program"
            in told
        )
        assert "'nobody' could not be started: nothing is listening" in told
        assert (notices == "[]") is (editor is ZED)
        log = (it.home / "state" / "logs" / "acp-agent.log").read_text()
        assert all(name in log for name in ("dead", "missing", "nobody"))
        assert not any(
            secret in log + told
            for secret in ("sesame", "a-secret-key", "another-secret")
        )
        # They are tried again with each prompt, but nobody wants to hear the same
        # twice.
        heard = len(it.agent.lines)
        await it.prompt()
        assert "could not be started" not in it.agent.text(since=heard)


async def test_a_server_runs_outside_of_its_session_s_directory_and_ends_with_it(
    tmp_path: Path,
) -> None:
    server = mcp_program(
        tmp_path, "kept", tools=[tool("one")], results={}, child=True, stubborn=True
    )
    async with stage(tmp_path, Reply("Hi."), Reply("Hi."), mcp=[server.entry]) as it:
        await ready(it, "kept")
        [start] = [note for note in server.notes() if "started" in note]
        assert (start["cwd"], start["env"]["ACP_AGENT_PROJECT_DIR"]) == (
            "/",
            str(it.folder),
        )
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
        tmp_path,
        "deaf",
        tools=[tool("hang"), tool("work")],
        results={"hang": {"hang": True}, "work": says("Worked.")},
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
        assert [result.text for result in results(it.server.calls[2].body)] == [
            "Worked."
        ]
        assert len(server.pids()) == 1


async def test_servers_of_the_configuration_run_in_every_session_with_values_of_variables(
    tmp_path: Path,
) -> None:
    own = mcp_program(
        tmp_path, "own", tools=[tool("mine")], results={"mine": {"hang": True}}
    )
    both = mcp_program(
        tmp_path, "both", tools=[tool("of_the_configuration")], results={}
    )
    editors = mcp_program(
        tmp_path / "..", "both", tools=[tool("of_the_editor")], results={}
    )
    configured = {
        "own": {
            **own.configured,
            "env": {"TOKEN_OF_MINE": "x-${MY_TOKEN}-x"},
            "timeout": 0.5,
        },
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


def test_the_page_says_how_long_a_server_may_take() -> None:
    page = " ".join((REPOSITORY / "docs" / "mcp.md").read_text("utf-8").split())
    assert f"The first prompt waits up to {PATIENCE_SECONDS:g} seconds" in page
    assert f"Starting a server may take {START_SECONDS:g} seconds" in page
    assert f"a prompt or a resource {READ_SECONDS:g}" in page
    assert f"{MAX_TOOLS} tools" in page


async def test_the_tools_of_a_slow_server_come_when_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", math.inf)
    slow = mcp_program(tmp_path, "slow", tools=[tool("late")], results={}, slow=True)
    async with stage(tmp_path, Reply("One."), Reply("Two."), mcp=[slow.entry]) as it:
        await it.prompt("/help")
        handle = await it.agent.start_prompt(
            it.session, "Cancelled while it waits for the server"
        )
        for _ in range(10):
            await it.agent.request("session/list", {})
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}
        assert "is not ready yet" not in it.agent.text()
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 0)
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "'slow' is not ready yet" in it.agent.text()
        await logged(it, "MCP server slow is not ready yet")
        assert "mcp__slow__late" not in json.dumps(it.server.calls[0].body["tools"])
        await slow.go()
        await ready(it, "slow")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "mcp__slow__late" in json.dumps(it.server.calls[1].body["tools"])
