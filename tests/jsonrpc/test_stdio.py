from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
import tty
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from acp_agent.jsonrpc.framing import LineTooLongError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Router
from acp_agent.jsonrpc.stdio import ProcessTransport, StdioTransport

# A small but real agent: claims its stdio and answers a few methods, some of which misbehave on purpose.
AGENT = """
import os, subprocess, sys
import anyio
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Router
from acp_agent.jsonrpc.stdio import claim_stdio

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
    router = Router()
    for method in (echo, stray, flood):
        router.register(method.__name__, dict, method)
    peer = Peer(claim_stdio(max_line=100_000), router)
    await peer.run()

anyio.run(main)
print("printed after the end")
"""

REPOSITORY = Path(__file__).parents[2]
# Where stdout is not buffered, what is printed before the claim is out before anybody can keep it back.
ENVIRONMENT = {**os.environ, "PYTHONUNBUFFERED": "", "AGENT": AGENT}


def agent_command() -> list[str]:
    return [sys.executable, "-c", AGENT]


async def open_agent() -> anyio.abc.Process:
    return await anyio.open_process(agent_command(), cwd=REPOSITORY, env=ENVIRONMENT, stderr=subprocess.PIPE)


def line(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def run_agent(**options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(agent_command(), cwd=REPOSITORY, env=ENVIRONMENT, timeout=30, check=True, **options)


async def stderr_of(process: anyio.abc.Process) -> str:
    assert process.stderr is not None
    return b"".join([chunk async for chunk in process.stderr]).decode()


def pair() -> tuple[StdioTransport, StdioTransport]:
    near_read, far_write = os.pipe()
    far_read, near_write = os.pipe()
    return StdioTransport(near_read, near_write), StdioTransport(far_read, far_write)


def socket_pair() -> tuple[StdioTransport, StdioTransport]:
    near, far = socket.socketpair()
    return tuple(StdioTransport(os.dup(end.fileno()), end.detach()) for end in (near, far))  # type: ignore[return-value]


async def test_prints_raw_writes_and_children_go_to_stderr_and_find_an_empty_stdin() -> None:
    with anyio.fail_after(20):
        async with await open_agent() as process:
            client = Peer(ProcessTransport(process), Router())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.run)
                assert await client.request("stray", {}) == {"stdin": ""}
                assert await client.request("echo", {"a": "ü"}) == {"a": "ü"}
                client.close()
            complaints = await stderr_of(process)
            assert await process.wait() == 0
    for text in ("stray print", "stray bytes", "stray child", "printed before", "printed after"):
        assert text in complaints
    assert "Traceback" not in complaints


async def test_a_slow_reader_gets_every_line_whole() -> None:
    with anyio.fail_after(20):
        async with await open_agent() as process:
            transport = ProcessTransport(process)
            await transport.write(line(1, "flood", count=500, size=3000))
            received: list[Any] = []
            while not received or "method" in received[-1]:
                raw = await transport.read_line()
                assert raw is not None
                received.append(json.loads(raw))
            await transport.aclose()
            assert await process.wait() == 0
    assert [message["params"]["n"] for message in received[:-1]] == list(range(500))
    assert received[-1]["result"] == "done"


def test_the_agent_ends_when_its_input_ends_and_answers_what_was_asked_before() -> None:
    done = run_agent(input=line(1, "echo", a=1) + b"nonsense\n", stdout=subprocess.PIPE)
    answers = [json.loads(text) for text in done.stdout.splitlines()]
    assert {answer["id"] for answer in answers} == {1, None}


def test_the_last_line_counts_without_its_newline() -> None:
    done = run_agent(input=line(1, "echo").rstrip(b"\n"), stdout=subprocess.PIPE)
    assert json.loads(done.stdout)["id"] == 1


def test_a_line_beyond_the_limit_does_not_end_the_agent() -> None:
    done = run_agent(input=b"x" * 200_000 + b"\n" + line(2, "echo"), stdout=subprocess.PIPE)
    first, second = (json.loads(text) for text in done.stdout.splitlines())
    assert first["error"]["code"] == -32600
    assert "100000 bytes" in first["error"]["message"]
    assert second["id"] == 2


def test_regular_files_as_stdin_and_stdout_work(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(line(1, "flood", count=50, size=10_000) + line(2, "echo"))
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        run_agent(stdin=stdin, stdout=stdout)
    answers = [json.loads(text) for text in (tmp_path / "out").read_bytes().splitlines()]
    assert {answer["id"] for answer in answers if "id" in answer} == {1, 2}


@pytest.mark.parametrize("redirection", ["<&-", "2>&-", "<&- 2>&-", "</dev/null"])
def test_a_missing_or_empty_stream_is_no_crash(redirection: str) -> None:
    command = f"exec '{sys.executable}' -c \"$AGENT\" {redirection}"
    done = subprocess.run(
        ["sh", "-c", command],
        input=b"",
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


def test_a_client_that_merges_stderr_into_stdout_sees_the_wire_alone() -> None:
    done = run_agent(input=line(1, "stray"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for text in done.stdout.splitlines():
        json.loads(text)


@pytest.mark.parametrize("make", [pair, socket_pair])
async def test_much_data_passes_both_ways_at_once_without_blocking_the_loop(make: Any) -> None:
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


@pytest.mark.parametrize("make", [pair, socket_pair])
async def test_a_writer_that_waits_for_its_reader_lets_the_loop_run(make: Any) -> None:
    near, far = make()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(near.write, b"x" * 1_000_000 + b"\n")
            await anyio.wait_all_tasks_blocked()
            assert await far.read_line() == b"x" * 1_000_000
    await near.aclose()
    await far.aclose()


@pytest.mark.parametrize("opened", [os.pipe, lambda: tuple(end.detach() for end in socket.socketpair())])
async def test_the_descriptors_are_left_blocking_since_others_may_share_them(opened: Any) -> None:
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


async def test_bytes_that_were_read_before_come_first_and_may_end_in_mid_line() -> None:
    read_fd, write_fd = os.pipe()
    transport = StdioTransport(read_fd, os.open(os.devnull, os.O_WRONLY), initial=b"one\ntw")
    os.write(write_fd, b"o\nthree\n")
    os.close(write_fd)
    with anyio.fail_after(5):
        assert [await transport.read_line() for _ in range(4)] == [b"one", b"two", b"three", None]
    await transport.aclose()


async def test_a_line_beyond_the_limit_is_reported_and_reading_goes_on() -> None:
    read_fd, write_fd = os.pipe()
    transport = StdioTransport(read_fd, os.open(os.devnull, os.O_WRONLY), max_line=10)
    os.write(write_fd, b"x" * 30_000 + b"\nnext\n")
    with anyio.fail_after(5):
        with pytest.raises(LineTooLongError):
            await transport.read_line()
        assert await transport.read_line() == b"next"
    await transport.aclose()
    os.close(write_fd)


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


def test_without_a_stdout_there_is_nobody_to_speak_to() -> None:
    command = f"exec '{sys.executable}' -c \"$AGENT\" >&-"
    done = subprocess.run(
        ["sh", "-c", command], cwd=REPOSITORY, env=ENVIRONMENT, stderr=subprocess.PIPE, timeout=30, check=False
    )
    assert done.returncode == 1
    assert b"without a stdout" in done.stderr


async def test_a_child_that_dies_ends_the_connection_of_its_client() -> None:
    with anyio.fail_after(10):
        async with await anyio.open_process([sys.executable, "-c", "input()"]) as process:
            client = Peer(ProcessTransport(process), Router())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.run)
                with pytest.raises(ConnectionError):
                    await client.request("x", {})
