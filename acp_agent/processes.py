"""Runs child processes in their own process groups, and makes sure that none are left.

This module starts, reads and kills the processes. Callers get the output in pieces as
it arrives.

Some editors kill the agent when they close, so the agent cannot end its process groups.
Therefore a helper shell, the watchdog, runs in a separate session and kills the groups
when its stdin, a pipe from the agent, is closed. This happens however the agent exits.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import IO, Literal, TypeAlias

import anyio
import anyio.to_thread

Stream: TypeAlias = Literal["stdout", "stderr"]
OnData: TypeAlias = Callable[[Stream, bytes], None]

TERMINATE_SECONDS = 0.05
"""How long a group may take to exit after SIGTERM. The whole agent must exit within 0.1
s.
"""
DRAIN_SECONDS = 0.1
"""How long to wait for output after the first process has exited, if other processes
still hold its pipes open.
"""
_REAP_SECONDS = 0.5
_POLL_SECONDS = 0.001
_CHUNK = 65536

_groups: set[int] = set()
"""The groups that were started and have not ended."""
_watchdogs: list[subprocess.Popen[bytes]] = []
"""The last entry is the running watchdog. Earlier ones were killed."""
_WATCHDOG = """\
cd /
trap '' HUP INT TERM
groups=
while read -r line; do groups=$line; done
[ -n "$groups" ] || exit 0
for one in $groups; do kill -TERM "-$one"; done
sleep 0.1
for one in $groups; do kill -KILL "-$one"; done
"""


async def run_group(
    argv: Sequence[str],
    cwd: Path,
    *,
    timeout: float,
    on_data: OnData,
    stdin: IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    on_end: Callable[[int | None], None] | None = None,
) -> int | None:
    """Run a program until it exits. When this returns or raises, its whole process
    group has ended.

    Background processes in the group are killed. A process that created its own session
    (`setsid`) is not killed, and if it holds the output open, this does not wait for
    it. On timeout or cancellation, the group gets SIGTERM and, after a short time,
    SIGKILL.

    :param timeout: in seconds.
    :param on_data: called with every piece of output; must not block.
    :param stdin: an open file; None for an empty stdin.
    :param env: all environment variables of the program; None for the agent's own.
    :param on_end: always called with the exit code, negative for a signal; None if even
        SIGKILL has not ended the process.
    :returns: the exit code, negative for a signal; None on timeout.
    :raises OSError, ValueError: if the program could not be started.
    """
    process = _start(argv, cwd, stdin, env)
    code: int | None = None
    try:
        with anyio.move_on_after(timeout):
            code = await _watch(process, on_data)
    finally:
        with anyio.CancelScope(shield=True):
            await _end_group(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        if on_end is not None:
            on_end(process.poll())
    return code


def environment_without(names: Collection[str]) -> dict[str, str]:
    """Return the agent's environment variables without these, plus `git_variables`."""
    return {
        name: value
        for name, value in {**os.environ, **git_variables()}.items()
        if name not in names
    }


def git_variables() -> dict[str, str]:
    """Return environment variables that restrict what git does.

    With them, git does not run programs that a repository configures as its file
    monitor, pager or editor. It does not treat a folder as a bare repository unless
    told to. It does not write the lists for dumb HTTP servers to the folder `info`, to
    which the sandbox denies access.

    Source: git-config(1), "safe.bareRepository", "core.fsmonitor",
    "repack.updateServerInfo" and GIT_CONFIG_COUNT
    """
    count = (
        int(found)
        if (found := os.environ.get("GIT_CONFIG_COUNT", "")).isdecimal()
        else 0
    )
    variables = {
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_SEQUENCE_EDITOR": "true",
    }
    settings = {
        "safe.bareRepository": "explicit",
        "core.fsmonitor": "false",
        "repack.updateServerInfo": "false",
    }
    for number, (key, value) in enumerate(settings.items(), count):
        variables |= {
            f"GIT_CONFIG_KEY_{number}": key,
            f"GIT_CONFIG_VALUE_{number}": value,
        }
    return {**variables, "GIT_CONFIG_COUNT": str(count + len(settings))}


@asynccontextmanager
async def open_group(
    argv: Sequence[str],
    cwd: Path,
    *,
    grace: float,
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """Run a program inside the `with` block. Its stdin, stdout and stderr are
    non-blocking pipes.

    When the block ends, the program's stdin is closed, and the program may exit on its
    own. If it does not exit in time, or if the block fails or is cancelled, its whole
    process group is killed as in `run_group`.

    :param grace: how many seconds the program has to exit on its own.
    :param env: all environment variables of the program; None for the agent's own.
    :raises OSError, ValueError: if the program could not be started.
    """
    process = _start(argv, cwd, subprocess.PIPE, env)
    pipes = [
        pipe
        for pipe in (process.stdin, process.stdout, process.stderr)
        if pipe is not None
    ]
    for pipe in pipes:
        os.set_blocking(pipe.fileno(), False)
    try:
        yield process
        assert process.stdin
        process.stdin.close()
        with anyio.move_on_after(grace):
            while process.poll() is None:  # noqa: ASYNC110 - as below
                await anyio.sleep(_POLL_SECONDS)
    finally:
        with anyio.CancelScope(shield=True):
            await _end_group(process)
        for pipe in pipes:
            pipe.close()


def kill_groups() -> None:
    """Kill every remaining group immediately, because the process exits without waiting
    for its tasks.
    """
    for group in _groups:
        _signal(group, signal.SIGKILL)


def close_watchdog() -> None:
    """Let the watchdog do its work and exit while this process is exiting. Otherwise,
    the watchdog would wait until the system has freed this process's memory, which
    takes milliseconds, and then closed the pipes.
    """
    while _watchdogs:
        stdin = _watchdogs.pop().stdin
        assert stdin
        stdin.close()


def _start(
    argv: Sequence[str],
    cwd: Path,
    stdin: IO[bytes] | int | None,
    env: Mapping[str, str] | None,
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    _groups.add(process.pid)
    _tell_watchdog()
    return process


def _tell_watchdog() -> None:
    """Tell the watchdog the current groups, and start it if it is not running. Without
    a shell, the watchdog never starts.
    """
    with contextlib.suppress(OSError):
        if not _watchdogs or _watchdogs[-1].poll() is not None:
            watchdog = subprocess.Popen(
                # Lists of processes show this short command line, which names the
                # agent.
                ("/bin/sh", "-c", 'eval "$WATCHDOG"', "acp-agent-watchdog"),
                # The watchdog needs nothing else, least of all keys.
                env={
                    "PATH": os.defpath,
                    "WATCHDOG": _WATCHDOG,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
            assert watchdog.stdin
            os.set_blocking(watchdog.stdin.fileno(), False)
            atexit.register(watchdog.communicate)
            _watchdogs.append(watchdog)
        assert _watchdogs[-1].stdin
        _watchdogs[-1].stdin.write(f"{' '.join(map(str, _groups))}\n".encode())


async def _watch(process: subprocess.Popen[bytes], on_data: OnData) -> int | None:
    code: int | None = None
    assert process.stdout
    assert process.stderr
    async with anyio.create_task_group() as pumps:
        pumps.start_soon(_pump, process.stdout.fileno(), partial(on_data, "stdout"))
        pumps.start_soon(_pump, process.stderr.fileno(), partial(on_data, "stderr"))
        # Use a separate thread, so that long commands do not exhaust the shared ones.
        # The thread is abandoned on cancellation, and ends with the process, which is
        # then killed immediately.
        code = await anyio.to_thread.run_sync(
            process.wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
        pumps.cancel_scope.deadline = anyio.current_time() + DRAIN_SECONDS
    return code


async def _pump(descriptor: int, on_data: Callable[[bytes], None]) -> None:
    os.set_blocking(descriptor, False)
    while True:
        await anyio.wait_readable(descriptor)
        with contextlib.suppress(BlockingIOError):
            data = os.read(descriptor, _CHUNK)
            if not data:
                return
            on_data(data)


async def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Make sure that no process of the group is left. Return immediately if the group
    has already ended.
    """
    _signal(process.pid, signal.SIGTERM)
    with anyio.move_on_after(TERMINATE_SECONDS):
        while _alive(process):  # noqa: ASYNC110 - there is no event for the end of a group
            await anyio.sleep(_POLL_SECONDS)
    _signal(process.pid, signal.SIGKILL)
    with anyio.move_on_after(_REAP_SECONDS):
        while _alive(process):  # noqa: ASYNC110 - nor is there one for reaping
            await anyio.sleep(_POLL_SECONDS)
    _groups.discard(process.pid)
    _tell_watchdog()


def _alive(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is None:
        return True
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return _has_living(process.pid)


def _has_living(group: int) -> bool:
    # In a container whose first process does not reap orphans, the zombies of a group
    # remain forever.
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, found = (
                stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            )
            if found == str(group) and state not in ("Z", "X"):
                return True
    return not Path("/proc/self/stat").exists()


def _signal(group: int, number: signal.Signals) -> None:
    # On macOS, this raises PermissionError if only zombies are left in the group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
