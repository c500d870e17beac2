"""Child processes in a process group of their own, from their start to the last one's end.

They are started, read and killed here; callers get the output in pieces as it comes. Some editors kill the agent as
they close, and it cannot end its groups then. So a helper shell, the watchdog, waits in a session of its own until its
stdin, a pipe from the agent, is closed, which happens however the agent ends.
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
"""How long a group may take to end after SIGTERM. The whole agent has to be gone within 0.1 s."""
DRAIN_SECONDS = 0.1
"""How long output is waited for after the first process ended while others still hold its pipes."""
_REAP_SECONDS = 0.5
_POLL_SECONDS = 0.001
_CHUNK = 65536

_groups: set[int] = set()
"""Those that were started and not ended."""
_watchdogs: list[subprocess.Popen[bytes]] = []
"""The running watchdog, after those that were killed."""
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
    """Run a program until it ends; when this returns or raises, its whole process group has ended.

    A process that it left in the background is ended with it; one that made itself a session of its own (`setsid`) is
    not, and if it still holds the output, it is not waited for. On a time-out or cancel the group gets SIGTERM and, a
    moment later, SIGKILL.

    :param timeout: seconds.
    :param on_data: called with every piece of output; must not block.
    :param stdin: an open file; nothing where it is None.
    :param env: all of its environment variables; the agent's own where it is None.
    :param on_end: called in every case with the exit code, negative for a signal; None if even SIGKILL has not ended
        the process.
    :returns: the exit code, negative for a signal; None where the time was up.
    :raises OSError, ValueError: it could not be started.
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
    """Return the agent's environment variables but for these, with `git_variables`."""
    return {name: value for name, value in {**os.environ, **git_variables()}.items() if name not in names}


def git_variables() -> dict[str, str]:
    """Return environment variables that restrict what git does.

    With them, git does not run programs that a repository names to watch its files, to page or to edit. It does not
    treat a folder as a bare repository unless it is named as one. It does not write the lists for dumb servers to the
    folder `info`, which the sandbox closes.

    Source: git-config(1), "safe.bareRepository", "core.fsmonitor", "repack.updateServerInfo" and GIT_CONFIG_COUNT
    """
    count = int(found) if (found := os.environ.get("GIT_CONFIG_COUNT", "")).isdecimal() else 0
    variables = {"GIT_PAGER": "cat", "GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true"}
    settings = {"safe.bareRepository": "explicit", "core.fsmonitor": "false", "repack.updateServerInfo": "false"}
    for number, (key, value) in enumerate(settings.items(), count):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**variables, "GIT_CONFIG_COUNT": str(count + len(settings))}


@asynccontextmanager
async def open_group(
    argv: Sequence[str], cwd: Path, *, grace: float, env: Mapping[str, str] | None = None
) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """Run a program during the body; its stdin, stdout and stderr are non-blocking pipes.

    Where the body ends, its stdin is closed and it may end by itself; where the body fails or is cancelled, and after
    that time, its whole process group is killed as by `run_group`.

    :param grace: seconds in which it may end by itself.
    :param env: all of its environment variables; the agent's own where it is None.
    :raises OSError, ValueError: it could not be started.
    """
    process = _start(argv, cwd, subprocess.PIPE, env)
    pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None]
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
    """Kill every remaining group at once, for when the process ends without waiting for its tasks."""
    for group in _groups:
        _signal(group, signal.SIGKILL)


def close_watchdog() -> None:
    """Let the watchdog do its work and end while this process exits: the system frees a process's memory, which takes
    milliseconds, before it closes its pipes."""
    while _watchdogs:
        stdin = _watchdogs.pop().stdin
        assert stdin
        stdin.close()


def _start(
    argv: Sequence[str], cwd: Path, stdin: IO[bytes] | int | None, env: Mapping[str, str] | None
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
    """Tell the watchdog which groups there are, and start it if it does not run. Without a shell it never starts."""
    with contextlib.suppress(OSError):
        if not _watchdogs or _watchdogs[-1].poll() is not None:
            watchdog = subprocess.Popen(
                # What a person reads in a list of processes is short, and says whose it is.
                ("/bin/sh", "-c", 'eval "$WATCHDOG"', "acp-agent-watchdog"),
                env={"PATH": os.defpath, "WATCHDOG": _WATCHDOG},  # it needs nothing of the agent's, least of all keys
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
        # A thread of its own, so that long commands do not use up the shared ones. It is abandoned on a cancel, and
        # ends with the process, which is killed at once.
        code = await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
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
    """Make sure that no process of the group is left. Takes no time where none is."""
    _signal(process.pid, signal.SIGTERM)
    with anyio.move_on_after(TERMINATE_SECONDS):
        while _alive(process):  # noqa: ASYNC110 - there is no event for the end of a group
            await anyio.sleep(_POLL_SECONDS)
    _signal(process.pid, signal.SIGKILL)
    with anyio.move_on_after(_REAP_SECONDS):
        while _alive(process):  # noqa: ASYNC110 - nor which thread reaps it
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
    # In a container whose first process does not reap orphans, the zombies of a group stay for good.
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, found = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if found == str(group) and state not in ("Z", "X"):
                return True
    return not Path("/proc/self/stat").exists()


def _signal(group: int, number: signal.Signals) -> None:
    # PermissionError is macOS's answer where only zombies are left in the group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
