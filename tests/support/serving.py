"""What an editor does for its agent: permissions, files with unsaved buffers,
terminals.

    agent.permission_answer = "reject_once"      # a kind or id of an option, "cancelled", or a callable(params) -> one
    agent.permission_hold = anyio.Event()        # answers wait for it
    agent.desk.unsaved["/repo/a.py"] = "text in the editor, not on disk"
    agent.desk.terminals["term-1"].output, .exit_code, .killed, .released

`support.client` calls the handlers.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from support.editors import Editor
from support.lines import AgentError
from support.pseudo_terminals import start_in_pseudo_terminal
from support.waiting import Changes

Params = Mapping[str, Any]
Handler = Callable[[Params], Awaitable[Any]]
Answer = str | Callable[[Params], str]
RESOURCE_NOT_FOUND = -32002


async def never_answer(params: Params) -> Any:
    """A handler for `agent.handlers`: what an editor does with a method that it does
    not know and ignores.
    """
    await anyio.sleep_forever()


@dataclass(slots=True)
class Terminal:
    """A command that the agent asked to run.

    :ivar exit_code: None while it runs, and when a signal ended it.
    :ivar signal: the name of the signal that ended it.
    """

    id: str
    params: Params
    process: subprocess.Popen[bytes]
    limit: int | None
    raw: bytearray = field(default_factory=bytearray)
    truncated: bool = False
    ended: bool = False
    killed: bool = False
    released: bool = False

    @property
    def output(self) -> str:
        return self.raw.decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        code = self.process.returncode
        return code if self.ended and code is not None and code >= 0 else None

    @property
    def signal(self) -> str | None:
        code = self.process.returncode
        return (
            signal.Signals(-code).name
            if self.ended and code is not None and code < 0
            else None
        )

    @property
    def exit_status(self) -> dict[str, Any]:
        return {"exitCode": self.exit_code, "signal": self.signal}

    async def pump(self, changes: Changes) -> None:
        """Read its output until it has ended."""
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        while True:
            await anyio.wait_readable(fd)
            try:
                chunk = os.read(fd, 1 << 16)
            except (
                OSError
            ):  # on Linux: no process has the pseudo-terminal open any more
                chunk = b""
            if not chunk:
                break
            self.raw += chunk
            if self.limit is not None and len(self.raw) > self.limit:
                self.truncated = True
                del self.raw[: len(self.raw) - self.limit]
                # The rest of a character that was cut.
                while self.raw and self.raw[0] & 0xC0 == 0x80:
                    del self.raw[0]
            changes.notify()
        await anyio.to_thread.run_sync(self.process.wait, abandon_on_cancel=True)
        self.ended = True
        changes.notify()

    def kill(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):  # it ended this moment
                os.killpg(self.process.pid, signal.SIGKILL)

    def kill_first(self) -> None:
        """Kill only the process that the editor started, not its children, as some
        editors do.
        """
        self.process.kill()


class Desk:
    """The editor's side of one connection.

    :ivar unsaved: text of open buffers by absolute path; read before the disk, dropped
        when the agent writes.
    :ivar permissions: params of every `session/request_permission`.
    :ivar reads: paths that were read, in order.
    :ivar writes: (path, content) in order.
    :ivar terminals: every terminal, released ones too, by id.
    """

    def __init__(
        self, editor: Editor, changes: Changes, spawn: Callable[..., object]
    ) -> None:
        self.editor = editor
        self.permission_answer: Answer = "allow_once"
        self.permission_hold: anyio.Event | None = None
        self.unsaved: dict[str, str] = {}
        self.permissions: list[Params] = []
        self.reads: list[str] = []
        self.writes: list[tuple[str, str]] = []
        self.terminals: dict[str, Terminal] = {}
        self._changes = changes
        self._spawn = spawn
        self._open_permissions: dict[str, set[anyio.Event]] = {}

    def handlers(self) -> dict[str, Handler]:
        handlers: dict[str, Handler] = {"session/request_permission": self.ask}
        if self.editor.files:
            handlers |= {
                "fs/read_text_file": self.read,
                "fs/write_text_file": self.write,
            }
        if self.editor.terminal:
            handlers |= {
                "terminal/create": self.create,
                "terminal/output": self.output,
                "terminal/wait_for_exit": self.wait_for_exit,
                "terminal/kill": self.kill,
                "terminal/release": self.release,
            }
        return handlers

    async def ask(self, params: Params) -> Any:
        self.permissions.append(params)
        self._changes.notify()
        cancelled = anyio.Event()
        waiting = self._open_permissions.setdefault(str(params.get("sessionId")), set())
        waiting.add(cancelled)
        try:
            if self.permission_hold is not None:
                await _first(self.permission_hold, cancelled)
        finally:
            waiting.discard(cancelled)
        answer = (
            self.permission_answer(params)
            if callable(self.permission_answer)
            else self.permission_answer
        )
        if cancelled.is_set() or answer == "cancelled":
            return {"outcome": {"outcome": "cancelled"}}
        for option in params["options"]:
            if answer in (option["optionId"], option["kind"]):
                return {
                    "outcome": {"outcome": "selected", "optionId": option["optionId"]}
                }
        raise AgentError(-32602, f"no option {answer!r} among {params['options']!r}")

    def cancel_permissions(self, session_id: str) -> None:
        """Answer the open permission requests of a session with `cancelled`, as a
        client that cancels must.
        """
        for event in self._open_permissions.get(session_id, ()):
            event.set()

    async def read(self, params: Params) -> Any:
        path = str(params["path"])
        self.reads.append(path)
        try:
            text = (
                self.unsaved[path] if path in self.unsaved else self._text(Path(path))
            )
        except (FileNotFoundError, NotADirectoryError):
            if self.editor.missing_file_is_empty:
                return {"content": ""}
            raise AgentError(
                RESOURCE_NOT_FOUND, "Resource not found", {"uri": path}
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise AgentError(
                -32603, "Internal error", {"details": str(error)}
            ) from None
        line = params.get("line")
        limit = params.get("limit")
        if line is not None or limit is not None:
            first = max((line or 1) - 1, 0)
            lines = text.splitlines(keepends=True)
            text = "".join(lines[first : None if limit is None else first + limit])
        return {"content": text}

    def _text(self, path: Path) -> str:
        return (
            path.read_text("utf-8", errors="ignore")
            if self.editor.loses
            else path.read_bytes().decode()
        )

    async def write(self, params: Params) -> Any:
        path = Path(params["path"])
        self.writes.append((str(path), params["content"]))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(params["content"].encode())
        except OSError as error:
            raise AgentError(
                -32603, "Internal error", {"details": str(error)}
            ) from None
        self.unsaved.pop(str(path), None)
        return (
            None if self.editor.write_result is None else dict(self.editor.write_result)
        )

    async def create(self, params: Params) -> Any:
        env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
        env |= {
            variable["name"]: variable["value"] for variable in params.get("env") or ()
        }
        argv = [params["command"], *(params.get("args") or ())]
        try:
            if self.editor.pseudo_terminals:
                process = await anyio.to_thread.run_sync(
                    start_in_pseudo_terminal, argv, params.get("cwd"), env
                )
            else:
                process = subprocess.Popen(
                    argv,
                    cwd=params.get("cwd"),
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise AgentError(
                -32603, "Internal error", {"details": str(error)}
            ) from None
        terminal = Terminal(
            f"term-{len(self.terminals) + 1}",
            params,
            process,
            params.get("outputByteLimit"),
        )
        self.terminals[terminal.id] = terminal
        self._spawn(terminal.pump, self._changes)
        return {"terminalId": terminal.id}

    async def output(self, params: Params) -> Any:
        terminal = self._terminal(params)
        answer: dict[str, Any] = {
            "output": terminal.output,
            "truncated": terminal.truncated,
        }
        return (
            {**answer, "exitStatus": terminal.exit_status} if terminal.ended else answer
        )

    async def wait_for_exit(self, params: Params) -> Any:
        terminal = self._terminal(params)
        await self._changes.until(lambda: terminal.ended, float("inf"), str)
        return terminal.exit_status

    async def kill(self, params: Params) -> Any:
        if self.editor.kill_fails:
            raise AgentError(-32602, "Invalid params", "sessionID is missing")
        terminal = self._terminal(params)
        terminal.killed = True
        terminal.kill()
        return {}

    async def release(self, params: Params) -> Any:
        terminal = self._terminal(params)
        terminal.released = True
        terminal.kill()
        return {}

    def close(self) -> None:
        for terminal in self.terminals.values():
            terminal.kill()
            terminal.process.wait()
            if terminal.process.stdout is not None:
                terminal.process.stdout.close()

    def _terminal(self, params: Params) -> Terminal:
        terminal = self.terminals.get(str(params.get("terminalId")))
        if terminal is None or terminal.released:
            raise AgentError(
                RESOURCE_NOT_FOUND,
                "Resource not found",
                {"terminalId": params.get("terminalId")},
            )
        return terminal


async def _first(*events: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        for event in events:
            tasks.start_soon(wait, event)
