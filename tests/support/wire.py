"""A process whose stdin and stdout carry JSON-RPC, one message on a line: the raw
client under `support.client`.

handle = await wire.start_request("session/prompt", {...})
result = await handle.result(timeout=10)            # or AgentError(code, message, data)
line = await wire.wait_for(lambda line: line.method == "session/update")
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup

from support.forked import Started
from support.lines import AgentError, Kind, Line, parse
from support.waiting import Changes

CHUNK = 1 << 20


class AgentGoneError(Exception):
    """The process closed its stdout before it answered."""


class Pending:
    """A request that has been sent.

    :ivar id: its JSON-RPC id.
    :ivar answer: the line that answered it, once there is one.
    """

    def __init__(self, wire: Wire, id: int | str, method: str) -> None:
        self.id = id
        self.method = method
        self.answer: Line | None = None
        self._wire = wire

    @property
    def done(self) -> bool:
        return self.answer is not None

    async def result(self, timeout: float = 10) -> Any:
        """Wait for the answer.

        :param timeout: seconds.
        :raises AgentError: when the answer is an error.
        :raises AgentGoneError: when the process closes its stdout instead.
        :raises TimeoutError: when nothing comes.
        """
        await self._wire.until(
            lambda: self.done or self._wire.eof, timeout, f"an answer to {self.method}"
        )
        if self.answer is None:
            raise AgentGoneError(
                f"no answer to {self.method}: the process has gone\n{self._wire.report()}"
            )
        if self.answer.kind == "error":
            error = self.answer.message["error"]
            raise AgentError(error.get("code"), error.get("message"), error.get("data"))
        return self.answer.message["result"]

    async def cancel(self) -> None:
        """Send `$/cancel_request` for it."""
        await self._wire.notify("$/cancel_request", {"requestId": self.id})


class Wire:
    """The process, its lines and the requests that wait for an answer.

    :ivar lines: everything that was received, in order.
    :ivar sent: everything that was sent, in order.
    :ivar problems: what was wrong with what was received; `start_agent` fails the test
        for them at its end.
    :ivar eof: the process has closed its stdout.
    :ivar exited: it has ended.
    """

    def __init__(self, process: Started) -> None:
        self.process = process
        self.lines: list[Line] = []
        self.sent: list[Line] = []
        self.problems: list[str] = []
        self.eof = False
        self.changes = Changes()
        self._stderr = bytearray()
        self.exited = False
        self._reading = anyio.Event()
        self._reading.set()
        self._writing = anyio.Lock()
        self._pending: dict[int | str, Pending] = {}
        self._last_id = 0
        self._null_id_errors_read = 0

    async def request(
        self, method: str, params: Any = None, timeout: float = 10
    ) -> Any:
        return await (await self.start_request(method, params)).result(timeout)

    async def start_request(
        self, method: str, params: Any = None, *, id: int | str | None = None
    ) -> Pending:
        """Send a request and return at once.

        :param id: a JSON-RPC id of one's own; by default the next number.
        """
        if id is None:
            self._last_id += 1
            id = self._last_id
        pending = self._pending[id] = Pending(self, id, method)
        await self._send(
            {
                "id": id,
                "method": method,
                **({} if params is None else {"params": params}),
            }
        )
        return pending

    def pending(self, id: int | str) -> Pending:
        """The request with this id, also one that was sent by `send_line`.

        :raises KeyError: when none was sent.
        """
        return self._pending[id]

    async def notify(self, method: str, params: Any = None) -> None:
        await self._send(
            {"method": method, **({} if params is None else {"params": params})}
        )

    async def send_line(self, data: bytes) -> None:
        await self._write(data if data.endswith(b"\n") else data + b"\n")

    async def send_bytes(self, data: bytes) -> None:
        """Send any bytes as they stand, half a line too."""
        await self._write(data)

    async def _send(self, message: dict[str, Any]) -> None:
        await self._write(
            json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()
            + b"\n"
        )

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            # Recorded before the write: an answer can be here before the write returns.
            for raw in data.split(b"\n"):
                for message, kind in parse(raw) if raw else ():
                    id = message.get("id")
                    if isinstance(id, int | str) and kind in ("request", "invalid"):
                        self._pending.setdefault(
                            id, Pending(self, id, str(message.get("method", "")))
                        )
                    self._note(False, raw, message, kind, self._method(message, kind))
            assert self.process.stdin is not None
            fd = self.process.stdin.fileno()
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(fd, view) :]
                except BlockingIOError:
                    await anyio.wait_writable(fd)

    async def wait_for(
        self, wanted: Callable[[Line], bool], timeout: float = 5, *, since: int = 0
    ) -> Line:
        """Wait for the first received line that `wanted` accepts; one that is already
        here counts.

        :param since: index in `lines` to begin with; `len(agent.lines)` means only what
            comes from now on.
        :raises TimeoutError: with the last lines and stderr in its text.
        """
        seen = since

        def look() -> Line | None:
            nonlocal seen
            while seen < len(self.lines):
                seen += 1
                if wanted(self.lines[seen - 1]):
                    return self.lines[seen - 1]
            return None

        return await self.until(look, timeout, "such a line")

    async def until(
        self, look: Callable[[], Any], timeout: float = 5, what: str = "that condition"
    ) -> Any:
        """Wait until `look` returns something true; it is asked again after every line
        in either direction.

        :raises TimeoutError: with the last lines and stderr in its text.
        """
        return await self.changes.until(
            lambda: look() or None, timeout, lambda: f"{what}\n{self.report()}"
        )

    async def read_error_with_null_id(self) -> AgentError:
        """Wait for the next error whose id is null (each is returned once)."""
        line = await self.wait_for(
            lambda line: line.kind == "error" and line.message.get("id") is None,
            since=self._null_id_errors_read,
        )
        self._null_id_errors_read = line.index + 1
        error = line.message["error"]
        return AgentError(error["code"], error["message"], error.get("data"))

    def methods_between(self, start: Line | int, end: Line | None = None) -> list[str]:
        """The labels of the received lines after `start` and before `end`:
        `["tool_call", "response session/prompt"]`.

        :param start: a line, or an index in `lines`, which is included.
        """
        first = start.index + 1 if isinstance(start, Line) else start
        return [line.label for line in self.lines[first : end and end.index]]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace")

    async def close_stdin(self) -> None:
        assert self.process.stdin is not None
        async with self._writing:
            self.process.stdin.close()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()

    async def wait_exit(self, timeout: float = 5) -> int:
        """Wait until the process has ended and all of its output was read, and return
        its exit code.

        :raises TimeoutError: when it does not.
        """
        await self.until(lambda: self.exited, timeout, "the end of the process")
        with anyio.move_on_after(1):  # a child that inherited stdout may hold it open
            await self.changes.until(lambda: self.eof, 2, str)
        return self.process.wait()

    def stop_reading(self) -> None:
        """Leave the agent's output in the pipe, as a slow editor does."""
        self._reading = anyio.Event()

    def go_on_reading(self) -> None:
        self._reading.set()

    def report(self) -> str:
        """The last lines in both directions and stderr, for the text of an error."""
        traffic = sorted(self.lines + self.sent, key=lambda line: line.order)[-12:]
        shown = [
            f"  {'<-' if line.received else '->'} {line.raw[:400].decode(errors='replace')}"
            for line in traffic
        ]
        end = (
            f"  exit code {self.process.returncode}"
            if self.exited
            else "  still running"
        )
        return "\n".join(
            [*self.problems, *shown, end, "  stderr: " + self.stderr[-2000:]]
        )

    def run(self, tasks: TaskGroup) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
        tasks.start_soon(self._read_stdout)
        tasks.start_soon(self._read_stderr)
        tasks.start_soon(self._wait)

    def handle(self, line: Line) -> None:
        """Called with every received line; a subclass serves requests here."""

    async def _wait(self) -> None:
        await anyio.to_thread.run_sync(self.process.wait, abandon_on_cancel=True)
        self.exited = True
        self.changes.notify()

    async def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        rest = bytearray()
        while chunk := await self._read(fd, gated=True):
            searched = len(rest)
            rest += chunk
            start = 0
            while (end := rest.find(b"\n", max(start, searched))) >= 0:
                self._receive(bytes(rest[start:end]))
                start = end + 1
            del rest[:start]
        if rest:
            self.problems.append(f"the last line has no newline: {bytes(rest[:200])!r}")
            self._receive(bytes(rest))
        self.eof = True
        self.changes.notify()

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := await self._read(self.process.stderr.fileno(), gated=False):
            self._stderr += chunk
            self.changes.notify()

    async def _read(self, fd: int, *, gated: bool) -> bytes:
        while True:
            await anyio.wait_readable(fd)
            if gated:
                await self._reading.wait()
            try:
                return os.read(fd, CHUNK)
            except BlockingIOError:
                continue

    def _receive(self, raw: bytes) -> None:
        for message, kind in parse(raw):
            line = self._note(True, raw, message, kind, self._method(message, kind))
            if kind == "invalid":
                self.problems.append(f"not a JSON-RPC message on stdout: {raw[:200]!r}")
            elif kind in ("response", "error"):
                self._settle(line)
            self.handle(line)
        self.changes.notify()

    def _settle(self, line: Line) -> None:
        id = line.message["id"]
        pending = self._pending.get(id) if isinstance(id, int | str) else None
        if pending is None:
            if line.kind == "response" or id is not None:
                self.problems.append(
                    f"an answer to nothing that was asked: {line.raw[:200]!r}"
                )
        elif pending.answer is not None:
            self.problems.append(
                f"a second answer to {pending.method}: {line.raw[:200]!r}"
            )
        else:
            pending.answer = line

    def _method(self, message: Mapping[str, Any], kind: Kind) -> str:
        if kind not in ("response", "error"):
            return str(message.get("method", ""))
        pending = (
            self._pending.get(message["id"])
            if isinstance(message["id"], int | str)
            else None
        )
        return pending.method if pending else ""

    def _note(
        self,
        received: bool,
        raw: bytes,
        message: Mapping[str, Any],
        kind: Kind,
        method: str,
    ) -> Line:
        where = self.lines if received else self.sent
        order = len(self.lines) + len(self.sent)
        line = Line(received, len(where), order, raw, message, kind, method)
        where.append(line)
        if not received:
            self.changes.notify()
        return line
