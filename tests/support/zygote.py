"""A process that has imported the agent and the SDKs and is forked for each request:
what `support.forked` runs.

It has one thread. Linux alone.

A request is one message on the descriptor that it is given: JSON with `module`,
`words`, `cwd`, `env` and whether stdin is to be its controlling `terminal`, and four
descriptors: stdin, stdout, stderr, and where four bytes each are written of the child's
id and of its exit status.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import termios
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

PRELOADED = (
    "anthropic",
    "anyio._backends._asyncio",
    "encodings.idna",
    "httpcore2",
    "jsonschema",
    "mcp",
    "openai",
)
LONGEST = 1 << 20
"""Bytes of a request."""


def preload() -> None:
    """Import all of the agent, and what it loads by name or with a first request."""
    gc.disable()
    package = import_module("acp_agent")
    own = (module.name for module in walk_packages(package.__path__, "acp_agent."))
    for name in (*own, *PRELOADED):
        if not name.endswith("__main__"):
            import_module(name)
    gc.freeze()  # so that the children do not copy it all with their first collection
    gc.enable()
    assert threading.active_count() == 1


def serve(control: socket.socket) -> dict[str, Any]:
    """Fork for each request. Returns in a child alone, with its request; ends with the
    other end of `control`.
    """
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.data is not None:
                pid, told = key.data
                waiting.unregister(key.fd)
                tell(told, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(told)
                os.close(key.fd)
                continue
            data, fds, _, _ = socket.recv_fds(control, LONGEST, 4)
            if not data:
                os._exit(0)
            if (pid := os.fork()) == 0:
                waiting.close()
                control.close()
                return become(json.loads(data), fds)
            *streams, told = fds
            tell(told, pid)
            for fd in streams:
                os.close(fd)
            waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))


def tell(fd: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(fd, number.to_bytes(4, "little", signed=True))


def become(request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    """Take on everything in which a new process would differ from this one."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # As the interpreter makes it where it finds a terminal.
        vars(sys)["stdout"].reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.path[0] = str(Path.cwd())
    sys.argv = ["-m", *request["words"]]
    sys.orig_argv = [sys.executable, "-m", request["module"], *request["words"]]
    return request


if __name__ == "zygote":
    # An interrupt from the keyboard goes to all: the tests end then, and with them
    # this.
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as control:
        preload()
        control.send(b"ready")
        request = serve(control)
    signal.signal(signal.SIGINT, interrupt)
    # From here on as the interpreter does it for `-m`, down to how it ends.
    vars(runpy)["_run_module_as_main"](request["module"])
