"""One MCP server of a session: starts it, lists its offer, and restarts it after a
crash. The server ends with the session.

Each server runs in one task, which enters and exits the SDK's client. Callers run in
their own tasks.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from acp_agent.config.settings import McpServer
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, Resource, UserPart
from acp_agent.errors import ToolError
from acp_agent.logfile import log_failure
from acp_agent.mcp.launch import DIRECTORY, relative_arguments
from acp_agent.mcp.model import (
    HandshakeRefusedError,
    Offer,
    ServerOptions,
    UnansweredError,
    identity,
    secrets,
    with_values,
    withheld_proxies,
)
from acp_agent.mcp.schemas.normalise import MAX_VALUES, input_schema, is_too_large
from acp_agent.mcp.tools import (
    DESCRIPTION_LIMIT,
    is_usable,
    needs_task,
    prompt_parts,
    resource_parts,
    result_parts,
    tool_names,
)
from acp_agent.secrets.text import mask
from acp_agent.tools.asked import arguments_fact, code_span, in_title
from acp_agent.tools.environment import Environment, Report
from acp_agent.tools.text import clean, cut_middle, one_line, title_line
from acp_agent.tools.tool import Access, CallResult, Fact, PreparedCall

if TYPE_CHECKING:
    from mcp.types import Tool

    from acp_agent.mcp.client import Mode, ServerConnection

T = TypeVar("T")
State: TypeAlias = Literal["starting", "ready", "restarting", "failed"]

RESTART_DELAYS = (0.0, 1.0, 5.0)
"""Seconds before each restart after a crash. After the last restart, the agent gives
up.
"""
_CALL_PATIENCE = 10.0
"""Seconds that a call waits for a server that is being restarted."""
_CALL = "answer this call"
_LIST_PAUSE = 0.5
"""Minimum seconds between two listings of what a server offers."""
_MOST_TOLD = 5
"""Maximum notices about unavailable tools, per server and session. A server could
invent new names forever.
"""

_log = logging.getLogger(__name__)


class _ServerHandle:
    """Sends requests to one server over its current connection.

    :param env: the agent's environment.
    :ivar name: the server's name as shown to the user.
    :ivar identity: digits that identify the server regardless of its name; see
        `model.identity`.
    :ivar connection: None while the server is not connected; `reason` then says why.
    """

    def __init__(self, server: McpServer, env: Mapping[str, str]) -> None:
        self.name = server.name
        self.identity = identity(server)
        self.state: State = "starting"
        self.reason = ""
        self.connection: ServerConnection | None = None
        self._secrets = secrets(server, env)
        self._changed = anyio.Event()

    def change(self, state: State) -> None:
        """Change the state, and wake the tasks that wait for a change."""
        self.state = state
        changed = self._changed
        self._changed = anyio.Event()
        changed.set()

    async def settled(self) -> None:
        """Wait until the server's first start has succeeded or failed."""
        while self.state == "starting":
            await self._changed.wait()

    async def ask(
        self, ask: Callable[[ServerConnection], Awaitable[T]], what: str
    ) -> T:
        """Send the server a request, once it is connected.

        :param what: the verb phrase after "did not" in the error message if the request
            fails.
        :raises ToolError: if there is no answer. The message says why.
        """
        with anyio.move_on_after(_CALL_PATIENCE):
            while self.state != "failed" and (
                self.connection is None or self.connection.watch.lost.is_set()
            ):
                await self._changed.wait()
        connection = self.connection
        try:
            if connection is None:
                raise ToolError(
                    f"it is not running: {self.reason or 'it has not answered yet'}"
                )
            return await ask(connection)
        except ToolError as error:
            text = f"did not {what}: {error}"
            if isinstance(error, UnansweredError) and what == _CALL:
                text = f"did not {what}, which may or may not have run: {error}"
            if connection is not None and (
                connection.watch.lost.is_set() or self.connection is not connection
            ):
                text = (
                    f"exited during this call, which may or may not have run: {error}"
                )
            text = self.masked(f"The MCP server {self.name!r} {text}")
            raise ToolError(f"{text.rstrip('.')}.") from error

    def masked(self, text: str) -> str:
        """Return a text with the secret values of the server's entry masked."""
        return mask(text, self._secrets)


class SessionServer:
    """One server of one session. It is available only while `run` runs.

    :param short: the server's part in the names of its tools and prompts.
    :param tell: shows a sentence to the user; repeated sentences are shown only once.
    :param changed: called when the server's offer has changed.
    :ivar name: the server's name as shown to the user.
    :ivar offer: the server's last offer, also while it is not connected; the same
        applies to `tools`.
    :ivar was_ready: whether the server has been ready at least once.
    :ivar ask: see `_ServerHandle`, also for `settled`.
    """

    def __init__(
        self,
        server: McpServer,
        short: str,
        options: ServerOptions,
        tell: Callable[[str], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        self._server = server
        self.name = server.name
        self.short = short
        self._options = options
        self._tell = tell
        self._changed = changed
        self._handle = _ServerHandle(server, options.env)
        self.ask = self._handle.ask
        self.settled = self._handle.settled
        self.offer = Offer()
        self.was_ready = False
        self.tools: tuple[_McpTool, ...] = ()
        self._mode: Mode = "auto" if server.transport == "acp" else "legacy"
        self._wanted = anyio.Event()
        self._told = 0

    @property
    def state(self) -> State:
        """Return the state of the server."""
        return self._handle.state

    @property
    def reason(self) -> str:
        """Return why the server is not running."""
        return self._handle.reason

    async def run(self) -> None:
        """Keep the server running until this task is cancelled."""
        while True:
            await self._run_until_given_up()
            await self._wanted.wait()
            self._wanted = anyio.Event()
            self._handle.change("restarting")  # from here on, calls wait for the server

    def revive(self) -> None:
        """Try to start the server again if the agent had given up."""
        if self.state == "failed":
            self._wanted.set()

    async def prompt(
        self, name: str, arguments: dict[str, str]
    ) -> tuple[UserPart, ...]:
        """Return a prompt that the server renders.

        :raises ToolError: if the server cannot render it. The message says why.
        """
        made = await self.ask(
            lambda there: there.ask(lambda client: client.get_prompt(name, arguments)),
            f"return the prompt {name!r}",
        )
        return prompt_parts(made.messages)

    async def read(self, uri: str) -> tuple[Resource, ...]:
        """Read a resource.

        :raises ToolError: if it cannot be read. The message says why.
        """
        found = await self.ask(
            lambda there: there.ask(lambda client: client.read_resource(uri)),
            f"return {one_line(uri)}",
        )
        return resource_parts(found.contents)

    # --- lifecycle ---

    async def _run_until_given_up(self) -> None:
        """Start the server, and restart it after each crash until the agent gives up."""
        was_ready = False
        for delay in (*RESTART_DELAYS, None):
            self._handle.reason = self._handle.masked(await self._run_once())
            was_ready = was_ready or self.state == "ready"
            if not was_ready or delay is None:
                break
            _log.warning(
                "the MCP server %s exited and is being restarted: %s",
                self.name,
                self.reason,
            )
            self._handle.change("restarting")
            await anyio.sleep(delay)
        what = "keeps exiting" if was_ready else "could not be started"
        self._handle.change("failed")
        _log.warning("the MCP server %s %s: %s", self.name, what, self.reason)
        text = f"The MCP server {self.name!r} {what}: {self.reason}".rstrip(".")
        more = (
            "Each prompt tries to start it once more. The session continues without it."
        )
        if not was_ready and (
            names := withheld_proxies(self._server, self._options.env)
        ):
            more += (
                f" It does not inherit {' and '.join(names)} from the agent's environment, which hold a login. If it"
                f' needs that proxy to reach the network, add `env: {{{names[0]}: "${{{names[0]}}}"}}` to its entry.'
            )
        if not was_ready and (paths := relative_arguments(self._server)):
            more += (
                f" It starts in {DIRECTORY} and not in the session's directory, so {paths[0]!r} points elsewhere."
                " Use a full path or, in config.yaml, `${ACP_AGENT_PROJECT_DIR}`, which is the session's directory."
            )
        await self._tell(f"{text}. {more}")

    async def _run_once(self) -> str:
        """Start the server, and wait until it has exited or its connection is lost.

        :returns: why the server is gone.
        """
        try:
            server = with_values(self._server, self._options.env)
            try:
                return await self._connected(server)
            except HandshakeRefusedError:
                self._mode = "auto"
                return await self._connected(server)
        except ToolError as error:
            return str(error)
        except Exception as error:
            return log_failure(
                _log,
                f"Speaking with the MCP server {self.name!r} failed inside the agent",
                error,
            )
        finally:
            self._handle.connection = None

    async def _connected(self, server: McpServer) -> str:
        seconds = self._options.start_seconds
        with anyio.move_on_after(seconds) as scope:
            client = await anyio.to_thread.run_sync(
                importlib.import_module, "acp_agent.mcp.client", abandon_on_cancel=True
            )
            async with client.connect(server, self._options, self._mode) as connection:
                await self._list(connection)
                self.was_ready = True
                self._handle.connection = connection
                scope.deadline = math.inf
                _log.info(
                    "the MCP server %s is ready: %d tools", self.name, len(self.tools)
                )
                self._handle.change("ready")
                self._changed()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(connection.listen)
                    tasks.start_soon(self._follow, connection)
                    tasks.start_soon(self._tell_overrun, connection)
                    await connection.watch.lost.wait()
                    tasks.cancel_scope.cancel()
                return connection.watch.reason or "it closed the connection"
        return f"it did not list what it offers within {seconds:g} seconds"

    # --- the offer ---

    async def _list(self, connection: ServerConnection) -> None:
        """List what the server offers, and tell the user which tools are unavailable.

        :raises ToolError: if the server did not list its tools; the previous offer is
            kept.
        """
        connection.watch.changed = anyio.Event()
        offer = await connection.offer()
        if offer == self.offer:
            return
        tools = [tool for tool in offer.tools if not needs_task(tool)]
        news = [tool.name for tool in offer.tools if tool not in self.offer.tools]
        large = {tool.name for tool in tools if is_too_large(tool.input_schema)}
        await self._tell_left_out(
            f"the schemas of their arguments have more than {MAX_VALUES:,} values",
            [tool.name for tool in tools if tool.name in large and tool.name in news],
        )
        tools = [tool for tool in tools if tool.name not in large]
        schemas = await anyio.to_thread.run_sync(_schemas, tools)
        await self._tell_left_out(
            "model providers do not accept the names of their arguments",
            [
                tool.name
                for tool in tools
                if tool.name not in schemas and tool.name in news
            ],
        )
        await self._tell_left_out(
            "they can only run as tasks, which this agent does not support",
            [
                tool.name
                for tool in offer.tools
                if needs_task(tool) and tool.name in news
            ],
        )
        self.offer = offer
        usable = {tool.name: tool for tool in reversed(tools) if tool.name in schemas}
        names = tool_names(
            self.short, (tool.name for tool in tools if tool.name in usable)
        )
        self.tools = tuple(
            _McpTool(self._handle, name, usable[tool], schemas[tool])
            for tool, name in names.items()
        )

    async def _tell_left_out(self, why: str, tools: Sequence[str]) -> None:
        if tools and self._told < _MOST_TOLD:
            self._told += 1
            names = one_line(", ".join(tools), 500)
            await self._tell(
                f"These tools of the MCP server {self.name!r} are left out, because {why}: {names}."
            )

    async def _tell_overrun(self, connection: ServerConnection) -> None:
        """Tell the user, once, if notifications from the server are dropped."""
        await connection.watch.overrun.wait()
        _log.warning("notifications of the MCP server %s are dropped", self.name)
        await self._tell(
            f"The MCP server {self.name!r} sends notifications faster than the agent reads them, so some are dropped. "
            "Progress lines may be missing, but results are complete."
        )

    async def _follow(self, connection: ServerConnection) -> None:
        """List the offer again whenever the server reports a change. If that fails,
        keep the previous offer. Listing takes up at most a third of the time, no matter
        how often the server reports changes.
        """
        while True:
            await connection.watch.changed.wait()
            began = anyio.current_time()
            try:
                with anyio.fail_after(self._options.start_seconds):
                    await self._list(connection)
                    self._changed()
            except (ToolError, TimeoutError) as error:
                reason = str(error) or "it did not answer in time"
                _log.warning(
                    "the MCP server %s did not list again what it offers: %s",
                    self.name,
                    reason,
                )
            taken = anyio.current_time() - began
            await anyio.sleep(max(_LIST_PAUSE, 2 * taken))


def _schemas(tools: Sequence[Tool]) -> dict[str, JsonObject]:
    """Return the schemas of the tools that providers accept, keyed by name. If two
    tools share a name, the first is used.
    """
    found: dict[str, JsonObject] = {}
    for tool in reversed(tools):
        schema = input_schema(tool.input_schema)
        if is_usable(schema):
            found[tool.name] = schema
    return found


class _McpTool:
    """A `Tool` that an MCP server runs.

    :param name: the tool's name for the model.
    :param schema: the schema of its arguments, in the form that providers accept.
    """

    def __init__(
        self, server: _ServerHandle, name: str, tool: Tool, schema: JsonObject
    ) -> None:
        self._server = server
        self._tool = tool
        self._reads = bool(tool.annotations and tool.annotations.read_only_hint)
        self.name = name
        self.description = cut_middle(clean(tool.description or ""), DESCRIPTION_LIMIT)
        self.input_schema = schema

    def preview(self, arguments: JsonObject) -> CallView:
        """Return the title and kind with which the call is announced."""
        title = (
            self._tool.title
            or (self._tool.annotations and self._tool.annotations.title)
            or self._tool.name
        )
        shown = f"{title_line(title, 80)} ({title_line(self._server.name, 30)})"
        return CallView(shown, "read" if self._reads else "other")

    async def prepare(
        self, arguments: JsonObject, environment: Environment
    ) -> PreparedCall:
        """Return the call. The server will check the arguments."""
        view = self.preview(arguments)

        async def run(report: Report) -> CallResult:
            answer = await self._server.ask(
                lambda there: there.call(
                    self._tool.name, arguments, report, environment
                ),
                _CALL,
            )
            # Checking images decodes them, which is slow.
            parts = await anyio.to_thread.run_sync(
                result_parts, answer, abandon_on_cancel=True
            )
            return CallResult(parts, view, is_error=bool(answer.is_error))

        effect = "read" if self._reads else "execute"
        # The subject includes the server's identity, so that a rule does not apply to
        # another server that later gets the same name.
        access = Access(effect, subject=f"{self.name} ({self._server.identity})")
        # The question uses the tool's name, since a server may give a tool any title.
        asked = f"{in_title(self._tool.name, 80)} ({in_title(self._server.name, 40)})"
        return PreparedCall(
            view, access, run, asked_title=asked, facts=self._facts(view, arguments)
        )

    def _facts(self, view: CallView, arguments: JsonObject) -> tuple[Fact, ...]:
        """Return the facts that a permission question shows about a call."""
        called = (
            ""
            if view.title.startswith(self._tool.name)
            else f"which the server calls {code_span(view.title)}"
        )
        server = Fact("MCP server", self._server.name)
        tool = Fact("Tool", self._tool.name, called)
        return (server, tool, arguments_fact(arguments))
