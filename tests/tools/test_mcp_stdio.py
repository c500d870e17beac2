"""The process of an MCP server: lines of any length in both directions, its end, and what it said before."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from acp_agent.errors import ToolError
from acp_agent.tools.mcp_stdio import server_environment, server_process
from support.processes import marked, outlive

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line.strip() + b"!\\n\\n" + line)
    sys.stdout.flush()
sys.stderr.write("\\x1b[31mgood\\x1b[0m\\nbye")
"""


async def test_lines_of_any_length_go_in_and_out_whole(tmp_path: Path) -> None:
    sent = [b"short", b"x" * 300_000, b'{"a": 1}']
    got: list[bytes] = []
    async with server_process(sys.executable, ("-I", "-S", "-c", ECHO), tmp_path, {"PATH": "/usr/bin"}) as process:

        async def speak() -> None:
            for line in sent:
                await process.send(line)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(speak)
                async for line in process.lines():
                    got.append(line)
                    if len(got) == 2 * len(sent):
                        break
    assert got == [part for line in sent for part in (line + b"!", line)]


async def test_a_server_that_ends_has_said_why(tmp_path: Path) -> None:
    async with server_process(
        sys.executable, ("-c", "import sys; sys.stderr.write('\\x1b[31mno\\x1b[0m\\nkey'); sys.exit(4)"), tmp_path, {}
    ) as process:
        with anyio.fail_after(20):
            await process.watch()
            assert [line async for line in process.lines()] == []
            await process.ended()
        assert (process.status, process.complaint) == ("it ended with status 4", "no key")


async def test_what_a_server_has_started_ends_with_it(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}"
    command = "trap '' TERM; sleep 600 & echo up; wait"
    env = {"PATH": "/usr/bin:/bin", "MCP_MARK": mark}
    async with server_process("/bin/sh", ("-c", command), tmp_path, env) as process:
        with anyio.fail_after(20):
            async for _ in process.lines():
                break
        found = marked(mark)
        assert len(found) == 2
    assert not await outlive(found, seconds=2)


async def test_a_variable_with_a_name_that_none_can_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="'A=B' can be no environment variable's name"):
        async with server_process("/bin/sh", (), tmp_path, {"C": "1", "A=B": "x"}):
            pass


@pytest.mark.parametrize(
    ("command", "folder", "said"),
    [
        ("/no/such/program", ".", "there is no program '/no/such/program'"),
        ("/bin/sh", "missing", "does not exist"),
        (".", ".", "could not be run"),
        ("a\0b", ".", "NUL"),
    ],
)
async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, command: str, folder: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        async with server_process(command, (), tmp_path / folder, {}):
            raise AssertionError("it was started")


def test_a_server_sees_where_it_is_and_no_key() -> None:
    env = {
        "PATH": "/bin",
        "HOME": "/me",
        "LANG": "C",
        "OPENAI_API_KEY": "k",
        "ACP_AGENT_HOME": "/h",
        "SSH_AUTH_SOCK": "s",
    }
    expected = {"PATH": "/own", "HOME": "/me", "LANG": "C", "MINE": "1"}
    assert server_environment(env, {"PATH": "/own", "MINE": "1"}) == expected
