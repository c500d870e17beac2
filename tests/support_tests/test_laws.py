"""What the test client calls a problem, tried on a tiny agent that does what the prompt says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import ACPX, ZED, ZED_BETA
from support.fake import ASK, CALL, chunk, do, fake, problems_of
from support.processes import Process, outlive


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (chunk("a", content={"type": "nonsense"}), "not what the schema says"),
        ({"update": {"sessionUpdate": "usage_update", "used": 1}}, "not what the schema says"),
        ({"raw": "Loading…"}, "not a JSON-RPC message"),
        ({"raw": '{"jsonrpc":"2.0","id":77,"result":{}}'}, "an answer to nothing"),
        ({"raw": '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'}, "a second answer to initialize"),
        (chunk("a", messageId=None), "without messageId"),
        ({"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t9"}}, "not announced"),
        ({"update": {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}}, "advertise"),
        ({"update": CALL | {"title": "two\nlines"}}, "more than one line"),
        ({"update": CALL | {"locations": [{"path": "a.py"}]}}, "not absolute"),
        (
            {"update": CALL | {"content": [{"type": "diff", "path": "a.py", "oldText": None, "newText": ""}]}},
            "not absolute",
        ),
        ({"update": CALL | {"content": [{"type": "terminal", "terminalId": "x"}]}}, "not in progress"),
        (
            {
                "notify": "session/update",
                "params": {"sessionId": "other", "update": {"sessionUpdate": "usage_update", "used": 1, "size": 2}},
            },
            "does not know the session",
        ),
        (
            {
                "update": {
                    "sessionUpdate": "available_commands_update",
                    "availableCommands": [{"name": "/x", "description": "d"}],
                }
            },
            "has a slash",
        ),
    ],
)
async def test_what_breaks_editors_is_a_problem(tmp_path: Path, action: dict[str, Any], problem: str) -> None:
    problems = await problems_of(tmp_path, action)
    assert len(problems) == 1
    assert problem in problems[0]


async def test_switches_forms_and_addresses_are_for_editors_that_have_them(tmp_path: Path) -> None:
    switch = {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": True}
    options = {"update": {"sessionUpdate": "config_option_update", "configOptions": [switch]}}
    form = {"sessionId": "s1", "mode": "form", "message": "Who?", "requestedSchema": {"type": "object"}}
    ask = {"ask": "elicitation/create", "params": form}
    done = {"notify": "elicitation/complete", "params": {"elicitationId": "e"}}
    for action in (options, ask, done):
        (problem,) = await problems_of(tmp_path, action, editor=ACPX)
        assert "did not advertise" in problem
        assert await problems_of(tmp_path, action, editor=ZED) == []


async def test_what_is_unstable_is_for_editors_that_know_it(tmp_path: Path) -> None:
    update = {"update": {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []}}}
    gone = {"update": {"sessionUpdate": "plan_removed", "planId": "p"}}
    message = {"ask": "mcp/message", "params": {"serverId": "s", "requestId": "1", "method": "tools/list"}}
    status = {"notify": "auth/status_update", "params": {"state": "unknown"}}
    for action, problem in (
        (update, "advertise plan"),
        (gone, "advertise plan"),
        (message, "named"),
        (status, "asked"),
    ):
        assert any(problem in found for found in await problems_of(tmp_path, action))
    plans = replace(ZED, more={**ZED.more, "plan": {}})
    for action in (update, gone):
        assert await problems_of(tmp_path, action, editor=plans) == []
    (found,) = await problems_of(tmp_path, {"update": {"sessionUpdate": "plan", "entries": []}}, editor=plans)
    assert "plan_update" in found


async def test_permission_is_asked_only_while_the_call_is_pending(tmp_path: Path) -> None:
    running = {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "in_progress"}}
    (problem,) = await problems_of(tmp_path, {"update": CALL}, running, ASK)
    assert "not pending" in problem


async def test_a_compaction_has_a_beginning_one_end_and_no_chunks_after_it(tmp_path: Path) -> None:
    def compaction(status: str, **more: Any) -> dict[str, Any]:
        return {"update": {"sessionUpdate": "compaction_update", "compactionId": "c", "status": status, **more}}

    text = {"type": "text", "text": "s"}
    late = {"update": {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text}}
    begin, end, again = compaction("in_progress"), compaction("completed", summary=[text]), compaction("failed")
    assert await problems_of(tmp_path, begin, late, end, editor=ZED_BETA) == []
    assert len(await problems_of(tmp_path, begin, end, late, editor=ZED_BETA)) == 1
    assert len(await problems_of(tmp_path, begin, end, again, editor=ZED_BETA)) == 1
    assert len(await problems_of(tmp_path, end, editor=ZED_BETA)) == 1


async def test_a_chunk_after_the_response_is_a_problem(tmp_path: Path) -> None:
    late = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s1", **chunk("late")},
    }
    early = '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
    async with fake(tmp_path) as agent:
        await do(agent, {"raw": f"{early}\n{json.dumps(late)}"})
        await agent.until(lambda: len(agent.problems) == 2)
        assert "outside a turn" in agent.problems[0]
        assert "a second answer to session/prompt" in agent.problems[1]
        agent.problems.clear()


async def test_a_replay_belongs_to_a_load_and_a_failed_load_leaves_no_session(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        with pytest.raises(AgentError, match="-32002"):
            await agent.load("gone", "/")
        assert await agent.load("s7", "/") == {}
        assert agent.text() == "replayed"
        assert agent.problems == []
        await agent.resume("s8", "/")
        assert "outside a turn" in agent.problems.pop()


async def test_a_problem_fails_the_test_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not a JSON-RPC message"):
        async with fake(tmp_path) as agent:
            await do(agent, {"raw": "print"})


async def test_the_tests_own_failure_comes_first_and_carries_the_last_lines(tmp_path: Path) -> None:
    async def fail() -> None:
        async with fake(tmp_path) as agent:
            await do(agent, {"raw": "print"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await fail()
    assert "stopReason" in caught.value.__notes__[0]


async def test_a_process_left_behind_is_found_and_ended(tmp_path: Path) -> None:
    sleepers: set[Process] = set()

    async def leave() -> None:
        async with fake(tmp_path) as agent:
            await do(agent, {"sleeper": True})
            sleepers.update(agent.children())

    with pytest.raises(AssertionError, match=r"left behind: process .* sleep 60"):
        await leave()
    assert len(sleepers) == 1
    assert await outlive(sleepers, seconds=2) == set()


async def test_an_exit_code_and_a_traceback_are_problems(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit code 4 after EOF"):
        async with fake(tmp_path, env={"EXIT_CODE": "4"}):
            pass
    with pytest.raises(AssertionError, match="a traceback on stderr"):
        async with fake(tmp_path) as agent:
            await do(agent, {"stderr": "Traceback (most recent call last):\n"})
