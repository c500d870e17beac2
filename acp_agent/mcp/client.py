"""A connection to one MCP server, through the official SDK.

The SDK takes most of a second to load, so this module is imported in a worker thread,
and only if a session has servers.


Model Context Protocol, "Lifecycle" and "Server Features".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from operator import methodcaller
from typing import Any, Literal, TypeAlias, TypeVar, cast

import anyio
from mcp import Client, MCPError, UrlElicitationRequiredError, types
from mcp.client import Transport
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError

from acp_agent import __version__
from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError
from acp_agent.mcp.elicitation import Elicitations, fields_of
from acp_agent.mcp.flow import ProgressLines
from acp_agent.mcp.launch import launch
from acp_agent.mcp.model import (
    HandshakeRefusedError,
    Offer,
    ServerOptions,
    UnansweredError,
)
from acp_agent.mcp.stdio import over_stdio
from acp_agent.mcp.transports import (
    Watch,
    inspected,
    leaves_of,
    over_acp,
    over_http,
    over_sse,
)
from acp_agent.tools.environment import Environment, OutputArrived, Report
from acp_agent.tools.text import clean

Mode: TypeAlias = Literal["legacy", "auto"]
"""How the version is negotiated: by the handshake, or by asking for the version first.
Nearly all servers support the handshake, and some exit if the first request is anything
else.
"""
Changed: TypeAlias = (
    types.ToolListChangedNotification
    | types.PromptListChangedNotification
    | types.ResourceListChangedNotification
)
T = TypeVar("T")

_LISTEN_PAUSE = 5.0
"""Seconds before renewing a subscription that the server has ended."""
READ_SECONDS = 30.0
"""Time limit for a prompt, a resource, or a page of a list."""
_log = logging.getLogger(__name__)
_MAX_PAGES = 50
"""Maximum pages of one list, so that a server with an endless list cannot block the
agent.
"""
# This package logs the SDK's failures itself, without URLs or text from the server.
logging.getLogger("mcp").setLevel(logging.CRITICAL)


class ServerConnection:
    """A connection to a server that has completed the negotiation.

    :param server: its entry, with variables expanded.
    :param client: the SDK's client, already entered.
    :ivar watch: reports when and why the connection is lost, and when the server's
        lists have changed.
    """

    def __init__(
        self,
        server: McpServer,
        client: Client,
        watch: Watch,
        elicitations: Elicitations,
    ) -> None:
        self._server = server
        self._client = client
        self.watch = watch
        self._elicitations = elicitations

    async def offer(self) -> Offer:
        """List everything that the server offers.

        :raises ToolError: if the server did not list its tools. The message says why.
        """
        tools = await self._listed("tools")
        more: dict[str, list[Any]] = {"prompts": [], "resources": []}
        for kind in more:
            try:
                more[kind] = await self._listed(kind)
            except ToolError as error:
                if self.watch.lost.is_set():
                    raise
                _log.warning(
                    "the MCP server %s did not list its %s: %s",
                    self._server.name,
                    kind,
                    error,
                )
        resources = tuple(each.uri for each in more["resources"])
        return Offer(
            tuple(tools),
            tuple(more["prompts"]),
            resources,
            self._client.instructions or "",
        )

    async def call(
        self, name: str, arguments: JsonObject, report: Report, environment: Environment
    ) -> types.CallToolResult:
        """Call a tool within the server's time limit. The time the user takes to answer
        a question does not count.

        :param report: called with the progress that the server reports.
        :param environment: the environment of the call, during which the server may ask
            the user.
        :raises ToolError: if the server did not answer or refused the call. The message
            says why.
        """

        async def show(text: str) -> None:
            await report(OutputArrived(clean(text)))

        lines = ProgressLines(show)

        async def progressed(
            progress: float, total: float | None, message: str | None
        ) -> None:
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            await lines.add(f"{share} {message or ''}".rstrip())

        meta = (
            cast("types.RequestParamsMeta", {**environment.trace})
            if environment.trace
            else None
        )
        visit = self._elicitations.visit

        async def ask(client: Client) -> types.CallToolResult:
            try:
                return await client.call_tool(
                    name, arguments, progress_callback=progressed, meta=meta
                )
            except MCPError as error:
                if error.code != types.URL_ELICITATION_REQUIRED:
                    raise
                links = UrlElicitationRequiredError.from_error(error.error).elicitations
                answers = [
                    await visit(link.message, link.url, link.elicitation_id)
                    for link in links
                ]
                gone = {*answers} == {"accept"}
                what = (
                    "and the user is doing so now; try again then"
                    if gone
                    else "and the user has not done so"
                )
                raise ToolError(
                    f"it needs the user to do something at an address first, {what}"
                ) from error

        result = await self.ask(ask, self._server.timeout, environment)
        await lines.end()
        return result

    async def ask(
        self,
        request: Callable[[Client], Awaitable[T]],
        seconds: float = READ_SECONDS,
        environment: Environment | None = None,
    ) -> T:
        """Send any request. See `call` for the other parameters and the errors."""
        try:
            with anyio.fail_after(seconds) as scope:
                with (
                    self._elicitations.during(environment, scope)
                    if environment
                    else nullcontext()
                ):
                    return await request(self._client)
        except TimeoutError as error:
            raise UnansweredError(
                f"it did not answer within {seconds:g} seconds"
            ) from error
        except Exception as error:
            kind = UnansweredError if self.watch.is_unanswered(error) else ToolError
            raise kind(self.watch.why(error)) from error

    async def listen(self) -> None:
        """Subscribe to list changes, as servers without a handshake require. Other
        servers send list changes without a subscription.
        """
        while True:
            try:
                async with self._client.listen(
                    tools_list_changed=True,
                    prompts_list_changed=True,
                    resources_list_changed=True,
                ) as events:
                    self.watch.changed.set()  # changes before the subscription were not reported
                    async for _ in events:
                        self.watch.changed.set()
            except ListenNotSupportedError:
                return
            except (MCPError, RuntimeError) as error:
                if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                    return
                _log.debug(
                    "the MCP server %s ended its subscription: %s",
                    self._server.name,
                    self.watch.why(error),
                )
            await anyio.sleep(_LISTEN_PAUSE)

    async def _listed(self, kind: str) -> list[Any]:
        """Read all pages of a list. Return an empty list if the server does not have
        this one.
        """
        found: list[Any] = []
        if getattr(self._client.server_capabilities, kind) is None:
            return found
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page: Any = await self.ask(methodcaller(f"list_{kind}", cursor=cursor))
            found += getattr(page, kind)
            cursor = page.next_cursor
            if not cursor:
                break
        return found


@asynccontextmanager
async def connect(
    server: McpServer, options: ServerOptions, mode: Mode
) -> AsyncGenerator[ServerConnection]:
    """Connect to a server and negotiate the version. The task that enters this context
    must also exit it.

    :param server: its entry, with variables expanded.
    :raises HandshakeRefusedError: if the server refused the handshake; the mode `auto`
        may work.
    :raises ToolError: if the server could not be reached, it refused, or the connection
        broke. The message says why.
    """
    watch = Watch()
    elicitations = Elicitations(server.name)

    async def received(message: IncomingMessage) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            await elicitations.completed(message.params.elicitation_id)
        elif isinstance(message, Changed):
            watch.changed.set()

    async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[
                types.Root.model_validate({"uri": root.as_uri(), "name": root.name})
                for root in options.roots
            ]
        )

    async def elicit(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        try:
            if isinstance(params, types.ElicitRequestURLParams):
                answer = await elicitations.visit(
                    params.message, params.url, params.elicitation_id
                )
            else:
                answer = await elicitations.fill(
                    params.message,
                    fields_of(cast("JsonObject", params.requested_schema)),
                )
        except ToolError as error:
            return types.ErrorData(code=types.INVALID_PARAMS, message=str(error))
        if isinstance(answer, str):
            return types.ElicitResult(action=answer)
        return types.ElicitResult(
            action="accept", content=cast("dict[str, Any]", {**answer})
        )

    client = Client(
        inspected(_transport(server, options, watch), watch),
        mode=mode,
        message_handler=received,
        list_roots_callback=list_roots if server.roots else None,
        elicitation_callback=elicit if options.elicits else None,
        client_info=types.Implementation(name="acp-agent", version=__version__),
        cache=None,
    )
    ready = False
    try:
        async with client:
            ready = True
            yield ServerConnection(server, client, watch, elicitations)
    except ToolError:
        raise
    except Exception as error:
        answered = any(isinstance(leaf, MCPError) for leaf in leaves_of(error))
        refused = (
            mode == "legacy" and answered and not ready and not watch.lost.is_set()
        )
        raise (HandshakeRefusedError if refused else ToolError)(
            watch.why(error)
        ) from error


def _transport(server: McpServer, options: ServerOptions, watch: Watch) -> Transport:
    match server.transport:
        case "stdio":
            return over_stdio(launch(server, options.env), watch)
        case "acp":
            if options.channel is None:
                raise ToolError(
                    "it is only reachable through an editor's connection, and there is none"
                )
            return over_acp(server.server_id, options.channel, watch)
        case "sse":
            return over_sse(server)
        case "http":
            return over_http(server, watch)
