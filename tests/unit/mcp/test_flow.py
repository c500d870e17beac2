"""Servers that send far more messages than anybody needs."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.mcp import flow
from acp_agent.mcp import server as module
from acp_agent.mcp.flow import MOST_OPEN, Intake, ProgressLines
from support.mcp import mcp_program, says, tool
from support.mcp_running import Running

MANY = 3_000
MORE_THAN_A_PIPE_HOLDS = 12_000
"""Pings whose answers fill the pipe to a server."""


def line(**message: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", **message})


def flood(*messages: str) -> dict[str, Any]:
    """The result of a call that first sends all these messages."""
    answer = line(id="CALL", result=says("Done.")).replace('"CALL"', "ID")
    return {"line": "\n".join((*messages, answer))}


def request(request_id: int) -> SessionMessage:
    return SessionMessage(
        types.JSONRPCRequest(jsonrpc="2.0", id=request_id, method="ping")
    )


def answer(request_id: int) -> SessionMessage:
    return SessionMessage(
        types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result={})
    )


def notification(method: str, **params: Any) -> SessionMessage:
    return SessionMessage(
        types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
    )


@pytest.mark.parametrize("same_id", [True, False])
async def test_a_server_that_pings_and_reads_no_answers_is_ended_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_id: bool
) -> None:
    monkeypatch.setattr(flow, "PATIENCE_SECONDS", 0.5)
    pings = [
        line(id="p" if same_id else f"p{number}", method="ping")
        for number in range(MORE_THAN_A_PIPE_HOLDS)
    ]
    results = {"flood": flood(*pings), "work": says("Worked.")}
    program = mcp_program(
        tmp_path, "loud", tools=[tool(name) for name in results], results=results
    )
    running = Running(program, tmp_path)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(asyncio.all_tasks()))
            await anyio.sleep(0.002)  # to look again, not to wait for anything

    async with running.run(), anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        told = await running.call("flood")
        assert "it sends requests without reading the answers" in told
        assert await running.call("work") == ["Worked."]  # it was started again
        tasks.cancel_scope.cancel()
    assert most < 2 * MOST_OPEN


async def test_many_pings_of_a_server_are_answered(tmp_path: Path) -> None:
    pings = [line(id=number, method="ping") for number in range(10 * MOST_OPEN)]
    program = mcp_program(
        tmp_path, "loud", tools=[tool("work")], results={"work": flood(*pings)}
    )
    running = Running(program, tmp_path)
    async with running.run():
        assert await running.call("work") == ["Done."]
        await program.noted(None, 10 * MOST_OPEN)


async def test_of_much_progress_a_part_is_shown_and_the_last_line_always(
    tmp_path: Path,
) -> None:
    told = [
        line(
            method="notifications/progress",
            params={
                "progressToken": "CALL",
                "progress": number,
                "message": "x" * 1_000,
            },
        ).replace('"CALL"', "ID")
        for number in range(MANY)
    ]
    program = mcp_program(
        tmp_path, "loud", tools=[tool("work")], results={"work": flood(*told)}
    )
    running = Running(program, tmp_path)
    shown: list[str] = []

    async def report(progress: Any) -> None:
        shown.append(progress.text)

    async with running.run():
        assert await running.call("work", report) == ["Done."]
    assert sum(map(len, shown)) < MANY * 500
    assert shown[-1].splitlines()[-1].startswith(f"{MANY - 1} ")


async def test_a_server_whose_tools_change_all_the_time_is_not_listed_all_the_time(
    tmp_path: Path,
) -> None:
    program = mcp_program(
        tmp_path,
        "busy",
        tools=[tool("work")],
        results={"work": says("Worked.")},
        while_listed=[{}] * MANY,
    )
    running = Running(program, tmp_path)
    async with running.run():
        for _ in range(200):
            assert await running.call("work") == ["Worked."]
    got = Counter(note.get("got") for note in program.notes())
    assert got["tools/list"] < got["tools/call"] / 2


async def test_the_user_is_told_of_a_few_tools_that_are_left_out_and_not_of_new_names_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LIST_PAUSE", 0)
    more: list[dict[str, Any]] = [
        {"tools": [tool(f"task{number}", execution={"taskSupport": "required"})]}
        for number in range(20)
    ]
    program = mcp_program(
        tmp_path, "inventive", tools=[tool("work")], results={}, while_listed=more
    )
    running = Running(program, tmp_path)
    async with running.run():
        await running.until("task19")
    assert 0 < len(running.told) <= 5


async def test_messages_that_the_agent_has_no_use_for_are_dropped_before_the_sdk_reads_them() -> (
    None
):
    intake = Intake()
    for unused in ("notifications/message", "notifications/resources/updated"):
        assert not await intake.admits(notification(unused, level="info", data="x"))
    for used in ("notifications/progress", "notifications/tools/list_changed"):
        assert await intake.admits(notification(used))


@pytest.mark.parametrize(
    "ending", [answer(0), notification("notifications/cancelled", requestId=0)]
)
async def test_a_request_waits_until_an_earlier_one_is_answered_or_cancelled(
    ending: SessionMessage,
) -> None:
    intake = Intake()
    for number in range(MOST_OPEN):
        assert await intake.admits(request(number))
    admitted = anyio.Event()

    async def one_more() -> None:
        await intake.admits(request(MOST_OPEN))
        admitted.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one_more)
        await anyio.wait_all_tasks_blocked()
        assert not admitted.is_set()
        if isinstance(ending.message, types.JSONRPCResponse):
            intake.sent(ending)
        else:
            await intake.admits(ending)
        with anyio.fail_after(10):
            await admitted.wait()


@given(
    st.lists(
        st.tuples(st.sampled_from(["request", "answer", "cancel"]), st.integers(0, 3)),
        max_size=80,
    )
)
def test_no_order_of_requests_answers_and_cancellations_leaves_a_request_waiting(
    steps: list[tuple[str, int]],
) -> None:
    async def run() -> None:
        intake = Intake()
        open_ids = Counter[int]()
        for what, number in steps:
            if what == "request":
                assert await intake.admits(request(number))
                open_ids[number] += 1
            elif what == "answer":
                intake.sent(answer(number))
                open_ids[number] = max(0, open_ids[number] - 1)
            else:
                await intake.admits(
                    notification("notifications/cancelled", requestId=number)
                )
                open_ids[number] = max(0, open_ids[number] - 1)
        for _ in range(MOST_OPEN - open_ids.total()):
            assert await intake.admits(request(9))

    anyio.run(run)


async def test_progress_of_a_slow_editor_waits_in_one_task_and_keeps_the_newest() -> (
    None
):
    may_show = anyio.Event()
    shown: list[str] = []

    async def show(text: str) -> None:
        await may_show.wait()
        shown.extend(text.splitlines())

    lines = ProgressLines(show)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lines.add, "first")
        await anyio.wait_all_tasks_blocked()
        for number in range(100):
            await lines.add(f"{number}")  # does not wait
        may_show.set()
        await lines.end()
        await lines.add("late")
    assert shown[0] == "first"
    assert shown[-1] == "99"
    assert len(shown) == 21
