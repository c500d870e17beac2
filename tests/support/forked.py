"""Starting `python -m acp_agent` without loading the SDKs anew each time.

    process = forked.start("acp_agent", ["run", "Hi."], cwd=home, env=env)    # as
    subprocess.Popen, with three pipes

Where it can be, the process is forked from one that has loaded them (`support.zygote`,
one for each process of pytest), and differs in nothing else; otherwise it is started as
usual: where the platform is not Linux, under coverage, and where the environment holds
what an interpreter or one of these packages reads while it is loaded. With
`ACP_AGENT_TEST_COLD=1` in the environment of the tests, every process is.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import cast

from support.checkout import REPOSITORY

PROGRAM = Path(__file__).with_name("zygote.py")
RUN = "exec(__import__('sys').argv[2], {'__name__': 'zygote'})"
"""Without a name in `__main__`, nor a folder in the module path, that its children
would not have.
"""
BASE = {
    "PATH": os.defpath,
    "HOME": "/",
    "LANG": "C.UTF-8",
    "PYTHONPATH": str(REPOSITORY),
}
_WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
READ_AT_START = (
    *("PYTHON", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "COVERAGE_"),
    *("ANTHROPIC_LOG", "OPENAI_LOG", "PYDANTIC_", "OTEL_"),
)
"""How the names of the variables begin that the interpreter and its libraries read."""
allowed: Callable[[], bool] | None = None
"""Whether the test that runs may start a process; set by tests/conftest.py."""
LONGEST = 100_000
"""Bytes of a request; what is longer starts as usual."""


class Forked:
    """As much of `subprocess.Popen` as the tests use, for a process that is another's
    child.

    :ivar returncode: None while it runs, and negative after a signal.
    """

    def __init__(
        self,
        pid: int,
        status: int,
        stdin: FileIO | None = None,
        stdout: FileIO | None = None,
        stderr: FileIO | None = None,
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()
        # Not before the last thread has done with waiting for it.
        weakref.finalize(self, os.close, status)

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, sent: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sent)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._status, select.POLLIN)
            ready = waiting.poll(None if timeout is None else timeout * 1000)
            with self._lock:
                if self.returncode is None and ready:
                    self.returncode = _number(self._status)
        return self.returncode


Started = subprocess.Popen[bytes] | Forked


def start(
    module: str, words: Sequence[str] = (), *, cwd: Path, env: Mapping[str, str]
) -> Started:
    """Start `python -m module` with a pipe, without a buffer, for each of stdin, stdout
    and stderr.

    :param words: its arguments.
    :param env: its whole environment.
    """
    request = _request(module, words, cwd, env, terminal=False)
    if request is not None:
        return _zygote().fork(request)
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def start_in_terminal(
    module: str,
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    terminal: int,
) -> Started:
    """Start `python -m module` as the leader of a session whose terminal is stdin,
    stdout and stderr.

    :param terminal: the end of a pseudo-terminal that is a program's.
    """
    request = _request(module, words, cwd, env, terminal=True)
    if request is not None:
        return _zygote().fork_in_terminal(request, terminal)
    return subprocess.Popen(
        [sys.executable, "-c", _WITH_TERMINAL, sys.executable, "-m", module, *words],
        cwd=cwd,
        env=env,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )


def run(
    module: str,
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str,
    timeout: float,
) -> tuple[int, str, str]:
    """Run `python -m module` to its end: its exit code, and all that it printed.

    :param timeout: seconds.
    :raises subprocess.TimeoutExpired: it was killed after so long.
    """
    process = start(module, words, cwd=cwd, env=env)

    def write() -> None:
        pipe = process.stdin
        assert pipe is not None
        with (
            suppress(BrokenPipeError),
            pipe,
            BufferedWriter(cast("FileIO", pipe)) as file,
        ):
            file.write(stdin.encode())

    stdout = process.stdout
    stderr = process.stderr
    assert stdout is not None
    assert stderr is not None
    with ThreadPoolExecutor(3) as threads, stdout, stderr:
        printed = [threads.submit(stream.read) for stream in (stdout, stderr)]
        threads.submit(write)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out, err = (each.result().decode() for each in printed)
    return code, out, err


def _request(
    module: str,
    words: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    terminal: bool,
) -> bytes | None:
    """Return what the zygote is asked; None where the process has to start as usual."""
    assert allowed is None or allowed(), (
        "this test starts a process without the mark that says so: @pytest.mark.process"
    )
    if not _possible() or _differs(env):
        return None
    request = json.dumps(
        {
            "module": module,
            "words": list(words),
            "cwd": str(cwd),
            "env": dict(env),
            "terminal": terminal,
        }
    ).encode()
    return request if len(request) <= LONGEST else None


def _differs(env: Mapping[str, str]) -> bool:
    """Whether a process with this environment would have begun otherwise than the
    zygote.
    """
    return any(
        env.get(name) != BASE.get(name)
        for name in {*env, *BASE}
        if name.startswith(READ_AT_START)
    )


class _Zygote:
    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", RUN, str(theirs.fileno()), PROGRAM.read_text()],
                cwd="/",
                env=BASE,
                # Pipes, as its children have them.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)
        if not self._control.recv(16):
            raise AssertionError(
                f"What the agents are forked from did not start:\n{self._process.communicate()[1]}"
            )

    def fork(self, request: bytes) -> Forked:
        stdin, to_stdin = os.pipe()
        from_stdout, stdout = os.pipe()
        from_stderr, stderr = os.pipe()
        theirs = [stdin, stdout, stderr]
        try:
            pid, status = self._ask(request, theirs)
        finally:
            for fd in theirs:
                os.close(fd)
        return Forked(
            pid, status, FileIO(to_stdin, "w"), FileIO(from_stdout), FileIO(from_stderr)
        )

    def fork_in_terminal(self, request: bytes, terminal: int) -> Forked:
        return Forked(*self._ask(request, [terminal] * 3))

    def _ask(self, request: bytes, streams: Sequence[int]) -> tuple[int, int]:
        """Return the id of the new process, and where its exit status can be read."""
        status, told = os.pipe()
        try:
            socket.send_fds(self._control, [request], [*streams, told])
        finally:
            os.close(told)
        return _number(status), status

    def _end(self) -> None:
        self._control.close()
        self._process.communicate()


_zygote = cache(_Zygote)


@cache
def _possible() -> bool:
    return sys.platform == "linux" and not os.environ.get("ACP_AGENT_TEST_COLD")


def _number(fd: int) -> int:
    read = os.read(fd, 4)
    # With the one that would have told.
    return int.from_bytes(read, "little", signed=True) if read else -signal.SIGKILL
