from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
import tty
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.messages import InvalidMessageError
from acp_agent.jsonrpc.transport import StdioTransport

# A small but real agent: claims its stdio and answers a few methods, some of which
# misbehave on purpose.
AGENT = """
import os, subprocess, sys
import anyio
from acp_agent.jsonrpc.messages import RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.descriptors import claim_descriptors
from acp_agent.jsonrpc.transport import StdioTransport

print("printed before the wire was claimed")

async def echo(call, params):
    return params

async def stray(call, params):
    print("stray print", flush=True)
    os.write(1, b"stray bytes\\n")
    subprocess.run(["sh", "-c", "echo stray child; cat"], timeout=10)
    return {"stdin": sys.stdin.read()}

async def flood(call, params):
    for n in range(params["count"]):
        await peer.notify("update", {"n": n, "text": "x" * params["size"]})
    return "done"

async def main():
    global peer
    handlers = {method.__name__: method for method in (echo, stray, flood)}
    transport = StdioTransport(*claim_descriptors(), max_line=100_000)
    peer = Peer(transport, lambda error: RpcError(-32603, str(error)))
    async with peer.open() as tasks:
        while (call := await peer.next_call()) is not None:
            tasks.start_soon(peer.answer, call, handlers[call.method](call, call.params))

anyio.run(main)
print("printed after the end")
"""

REPOSITORY = Path(__file__).parents[3]
# Where stdout is not buffered, what is printed before the claim is out before anybody
# can keep it back.
ENVIRONMENT = {**os.environ, "PYTHONUNBUFFERED": "", "AGENT": AGENT}


def agent_command() -> list[str]:
    return [sys.executable, "-c", AGENT]


def line(id: int, method: str, **params: Any) -> bytes:
    return (
        json.dumps(
            {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        ).encode()
        + b"\n"
    )


def run_agent(**options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        agent_command(),
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        timeout=30,
        check=True,
        **options,
    )


def pair() -> tuple[StdioTransport, StdioTransport]:
    near_read, far_write = os.pipe()
    far_read, near_write = os.pipe()
    return StdioTransport(near_read, near_write), StdioTransport(far_read, far_write)


def socket_pair() -> tuple[StdioTransport, StdioTransport]:
    near, far = socket.socketpair()
    return tuple(
        StdioTransport(os.dup(end.fileno()), end.detach()) for end in (near, far)
    )  # type: ignore[return-value]


@pytest.mark.process
def test_prints_raw_writes_and_children_go_to_stderr_and_the_last_line_needs_no_newline() -> (
    None
):
    lines = b"nonsense\n" + line(1, "stray") + line(2, "echo", a="ü").rstrip(b"\n")
    done = run_agent(input=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answers = {
        answer["id"]: answer.get("result")
        for answer in map(json.loads, done.stdout.splitlines())
    }
    assert answers == {None: None, 1: {"stdin": ""}, 2: {"a": "ü"}}
    for text in (
        b"stray print",
        b"stray bytes",
        b"stray child",
        b"printed before",
        b"printed after",
    ):
        assert text in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.process
def test_regular_files_as_stdin_and_stdout_work(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(
        line(1, "flood", count=50, size=10_000) + line(2, "echo")
    )
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        run_agent(stdin=stdin, stdout=stdout)
    answers = [
        json.loads(text) for text in (tmp_path / "out").read_bytes().splitlines()
    ]
    assert {answer["id"] for answer in answers if "id" in answer} == {1, 2}


@pytest.mark.process
def test_missing_streams_are_no_crash_and_stderr_merged_into_stdout_leaves_the_wire_alone() -> (
    None
):
    command = ["sh", "-c", f"exec '{sys.executable}' -c \"$AGENT\" <&- 2>&-"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        timeout=30,
        check=True,
    )
    assert done.stdout == b""
    done = run_agent(
        input=line(1, "stray"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert [json.loads(text)["id"] for text in done.stdout.splitlines()] == [1]


@pytest.mark.parametrize("make", [pair, socket_pair])
async def test_much_data_passes_both_ways_at_once_without_blocking_the_loop(
    make: Any,
) -> None:
    near, far = make()
    data = b"".join(b"%d " % n + b"x" * (n * 37 % 5000) + b"\n" for n in range(2000))

    async def send(end: StdioTransport) -> None:
        await end.write(data)

    async def receive(end: StdioTransport) -> None:
        for expected in data.splitlines():
            assert await end.read_line() == expected

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for end in (near, far):
                tasks.start_soon(send, end)
                tasks.start_soon(receive, end)
    await near.aclose()
    assert await far.read_line() is None
    await far.aclose()


@pytest.mark.parametrize(
    "opened", [os.pipe, lambda: tuple(end.detach() for end in socket.socketpair())]
)
async def test_the_descriptors_are_left_blocking_since_others_may_share_them(
    opened: Any,
) -> None:
    read_fd, write_fd = opened()
    transport = StdioTransport(os.dup(read_fd), os.dup(write_fd))
    with anyio.fail_after(5):
        await transport.write(b"a\n")
        assert await transport.read_line() == b"a"
    assert os.get_blocking(read_fd)
    assert os.get_blocking(write_fd)
    await transport.aclose()
    os.close(read_fd)
    os.close(write_fd)


@pytest.mark.parametrize("make", [pair, socket_pair])
async def test_writing_to_a_reader_that_has_gone_is_a_broken_pipe(make: Any) -> None:
    near, far = make()
    await far.aclose()
    with pytest.raises(OSError, match=r"[Bb]roken|[Rr]eset"):
        await near.write(b"a\n")
    await near.aclose()


async def test_closing_lets_a_reader_go_and_refuses_writes() -> None:
    near, far = pair()
    ended = anyio.Event()

    async def read() -> None:
        assert await near.read_line() is None
        ended.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await near.aclose()
            await ended.wait()
    with pytest.raises(anyio.ClosedResourceError):
        await near.write(b"a\n")
    await near.aclose()
    await far.aclose()


async def test_a_terminal_can_be_the_wire() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    transport = StdioTransport(os.dup(slave), slave)
    with anyio.fail_after(5):
        os.write(master, b"typed\n")
        assert await transport.read_line() == b"typed"
        await transport.write(b"shown\n")
        assert os.read(master, 100) == b"shown\n"
    await transport.aclose()
    os.close(master)


@pytest.mark.process
def test_without_a_stdout_there_is_nobody_to_speak_to() -> None:
    command = f"exec '{sys.executable}' -c \"$AGENT\" >&-"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert b"without a stdout" in done.stderr


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r", b"\xff", b"defgh"])).map(
        b"".join
    ),
    st.lists(st.integers(min_value=0)),
    st.sampled_from([3, 1000]),
)
def test_any_split_of_the_bytes_yields_the_same_lines_with_each_that_is_too_long_in_its_place(
    data: bytes, cuts: list[int], limit: int
) -> None:
    async def lines() -> list[bytes | str]:
        read_fd, write_fd = os.pipe()
        places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        initial, *pieces = [data[start:end] for start, end in pairwise(places)]
        reader = StdioTransport(
            read_fd, os.open(os.devnull, os.O_WRONLY), initial=initial, max_line=limit
        )
        found: list[bytes | str] = []

        async def read() -> None:
            while True:
                try:
                    if (line := await reader.read_line()) is None:
                        return
                    found.append(line)
                except InvalidMessageError:
                    found.append("too long")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for piece in pieces:
                os.write(write_fd, piece)
                await anyio.wait_all_tasks_blocked()
            os.close(write_fd)
        await reader.aclose()
        return found

    expected = ["too long" if len(line) > limit else line for line in data.split(b"\n")]
    if not expected[-1]:
        expected.pop()
    assert anyio.run(lines) == expected
