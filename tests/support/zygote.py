"""A process that has imported the SDKs, and is forked into an agent for each request: what `support.forked` runs.

Owns what is done around the fork, so that what comes of it is what `python -m` would have been with these words, in
this folder and with this environment. It has one thread. Knows nothing of agents. Linux alone.

A request is one message on the descriptor that it is given: JSON with `module`, `words`, `cwd` and `env`, and four
descriptors: stdin, stdout, stderr, and where four bytes each are written of the child's id and of its exit status.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

PRELOADED = (
    "acp_agent.app",
    "acp_agent.hooks.answers",
    "acp_agent.hooks.discovery",
    "acp_agent.hooks.executables",
    "acp_agent.hooks.handlers",
    "acp_agent.hooks.python_hooks",
    "acp_agent.hooks.rules",
    "acp_agent.llm.adapters.connection",
    "acp_agent.llm.client",
    "acp_agent.protocol.v1._models",
    "acp_agent.recipes.claude_commands",
    "acp_agent.recipes.front_matter",
    "acp_agent.recipes.parser",
    "acp_agent.secrets.text",
    "acp_agent.session.project.hooks",
    "acp_agent.session.project.surroundings",
    "acp_agent.session.turn.factory",
    "acp_agent.tools.ask_user",
    "acp_agent.tools.files.edit",
    "acp_agent.tools.files.read",
    "acp_agent.tools.files.write",
    "acp_agent.tools.plan",
    "acp_agent.tools.recall",
    "acp_agent.tools.search.glob",
    "acp_agent.tools.search.grep",
    "acp_agent.tools.search.list",
    "acp_agent.tools.shell.allow",
    "acp_agent.tools.shell.tool",
    "anthropic",
    "anyio._backends._asyncio",
    "concurrent.futures.thread",
    "encodings.idna",
    "encodings.utf_8_sig",
    "httpcore2",
    "httpx2",
    "jinja2",
    "jinja2.sandbox",
    "jsonschema",
    "mcp",
    "openai",
    "yaml",
)
"""What takes long to load, nine tenths of an agent that asks a model once, and first what every agent begins with."""
LONGEST = 1 << 20
"""Bytes of a request."""


class Noting(os._Environ[str]):
    """An environment that notes which of its variables are asked for."""

    noted: set[str] = set()  # noqa: RUF012

    def __getitem__(self, key: str) -> str:
        self.noted.add(key)
        return super().__getitem__(key)


def preload() -> list[str]:
    """Import all of `PRELOADED`, and say which variables of the environment were asked for by that."""
    gc.disable()
    plain = os.environ.__class__
    os.environ.__class__ = Noting
    try:
        for name in PRELOADED:
            importlib.import_module(name)
    finally:
        os.environ.__class__ = plain
    gc.freeze()  # so that the children do not copy it all with their first collection
    gc.enable()
    assert threading.active_count() == 1
    return sorted(Noting.noted)


def serve(control: socket.socket) -> dict[str, Any]:
    """Fork for each request. Returns in a child alone, with its request; ends with the other end of `control`."""
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    running: dict[int, tuple[int, int]] = {}
    while True:
        for key, _ in waiting.select():
            if key.fd in running:
                waiting.unregister(key.fd)
                pid, told = running.pop(key.fd)
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
            tell(fds[3], pid)
            for fd in fds[:3]:
                os.close(fd)
            ended = os.pidfd_open(pid)
            running[ended] = (pid, fds[3])
            waiting.register(ended, selectors.EVENT_READ)


def tell(fd: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(fd, number.to_bytes(4, "little", signed=True))


def become(request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    """Take on everything in which a new process would differ from this one."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.path[0] = str(Path.cwd())
    sys.argv = ["-m", *request["words"]]
    sys.orig_argv = [sys.executable, "-m", request["module"], *request["words"]]
    return request


if __name__ == "zygote":
    # An interrupt from the keyboard goes to all: the tests end then, and with them this.
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as control:
        control.send(json.dumps(preload()).encode())
        request = serve(control)
    signal.signal(signal.SIGINT, interrupt)
    # From here on as the interpreter does it for `-m`, down to how it ends.
    vars(runpy)["_run_module_as_main"](request["module"])
