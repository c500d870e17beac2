"""Starting `python -m acp_agent` without loading the SDKs anew each time.

    process = forked.start("acp_agent", ["run", "Hi."], cwd=home, env=env)    # as subprocess.Popen, with three pipes

Where it can be, the process is forked from one that has loaded them (`support.zygote`, one for each process of pytest),
and differs in nothing else; otherwise it is started as usual: where the platform is not Linux, under coverage, and
where the environment holds what an interpreter or one of these packages reads while it is loaded. With
`ACP_AGENT_TEST_COLD=1` in the environment of the tests, every process is.

Owns who starts which way, and the process as its starter sees it. Knows nothing of agents.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from io import BytesIO, FileIO, TextIOWrapper
from pathlib import Path

from support.checkout import REPOSITORY

PROGRAM = Path(__file__).with_name("zygote.py")
RUN = "exec(__import__('sys').argv[2], {'__name__': 'zygote'})"
"""Without a name in `__main__`, nor a folder in the module path, that its children would not have."""
BASE = {"PATH": os.defpath, "HOME": "/", "LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}
READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "COVERAGE_")
"""How the names of the variables begin that the interpreter and its libraries read."""
LONGEST = 100_000
"""Bytes of a request; what is longer starts as usual."""


class Forked:
    """As much of `subprocess.Popen` as the tests use, for a process that is another's child.

    :ivar returncode: None while it runs, and negative after a signal.
    """

    def __init__(self, pid: int, status: int, stdin: FileIO, stdout: FileIO, stderr: FileIO) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, status)  # not before the last thread has done with waiting for it

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        :raises subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code, where it has ended."""
        return self._look(0)

    def send_signal(self, sent: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sent)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, sent: bytes, timeout: float) -> tuple[bytes, bytes]:
        """Write all of its input, and return all of its stdout and stderr once it has ended.

        :raises subprocess.TimeoutExpired: it was killed after so many seconds.
        """
        read: dict[FileIO, bytes] = {}

        def write() -> None:
            left = memoryview(sent)
            with suppress(BrokenPipeError), self.stdin:
                while left:
                    left = left[self.stdin.write(left) :]

        def read_all(stream: FileIO) -> None:
            with stream:
                read[stream] = stream.readall()

        streams = (self.stdout, self.stderr)
        tasks = [partial(read_all, stream) for stream in streams]
        threads = [threading.Thread(target=task, daemon=True) for task in (write, *tasks)]
        for thread in threads:
            thread.start()
        try:
            self.wait(timeout)
        except BaseException:
            self.kill()
            self.wait()
            raise
        for thread in threads:
            thread.join()
        return read[self.stdout], read[self.stderr]

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


def start(module: str, words: Sequence[str] = (), *, cwd: Path, env: Mapping[str, str]) -> Started:
    """Start `python -m module` with a pipe, without a buffer, for each of stdin, stdout and stderr.

    :param words: its arguments.
    :param env: its whole environment.
    """
    return _fork(module, words, cwd, env) or subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def run(
    module: str, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` to its end, with all that it printed.

    :param timeout: seconds.
    :raises subprocess.TimeoutExpired: it was killed after so long.
    """
    command = [sys.executable, "-m", module, *words]
    process = _fork(module, words, cwd, env)
    if process is None:
        return subprocess.run(
            command, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
    printed = (TextIOWrapper(BytesIO(one)).read() for one in process.communicate(stdin.encode(), timeout))
    return subprocess.CompletedProcess(command, process.wait(), *printed)


def _fork(module: str, words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Forked | None:
    """Start it as another's child, unless it must be started as usual."""
    zygote = _zygote() if _possible() else None
    request = json.dumps({"module": module, "words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
    return None if zygote is None or len(request) > LONGEST or zygote.differs(env) else zygote.fork(request)


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
        noted = self._control.recv(1 << 16)
        if not noted:
            raise AssertionError(f"What the agents are forked from did not start:\n{self._process.communicate()[1]}")
        # Where the home is decides only where packages of the user's own would be.
        self._noted = frozenset(json.loads(noted)) - {"HOME"}

    def differs(self, env: Mapping[str, str]) -> bool:
        """Whether a process with this environment would have begun otherwise than this one has."""
        names = {*self._noted, *(name for name in {*env, *BASE} if name.startswith(READ_AT_START))}
        return any(env.get(name) != BASE.get(name) for name in names)

    def fork(self, request: bytes) -> Forked:
        stdin, to_stdin = os.pipe()
        from_stdout, stdout = os.pipe()
        from_stderr, stderr = os.pipe()
        status, told = os.pipe()
        theirs = [stdin, stdout, stderr, told]
        try:
            socket.send_fds(self._control, [request], theirs)
        finally:
            for fd in theirs:
                os.close(fd)
        pid = _number(status)
        return Forked(pid, status, FileIO(to_stdin, "w"), FileIO(from_stdout), FileIO(from_stderr))

    def _end(self) -> None:
        self._control.close()
        self._process.communicate()


_zygote = cache(_Zygote)


@cache
def _possible() -> bool:
    """Whether processes can be forked, and their ends be waited for, as the zygote does it."""
    if sys.platform != "linux" or os.environ.get("ACP_AGENT_TEST_COLD"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def _number(fd: int) -> int:
    read = os.read(fd, 4)
    return int.from_bytes(read, "little", signed=True) if read else -signal.SIGKILL  # with the one that would have told
