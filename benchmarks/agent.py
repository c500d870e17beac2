"""The agent as a process, and the smallest client that can talk to it.

Stamps every line with the time at which it arrived and reads session updates only when
somebody asks, so that the client costs as little as possible of what is measured. Knows
nothing of the agent's insides.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.model_server import JsonObject
from benchmarks.processes import end_group

COMMAND = (sys.executable, "-m", "acp_agent")
CHECKOUT = Path(__file__).resolve().parent.parent
"""Where it is started, so that this checkout is what is measured."""
TIMEOUT = 60.0
"""Seconds after which an answer is taken not to come."""
_CAPABILITIES: JsonObject = {"session": {"compaction": {}}}
_UPDATE = b'"session/update"'
_HEAD = 100
_SENTENCE = b'The log says \\"once more\\".\\n'


@dataclass(frozen=True, slots=True)
class Answered:
    """A response's result, and the times of the request and of the response."""

    result: JsonObject
    sent: float
    received: float

    @property
    def ms(self) -> float:
        """From the one to the other."""
        return (self.received - self.sent) * 1000


class Agent:
    """A running agent; made by `start_agent`.

    :ivar started: when its process was asked for, by `perf_counter`.
    :ivar updates: the lines of `session/update` in the order of arrival, each with its
        time.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], started: float, stderr: Path
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the agent must be started with pipes")
        self.process = process
        self.started = started
        self._stderr = stderr
        self.updates: list[tuple[float, bytes]] = []
        self._stdin = process.stdin
        self._out = process.stdout.fileno()
        self._data = b""
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[tuple[float, JsonObject]]] = {}
        self._watchers: list[
            tuple[Callable[[JsonObject], bool], asyncio.Future[float]]
        ] = []
        self._ended = False
        os.set_blocking(self._out, False)
        asyncio.get_running_loop().add_reader(self._out, self._read)

    async def request(self, method: str, params: JsonObject) -> Answered:
        """Ask, and wait for the answer.

        :raises RuntimeError: it is an error, or the agent ended.
        """
        self._next_id += 1
        future = self._waiting[self._next_id] = (
            asyncio.get_running_loop().create_future()
        )
        line = _line(
            {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        )
        sent = perf_counter()
        self._write(line)
        received, message = await asyncio.wait_for(future, TIMEOUT)
        if "error" in message:
            raise RuntimeError(f"{method} was answered with {message['error']}")
        return Answered(message["result"], sent, received)

    def refusal(
        self, session_id: str, mebibytes: int, other_id: str
    ) -> Awaitable[tuple[float, float]]:
        """Make a prompt that is too large; when this is awaited, send it, and a cancel
        for another session behind it.

        :returns: milliseconds until the prompt was refused, and when the cancel was
            sent.
        """
        prompt = [{"type": "text", "text": "X"}]
        message = {
            "method": "session/prompt",
            "params": {"sessionId": session_id, "prompt": prompt},
        }
        text = _SENTENCE * ((mebibytes << 20) // len(_SENTENCE))
        line = _line({"jsonrpc": "2.0", "id": mebibytes << 20, **message}).replace(
            b"X", text
        )

        def write() -> float:
            self._write(line)
            return self.notify("session/cancel", {"sessionId": other_id})

        async def send() -> tuple[float, float]:
            answer = self._waiting[mebibytes << 20] = (
                asyncio.get_running_loop().create_future()
            )
            sent = perf_counter()
            cancelled = await asyncio.to_thread(write)
            received, message = await asyncio.wait_for(answer, TIMEOUT)
            if "error" not in message:
                raise RuntimeError(
                    f"a prompt of {mebibytes} MiB was answered with {message['result']}"
                )
            return (received - sent) * 1000, cancelled

        return send()

    def notify(self, method: str, params: JsonObject) -> float:
        """Say something that has no answer.

        :returns: when it was sent.
        """
        sent = perf_counter()
        self._write(_line({"jsonrpc": "2.0", "method": method, "params": params}))
        return sent

    async def until(self, wanted: Callable[[JsonObject], bool]) -> float:
        """Wait for an update that has not come yet.

        :param wanted: of the object under `update`.
        :returns: when it arrived.
        """
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._watchers.append((wanted, future))
        return await asyncio.wait_for(future, TIMEOUT)

    async def initialize(self) -> Answered:
        """The first request; the client offers no files and no terminals."""
        return await self.request(
            "initialize", {"protocolVersion": 1, "clientCapabilities": _CAPABILITIES}
        )

    async def new_session(self, cwd: Path) -> tuple[str, Answered]:
        """A new session's id, and its answer."""
        answered = await self.request(
            "session/new", {"cwd": str(cwd), "mcpServers": []}
        )
        return answered.result["sessionId"], answered

    async def prompt(
        self, session_id: str, text: str, *, stop_reason: str = "end_turn"
    ) -> Answered:
        """One turn.

        :raises RuntimeError: it did not end with this stop reason.
        """
        prompt = [{"type": "text", "text": text}]
        answered = await self.request(
            "session/prompt", {"sessionId": session_id, "prompt": prompt}
        )
        if answered.result["stopReason"] != stop_reason:
            raise RuntimeError(
                f"the turn ended with {answered.result['stopReason']}, not with {stop_reason}"
            )
        return answered

    def updates_since(self, start: int) -> list[tuple[float, JsonObject]]:
        """Updates from number `start` on, read."""
        return [
            (at, json.loads(line)["params"]["update"])
            for at, line in self.updates[start:]
        ]

    def close_stdin(self) -> float:
        """Tell it that the editor has gone.

        :returns: when.
        """
        at = perf_counter()
        self._stdin.close()
        return at

    def terminate(self) -> float:
        """Send SIGTERM.

        :returns: when.
        """
        at = perf_counter()
        self.process.send_signal(signal.SIGTERM)
        return at

    async def exited(self) -> float:
        """Wait until the process has ended.

        :returns: when that was noticed.
        :raises RuntimeError: its status was not 0.
        """

        def wait() -> float:
            self.process.wait()
            return perf_counter()

        at = await asyncio.wait_for(asyncio.to_thread(wait), TIMEOUT)
        if self.process.returncode != 0:
            raise RuntimeError(
                f"the agent exited with status {self.process.returncode}"
            )
        return at

    def stop_reading(self) -> None:
        """Let go of its output."""
        if not self._ended:
            self._ended = True
            asyncio.get_running_loop().remove_reader(self._out)
            said = self._stderr.read_text(errors="replace")[-1000:]
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(
                        RuntimeError(f"the agent ended without an answer. {said}")
                    )

    def _write(self, line: bytes) -> None:
        self._stdin.write(line)
        self._stdin.flush()

    def _read(self) -> None:
        try:
            chunk = os.read(self._out, 1 << 20)
        except BlockingIOError:
            return
        at = perf_counter()
        if not chunk:
            self.stop_reading()
            return
        *lines, self._data = (self._data + chunk).split(b"\n")
        for line in lines:
            if _UPDATE in line[:_HEAD]:
                self.updates.append((at, line))
                if self._watchers:
                    self._tell(at, line)
            else:
                self._receive(at, json.loads(line))

    def _tell(self, at: float, line: bytes) -> None:
        update: JsonObject = json.loads(line)["params"]["update"]
        for watcher in list(self._watchers):
            wanted, future = watcher
            if wanted(update):
                self._watchers.remove(watcher)
                if not future.done():
                    future.set_result(at)

    def _receive(self, at: float, message: JsonObject) -> None:
        if "method" not in message:
            future = self._waiting.pop(message["id"], None)
            if future is not None and not future.done():
                future.set_result((at, message))
        elif "id" in message:
            error = {"code": -32601, "message": "this client only measures"}
            self._write(_line({"jsonrpc": "2.0", "id": message["id"], "error": error}))


def environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """What the agent gets to see: nothing of the user's."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(home),
    } | {
        "ACP_AGENT_HOME": str(home / "state"),
        **more,
    }


@asynccontextmanager
async def start_agent(
    home: Path, env: Mapping[str, str], command: Sequence[str] = COMMAND
) -> AsyncGenerator[Agent]:
    """A fresh process, killed with all that it started when the block ends.

    :param home: stands for the user's home directory.
    """
    agent = _started(home, env, command)
    try:
        yield agent
    finally:
        agent.stop_reading()
        end_group(agent.process)


def _started(home: Path, env: Mapping[str, str], command: Sequence[str]) -> Agent:
    said = home / "stderr.txt"
    with said.open("wb") as stderr:
        started = perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(home, env),
            cwd=CHECKOUT,
            start_new_session=True,
        )
    return Agent(process, started, said)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
