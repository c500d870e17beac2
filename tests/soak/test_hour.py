"""An hour of turns, compactions and sessions in one process: what it takes of the
machine stays the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import memory
from support.compactions import asked_last, is_summary_request
from support.editors import ZED_BETA
from support.mcp import mcp_program
from support.processes import descendants
from support.replies import Reply, ToolCall
from support.stage import Stage, stage

EDITOR = replace(ZED_BETA, files=False, terminal=False)
WORDS = [
    f"word {number} of an answer that is long enough for a summary. "
    for number in range(200)
]
SUMMARY = ["## Goal\nCount.\n\n", *("- a point of the summary\n" for _ in range(20))]
MEBIBYTES = 4.0  # of growth
LENGTH = 20
ids = count()


@dataclass(frozen=True)
class Sample:
    mebibytes: float
    descriptors: int
    threads: int
    children: int

    @classmethod
    def of(cls, pid: int) -> Sample:
        process = Path(f"/proc/{pid}")
        open_files, tasks = (
            len([*(process / name).iterdir()]) for name in ("fd", "task")
        )
        return cls(memory(pid), open_files, tasks, len(descendants(pid)))


def answer(body: Mapping[str, Any]) -> Reply:
    if is_summary_request(body):
        return Reply(SUMMARY)
    if asked_last(body) != "Work":
        return Reply(WORDS)
    calls = [
        ToolCall(
            "write",
            {"path": "b.txt", "content": f"{next(ids)}\n" * 1_000},
            f"call_{next(ids)}",
        ),
        ToolCall("read", {"path": "a.txt"}, f"call_{next(ids)}"),
        ToolCall("shell", {"command": "seq 3000"}, f"call_{next(ids)}"),
        ToolCall("grep", {"pattern": "on+e"}, f"call_{next(ids)}"),
    ]
    return Reply("I work.", tool_calls=calls)


async def turns(
    it: Stage, session: str, server: Mapping[str, Any], number: int
) -> None:
    """A piece of a longer session, and all of a short one."""
    for prompt in ("Work", "Tell", "/compact" if number % 5 == 4 else "Tell"):
        assert await it.agent.prompt(session, prompt, 30) == {"stopReason": "end_turn"}
    short = await it.agent.new_session(
        it.folder, mcpServers=[server] if number % 10 == 0 else []
    )
    for prompt in ("Work", "/compact", "Tell"):
        assert await it.agent.prompt(short, prompt, 30) == {"stopReason": "end_turn"}
    await it.agent.load(short, it.folder)
    await it.agent.request(
        "session/delete" if number % 2 else "session/close", {"sessionId": short}
    )
    # What the test itself would keep for the hour.
    it.agent.lines.clear()
    it.agent.sent.clear()
    it.server.requests.clear()
    for call in it.server.calls:
        call.body = None


def middle_of(samples: list[Sample]) -> Sample:
    return Sample(
        *(
            sorted(column)[len(column) // 2]
            for column in zip(*map(astuple, samples), strict=True)
        )
    )


async def test_memory_descriptors_threads_and_children_stay_flat(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    until = time.monotonic() + 60 * float(request.config.getoption("--minutes") or 0)
    samples: list[Sample] = []
    async with stage(
        tmp_path,
        script=answer,
        editor=EDITOR,
        validate=False,
        laws=False,
        mode="full-access",
    ) as it:
        program = mcp_program(tmp_path, "garden")
        session = it.session
        while time.monotonic() < until:
            # What a session remembers of itself grows with it.
            if len(samples) % LENGTH == LENGTH - 1:
                await it.agent.request("session/close", {"sessionId": session})
                session = await it.agent.new_session(it.folder)
            await turns(it, session, program.entry, len(samples))
            samples.append(Sample.of(it.agent.pid))
            if len(samples) % 100 == 0:
                print(
                    f"{len(samples):6} rounds, {len(it.server.calls)} model calls: {samples[-1]}",
                    flush=True,
                )
    quarter = len(samples) // 4
    second = samples[quarter : 2 * quarter]
    last = samples[-quarter:]
    middle = middle_of(second)
    end = middle_of(last)
    print(
        f"{len(samples)} rounds of 6 turns: {middle} in the second quarter, {end} in the last",
        flush=True,
    )
    assert end.mebibytes <= middle.mebibytes + MEBIBYTES
    assert (end.descriptors, end.threads, end.children) <= (
        middle.descriptors + 1,
        middle.threads + 1,
        middle.children,
    )
    assert max(sample.children for sample in last) <= max(
        sample.children for sample in second
    )
