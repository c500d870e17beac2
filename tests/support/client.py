"""An editor for the tests: runs an agent as a real process and talks ACP with it over
stdin and stdout.

    async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
        session = await agent.new_session(repo.path)
        turn = await agent.start_prompt(session, "Fix the test")      # or: await agent.prompt(session, "Fix the test")
        await agent.wait_update("tool_call", status="pending")
        await agent.cancel(session)
        assert await turn.result() == {"stopReason": "cancelled"}
        assert agent.text() == "..." and agent.updates(kind="plan")

At its end the test fails when the agent sent something that the official schema does
not know (`validate`), broke a rule of `support.laws` (`laws`), did not exit on EOF, or
left a process behind. These are `agent.problems`; a test that expects one clears the
list. `agent.handlers[method] = async_function` replaces an answer; `agent.desk` has
files, terminals and permissions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.abc

from support import checkout, forked
from support.conversation import Conversation
from support.editors import ZED, Editor
from support.laws import Laws
from support.lines import AgentError, Line
from support.processes import Process, descendants, marked, outlive
from support.schema import SchemaViolationError, validate_outgoing
from support.serving import Answer, Desk, Handler
from support.wire import AgentGoneError, Pending

__all__ = [
    "AgentError",
    "AgentGoneError",
    "AgentProcess",
    "Line",
    "Pending",
    "connected_agent",
    "start_agent",
]

ROOT = checkout.REPOSITORY
MARK = "ACP_AGENT_TEST_MARK"
EXIT_SECONDS = 5.0
Start = Callable[..., AbstractAsyncContextManager["AgentProcess"]]
in_memory: Start | None = None
"""What `start_agent` does in place of starting a process: for tests of the contract,
which cannot choose; set by tests/conftest.py.
"""


class AgentProcess(Conversation):
    """An agent under test and the editor that drives it; made by `start_agent`.

    :ivar editor: what this client pretends to be.
    :ivar handlers: answers to the agent's requests, by method: `async def
        handler(params) -> result`.
    :ivar desk: the default answers and what they saw: `permissions`, `unsaved`,
        `reads`, `writes`, `terminals`.
    :ivar opened: result of the `session/new`, `load` or `resume` that opened a session,
        by session id.
    :ivar initialized: the result of `initialize`.
    """

    def __init__(
        self,
        process: forked.Started,
        *,
        editor: Editor,
        mark: str,
        validate: bool,
        laws: bool,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        super().__init__(process)
        self.editor = editor
        self.desk = Desk(editor, self.changes, tasks.start_soon)
        self.handlers: dict[str, Handler] = self.desk.handlers()
        self.opened: dict[str, dict[str, Any]] = {}
        self.initialized: dict[str, Any] = {}
        self._tasks = tasks
        self._mark = mark
        self._validate = validate
        self._laws = Laws(editor) if laws else None
        self._judged_sent = 0
        self._serving: dict[Any, anyio.CancelScope] = {}

    async def initialize(self, **over: Any) -> dict[str, Any]:
        """Send `initialize` as this editor does; keywords replace or add params."""
        params: dict[str, Any] = {"protocolVersion": 1}
        if self.editor.says_capabilities:
            params["clientCapabilities"] = self.editor.capabilities
        if self.editor.info is not None:
            params["clientInfo"] = dict(self.editor.info)
        self.initialized = await self.request("initialize", params | over)
        return self.initialized

    async def new_session(self, cwd: Path | str, **over: Any) -> str:
        """Open a session; its id is returned, the whole result stands in `opened`."""
        result = await self.request("session/new", self._opening(cwd) | over)
        self.opened[result["sessionId"]] = result
        return result["sessionId"]

    async def load(
        self, session_id: str, cwd: Path | str, timeout: float = 10, **over: Any
    ) -> dict[str, Any]:
        return await self._open("session/load", session_id, cwd, timeout, over)

    async def resume(
        self, session_id: str, cwd: Path | str, timeout: float = 10, **over: Any
    ) -> dict[str, Any]:
        return await self._open("session/resume", session_id, cwd, timeout, over)

    async def start_prompt(
        self, session_id: str, prompt: str | Sequence[Mapping[str, Any]], **over: Any
    ) -> Pending:
        """Send a prompt and return at once.

        :param prompt: text, or content blocks.
        """
        blocks = (
            [{"type": "text", "text": prompt}]
            if isinstance(prompt, str)
            else list(prompt)
        )
        return await self.start_request(
            "session/prompt", {"sessionId": session_id, "prompt": blocks, **over}
        )

    async def prompt(
        self,
        session_id: str,
        prompt: str | Sequence[Mapping[str, Any]],
        timeout: float = 20,
        **over: Any,
    ) -> dict[str, Any]:
        return await (await self.start_prompt(session_id, prompt, **over)).result(
            timeout
        )

    async def cancel(self, session_id: str) -> None:
        """Send `session/cancel`, and answer the session's open permission requests with
        `cancelled`.
        """
        await self.notify("session/cancel", {"sessionId": session_id})
        self.desk.cancel_permissions(session_id)

    async def set_mode(self, session_id: str, mode_id: str) -> Any:
        return await self.request(
            "session/set_mode", {"sessionId": session_id, "modeId": mode_id}
        )

    async def set_config_option(
        self, session_id: str, config_id: str, value: str
    ) -> Any:
        params = {"sessionId": session_id, "configId": config_id, "value": value}
        return await self.request("session/set_config_option", params)

    @property
    def permission_answer(self) -> Answer:
        """What permission requests are answered with: a kind of option, `cancelled`, or
        a callable that picks one.
        """
        return self.desk.permission_answer

    @permission_answer.setter
    def permission_answer(self, answer: Answer) -> None:
        self.desk.permission_answer = answer

    @property
    def permission_hold(self) -> anyio.Event | None:
        """Permission requests are answered only when this is set; None answers at once."""
        return self.desk.permission_hold

    @permission_hold.setter
    def permission_hold(self, hold: anyio.Event | None) -> None:
        self.desk.permission_hold = hold

    def children(self) -> set[Process]:
        """The processes that the agent has started and that still run, whoever is their
        parent now; without the shell that ends them if it is killed, and that ends with
        it.
        """
        return {
            process
            for process in self._family()
            if "acp-agent-watchdog" not in process.command
        }

    def _family(self) -> set[Process]:
        found = descendants(self.pid) | marked(self._mark)
        return {process for process in found if process.pid != self.pid}

    def handle(self, line: Line) -> None:
        self._judge(line)
        if line.kind == "request":
            # Made here and not in the task, so that a cancellation in the next line
            # finds it.
            scope = self._serving[line.message["id"]] = anyio.CancelScope()
            self._tasks.start_soon(self._serve, line, scope)
        elif line.method == "$/cancel_request":
            if scope := self._serving.get(line.params.get("requestId")):
                scope.cancel()
        elif line.update_kind in self.editor.refuses:
            self._tasks.start_soon(
                self._answer,
                {"id": None, "error": {"code": -32602, "message": "Invalid params"}},
            )

    def _judge(self, line: Line) -> None:
        if self._laws is not None:
            for sent in self.sent[self._judged_sent :]:
                self._laws.judge(sent)
            self._judged_sent = len(self.sent)
            self.problems += self._laws.judge(line)
        # The wire complains of all else.
        if self._validate and (line.method or line.kind == "error"):
            try:
                validate_outgoing(line.message, line.method or None)
            except SchemaViolationError as error:
                self.problems.append(
                    f"{line.label} is not what the schema says: {error}"
                )

    async def _serve(self, line: Line, scope: anyio.CancelScope) -> None:
        id = line.message["id"]
        answer: dict[str, Any] = {
            "id": id,
            "error": {"code": -32800, "message": "Request cancelled"},
        }
        with scope:
            try:
                handler = self.handlers.get(line.method)
                if handler is None:
                    raise AgentError(-32601, "Method not found")
                answer = {"id": id, "result": await handler(line.params)}
            except AgentError as error:
                data = {} if error.data is None else {"data": error.data}
                answer = {
                    "id": id,
                    "error": {"code": error.code, "message": error.message, **data},
                }
            except Exception as error:  # a test's own handler is wrong: the test must hear of it, and the agent too
                self.problems.append(f"the handler of {line.method} raised {error!r}")
                answer = {"id": id, "error": {"code": -32603, "message": repr(error)}}
        self._serving.pop(id, None)
        await self._answer(answer)

    async def _answer(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except (
            BrokenPipeError,
            ValueError,
        ):  # the agent has gone, or its stdin was closed, meanwhile
            self.changes.notify()

    def _opening(self, cwd: Path | str) -> dict[str, Any]:
        return {
            "cwd": str(cwd),
            **({"mcpServers": []} if self.editor.sends_mcp_servers else {}),
        }

    async def _open(
        self,
        method: str,
        session_id: str,
        cwd: Path | str,
        timeout: float,
        over: dict[str, Any],
    ) -> dict[str, Any]:
        result = await self.request(
            method, {"sessionId": session_id, **self._opening(cwd), **over}, timeout
        )
        self.opened[session_id] = result
        return result

    async def finish(self) -> None:
        """Leave as an editor does that quits: close stdin, wait, look for what was left
        behind.
        """
        self.go_on_reading()
        started = self._family()
        if not self.exited:
            await self.close_stdin()
            try:
                code = await self.wait_exit(EXIT_SECONDS)
                if code != 0:
                    self.problems.append(f"exit code {code} after EOF on stdin")
            except TimeoutError:
                self.problems.append(
                    f"still running {EXIT_SECONDS:g} s after EOF on stdin"
                )
                self.kill()
                await self.wait_exit()
        own = {terminal.process.pid for terminal in self.desk.terminals.values()}
        started = {
            process for process in started | self._family() if process.pid not in own
        }
        for process in await outlive(started, seconds=2):
            self.problems.append(
                f"left behind: process {process.pid}: {process.command}"
            )
            os.kill(process.pid, 9)
        if (
            self._laws is not None
            and "Traceback (most recent call last)" in self.stderr
        ):
            self.problems.append("a traceback on stderr")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.desk.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@asynccontextmanager
async def start_agent(
    *,
    home: Path,
    env: Mapping[str, str | None] | None = None,
    argv: Sequence[str] | None = None,
    module: Sequence[str] = ("acp_agent",),
    cwd: Path | None = None,
    capabilities: Editor = ZED,
    validate: bool = True,
    laws: bool = True,
) -> AsyncGenerator[AgentProcess, None]:
    """Run an agent; nothing has been sent to it yet.

    :param home: HOME of the agent, and the parent of its state `home / "state"`; the
        same one again means a restart.
    :param env: added to PATH, HOME, LANG and ACP_AGENT_HOME, which are all that it
        inherits; None removes one of them.
    :param argv: by default this interpreter with `-m` and `module`.
    :param module: a module that ends in the agent's, with its arguments.
    :param cwd: where it runs; by default `home`.
    :param capabilities: the editor to be, see `support.editors`.
    :param validate: check everything that it sends against the official schema.
    :param laws: check the rules of `support.laws`, and that stderr has no traceback.
    :raises AssertionError: at the end, naming every problem, unless the body of the
        `async with` raised already.
    """
    if in_memory is not None:
        assert argv is None, "an agent in memory is not another program"
        options = {
            "cwd": cwd,
            "capabilities": capabilities,
            "validate": validate,
            "laws": laws,
        }
        async with in_memory(home=home, env=env, **options) as agent:
            yield agent
        return
    mark = uuid4().hex
    home.mkdir(parents=True, exist_ok=True)
    its = environment(home, mark, env or {}, own=argv is None)
    process = (
        forked.start(module[0], module[1:], cwd=cwd or home, env=its)
        if argv is None
        else subprocess.Popen(
            list(argv),
            cwd=cwd or home,
            env=its,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
    )
    tasks = anyio.create_task_group()
    agent = AgentProcess(
        process,
        editor=capabilities,
        mark=mark,
        validate=validate,
        laws=laws,
        tasks=tasks,
    )
    async with served(agent, tasks):
        yield agent


@asynccontextmanager
async def served(
    agent: AgentProcess, tasks: anyio.abc.TaskGroup
) -> AsyncGenerator[None, None]:
    """Around the conversation with an agent: its lines are read and answered, and at
    the end it leaves.

    :param tasks: not entered yet.
    :raises AssertionError: as `start_agent`.
    """
    failure: BaseException | None = None
    try:
        async with tasks:
            agent.run(tasks)
            try:
                yield
            except anyio.get_cancelled_exc_class():
                raise
            except (
                BaseException
            ) as error:  # pytest's own outcomes too; a task group would wrap it
                failure = error
            with anyio.CancelScope(shield=True):
                await agent.finish()
            tasks.cancel_scope.cancel()
    finally:
        agent.close()
    if failure is not None:
        failure.add_note(f"The conversation ended with:\n{agent.report()}")
        raise failure
    assert not agent.problems, "\n" + agent.report()


@asynccontextmanager
async def connected_agent(
    *, home: Path, **options: Any
) -> AsyncGenerator[AgentProcess, None]:
    """`start_agent`, and `initialize` has been answered."""
    async with start_agent(home=home, **options) as agent:
        await agent.initialize()
        yield agent


def environment(
    home: Path, mark: str, env: Mapping[str, str | None], *, own: bool
) -> dict[str, str]:
    """All environment variables of an agent.

    :param own: it is a process that has to find this checkout.
    """
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )
    base: dict[str, str | None] = {
        **checkout.environment(home),
        "PATH": path,
        MARK: mark,
    }
    if not own:
        del base["PYTHONPATH"]
    return {name: value for name, value in {**base, **env}.items() if value is not None}
