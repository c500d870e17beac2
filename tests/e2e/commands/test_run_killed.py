"""`acp-agent run` in a session whose last process was killed in the middle of an
answer.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from support import forked
from support.called import call_command
from support.checkout import environment
from support.models import ModelServer, Reply, ToolCall, Usage, model_server

pytestmark = pytest.mark.process


def killed() -> Reply:
    """Return an answer that never ends."""
    return Reply(
        ["The killed answer began. ", "It goes on."], hold=anyio.Event(), hold_after=1
    )


async def killed_in_its_answer(home: Path, server: ModelServer) -> None:
    """Run a turn, and kill its process once part of the answer is in the log."""
    process = forked.start(
        "acp_agent",
        ["run", "--output", "stream-json", "Begin"],
        cwd=home,
        env={**environment(home), **server.env()},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        with process.stdin, process.stdout, process.stderr, anyio.fail_after(40):
            process.stdin.close()
            seen = b""
            while b"The killed answer began" not in seen:
                await anyio.wait_readable(process.stdout.fileno())
                read = os.read(process.stdout.fileno(), 65_536)
                assert read, seen
                seen += read
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
async def test_the_answer_of_a_killed_turn_is_no_part_of_the_next_one(
    tmp_path: Path, output: str
) -> None:
    async with model_server(
        [killed(), Reply("The new answer.", usage=Usage(100, 5))], "openai"
    ) as server:
        await killed_in_its_answer(tmp_path, server)
        ran = await call_command(
            tmp_path, "run", "--follow", "--output", output, "go on", env=server.env()
        )
    assert ran.code == 0
    if output == "text":
        assert ran.out == "The new answer.\n"
        return
    result = json.loads(ran.out.splitlines()[-1])
    assert result["answer"] == "The new answer."
    assert result["usage"]["outputTokens"] == 5


@pytest.mark.parametrize(
    "words", [["/context"], ["-r", "compact"]], ids=["reads", "compacts"]
)
async def test_what_a_command_says_after_a_killed_turn_is_its_own(
    tmp_path: Path, words: list[str]
) -> None:
    async with model_server([killed(), Reply("# Goal\nCount.")], "openai") as server:
        await killed_in_its_answer(tmp_path, server)
        ran = await call_command(
            tmp_path, "run", "--follow", "--output", "json", *words, env=server.env()
        )
    assert "killed answer" not in ran.out


async def test_the_answer_after_a_killed_turn_with_tool_calls_is_the_new_one_alone(
    tmp_path: Path,
) -> None:
    call = ToolCall("list", {"path": "."})
    replies = [
        Reply("I look.", tool_calls=[call]),
        killed(),
        Reply("I look again.", tool_calls=[call]),
        Reply("New."),
    ]
    async with model_server(replies, "openai") as server:
        await killed_in_its_answer(tmp_path, server)
        ran = await call_command(tmp_path, "run", "--follow", "go on", env=server.env())
    assert (ran.code, ran.out) == (0, "New.\n")
