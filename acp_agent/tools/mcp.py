"""A connection to one MCP server, by the official SDK: with `mcp_transports` and `mcp_over_acp` the only importer
of `mcp`.

The SDK takes most of a second to load, so that this module is imported in a worker thread, and only where a session has
servers. Owns the handshake and the lists. Knows neither when a server is started nor what becomes of what it answers.

Model Context Protocol, "Lifecycle", "Transports", "Server Features".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, cast

import anyio
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError
from pydantic import BaseModel, ValidationError

from acp_agent import __version__
from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError
from acp_agent.tools.forms import LinkAnswer
from acp_agent.tools.mcp_channel import McpChannel
from acp_agent.tools.mcp_elicitation import Calling, Elicitations
from acp_agent.tools.mcp_offer import (
    Answer,
    HandshakeRefusedError,
    ListName,
    NotTakenError,
    Offer,
    OfferedPrompt,
    OfferedResource,
    OfferedTool,
    PromptArgument,
    PromptMessage,
    said,
)
from acp_agent.tools.mcp_stdio import ServerProcess
from acp_agent.tools.mcp_transports import LOGIN, NOT_TAKEN, Seen, Streams, leaves_of, over_http, over_sse, over_stdio
from mcp import Client, MCPError, types

Mode: TypeAlias = Literal["legacy", "auto"]
"""How a version is agreed on. Nearly every server knows the handshake, and some end when they are asked anything else
first; so `auto`, which asks for the version without a handshake, comes second."""
T = TypeVar("T")

LISTEN_PAUSES = (0.5, 60.0)
"""Seconds before who listens asks again where the server has ended that: at first, and at most."""
READ_SECONDS = 30.0
"""For a prompt or a resource."""
_log = logging.getLogger(__name__)
_PAGES = 50
"""Of one list; a server whose list never ends must not hold anything up."""
_ACTIONS: dict[LinkAnswer, Literal["accept", "decline", "cancel"]] = {
    "accepted": "accept",
    "declined": "decline",
    "cancelled": "cancel",
}
_CHANGES: dict[type, ListName] = {
    types.ToolListChangedNotification: "tools",
    types.PromptListChangedNotification: "prompts",
    types.ResourceListChangedNotification: "resources",
}

# What it writes of failures is said by us as well, in words that hold neither URLs nor what a server has sent.
logging.getLogger("mcp").setLevel(logging.CRITICAL)


class Connection:
    """A server that has answered.

    :param name: of the server.
    :param client: entered.
    :ivar lost: see `Seen`.
    """

    def __init__(self, name: str, client: Client, seen: Seen, asked: Elicitations) -> None:
        self._name = name
        self._client = client
        self._seen = seen
        self._asks = asked
        self.lost = seen.lost

    async def why_lost(self) -> str:
        """Why there is nobody any more."""
        return await self._seen.why(RuntimeError("it closed the connection"))

    async def offer(self) -> Offer:
        """List everything anew.

        :raises ToolError: see `call`.
        """
        able = self._client.server_capabilities
        self._seen.left_out.clear()
        faults: list[str] = []
        tools = await self._listed(self._tools) if able.tools else ()
        prompts = await self._beside("prompts", self._prompts, faults) if able.prompts else ()
        resources = await self._beside("resources", self._resources, faults) if able.resources else ()
        faults += [said(kind, names) for kind, names in self._seen.left_out.items()]
        return Offer(tools, prompts, resources, tuple(faults))

    async def call(
        self,
        name: str,
        arguments: JsonObject,
        seconds: float,
        report: Callable[[str], Awaitable[None]],
        calling: Calling,
    ) -> Answer:
        """Call a tool.

        :param seconds: that it may take, without those in which the user thinks about what it asks.
        :param report: told what it says of how far it is.
        :raises ToolError: it did not answer, or refused the call; says why.
        """

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            await report(f"{share} {message}\n" if message else f"{share}\n")

        meta = cast("types.RequestParamsMeta", {**calling.trace}) if calling.trace else None

        async def ask() -> types.CallToolResult:
            try:
                return await self._client.call_tool(name, dict(arguments), progress_callback=tell, meta=meta)
            except MCPError as error:
                if error.code != types.URL_ELICITATION_REQUIRED:
                    raise
                raise ToolError(await self._asks.required(error.error.data)) from error

        result = await self._asked(ask, seconds, calling)
        return Answer(tuple(_json(block) for block in result.content), result.structured_content, result.is_error)

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Have a prompt made.

        :raises ToolError: see `call`.
        """
        result = await self._asked(lambda: self._client.get_prompt(name, arguments), READ_SECONDS)
        return tuple(PromptMessage(message.role, _json(message.content)) for message in result.messages)

    async def read(self, uri: str) -> tuple[JsonObject, ...]:
        """Read a resource: its contents in MCP's form.

        :raises ToolError: see `call`.
        """
        result = await self._asked(lambda: self._client.read_resource(uri), READ_SECONDS)
        return tuple(_json(contents) for contents in result.contents)

    async def listen(self, changed: Callable[[ListName], None]) -> None:
        """Hear of changes from a server without a handshake, which has to be asked for them; from others they come by
        themselves."""
        able = self._client.server_capabilities
        wanted = [bool(each and each.list_changed) for each in (able.tools, able.prompts, able.resources)]
        if not any(wanted):
            return
        tools, prompts, resources = wanted
        pause, longest = LISTEN_PAUSES
        missed = False
        while True:
            try:
                async with self._client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as events:
                    changed("tools")  # nobody has heard what changed before, also not since it was listed first
                    async for _ in events:
                        pause = LISTEN_PAUSES[0]
                        changed("tools")
                why = "it has ended that"
            except ListenNotSupportedError:
                return
            except (MCPError, RuntimeError) as error:
                if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                    return
                why = await self._seen.why(error)
            if not missed:
                _log.info("changes of the MCP server %s are not heard of for now: %s", self._name, why)
            missed = True
            await anyio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _asked(self, ask: Callable[[], Awaitable[T]], seconds: float, calling: Calling | None = None) -> T:
        try:
            with anyio.fail_after(seconds) as scope, self._asks.during(calling or Calling(), scope):
                return await ask()
        except TimeoutError as error:
            raise ToolError(f"it did not answer within {seconds:g} seconds") from error
        except MCPError as error:
            if self._seen.forgotten:
                self.lost.set()
            kind = NotTakenError if error.error.data is NOT_TAKEN else ToolError
            raise kind(await self._seen.why(error)) from error
        except Exception as error:
            raise ToolError(await self._seen.why(error)) from error

    async def _beside(
        self,
        kind: ListName,
        page: Callable[[str | None], Awaitable[tuple[tuple[T, ...], str | None]]],
        faults: list[str],
    ) -> tuple[T, ...]:
        """A list without which the tools can be called all the same."""
        try:
            return await self._listed(page)
        except ToolError as error:
            if self.lost.is_set():
                raise
            faults.append(f"its {kind} could not be listed: {error}")
            return ()

    async def _listed(self, page: Callable[[str | None], Awaitable[tuple[tuple[T, ...], str | None]]]) -> tuple[T, ...]:
        found: tuple[T, ...] = ()
        cursor: str | None = None
        for _ in range(_PAGES):
            try:
                some, cursor = await page(cursor)
            except (MCPError, ValidationError) as error:
                if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                    break
                raise ToolError(await self._seen.why(error)) from error
            found += some
            if not cursor:
                break
        return found

    async def _tools(self, cursor: str | None) -> tuple[tuple[OfferedTool, ...], str | None]:
        page = await self._client.list_tools(cursor=cursor)
        return tuple(_tool(tool) for tool in page.tools), page.next_cursor

    async def _prompts(self, cursor: str | None) -> tuple[tuple[OfferedPrompt, ...], str | None]:
        page = await self._client.list_prompts(cursor=cursor)
        return tuple(_prompt(prompt) for prompt in page.prompts), page.next_cursor

    async def _resources(self, cursor: str | None) -> tuple[tuple[OfferedResource, ...], str | None]:
        page = await self._client.list_resources(cursor=cursor)
        found = tuple(OfferedResource(resource.uri, resource.title or resource.name) for resource in page.resources)
        return found, page.next_cursor


@asynccontextmanager
async def connect(
    server: McpServer,
    process: ServerProcess | None,
    roots: Sequence[Path],
    mode: Mode,
    changed: Callable[[ListName], None],
    *,
    elicits: bool = False,
    channel: McpChannel | None = None,
) -> AsyncGenerator[Connection]:
    """Connect to a server and agree on a version. Has to be left by the task that has entered it.

    :param server: with the values of its variables.
    :param process: where it speaks over its standard input and output.
    :param roots: the session's directories, for servers that ask.
    :param changed: told which list the server says to have changed.
    :param elicits: whether the server is told that it may ask the user.
    :param channel: to servers that the editor is itself.
    :raises HandshakeRefusedError: another mode may do.
    :raises ToolError: it could not be reached, refused, or the connection broke; says why.
    """
    seen, asked = Seen(process), Elicitations(server.name)

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            await asked.completed(message.params.elicitation_id)
        if (name := _CHANGES.get(type(message))) is not None:
            changed(name)

    async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[types.Root.model_validate({"uri": root.as_uri(), "name": root.name}) for root in roots]
        )

    async def elicit(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        try:
            if isinstance(params, types.ElicitRequestURLParams):
                answer = await asked.visit(params.message, params.url, params.elicitation_id)
                return types.ElicitResult(action=_ACTIONS[answer])
            form, values = await asked.fill(params.message, cast("JsonObject", params.requested_schema))
        except ToolError as error:
            return types.ErrorData(code=types.INVALID_PARAMS, message=str(error))
        if isinstance(form, str):
            return types.ElicitResult(action=_ACTIONS[form])
        return types.ElicitResult(action="accept", content={**values})

    client = Client(
        _transport(server, process, channel, seen),
        mode=mode,
        message_handler=heard,
        list_roots_callback=list_roots,
        elicitation_callback=elicit if elicits else None,
        client_info=types.Implementation(name="acp-agent", version=__version__),
        cache=None,
    )
    ready = False
    try:
        async with client:
            ready = True
            seen.version = client.protocol_version
            yield Connection(server.name, client, seen, asked)
    except ToolError:
        raise
    except Exception as error:
        refused = (
            not ready and seen.status not in LOGIN and any(isinstance(leaf, MCPError) for leaf in leaves_of(error))
        )
        kind = HandshakeRefusedError if refused and not seen.lost.is_set() else ToolError
        raise kind(await seen.why(error)) from error


def _transport(
    server: McpServer, process: ServerProcess | None, channel: McpChannel | None, seen: Seen
) -> AbstractAsyncContextManager[Streams]:
    if process is not None:
        return over_stdio(process, seen)
    if server.transport == "acp":
        if channel is None:
            raise ToolError("it is reached over an editor's connection, and there is none")
        from acp_agent.tools.mcp_over_acp import over_acp

        return over_acp(server.server_id, channel, seen)
    return over_sse(server, seen) if server.transport == "sse" else over_http(server, seen)


def _tool(tool: types.Tool) -> OfferedTool:
    notes = tool.annotations
    title = tool.title or (notes.title if notes else None) or ""
    reads = bool(notes and notes.read_only_hint)
    return OfferedTool(tool.name, title, tool.description or "", tool.input_schema, reads)


def _prompt(prompt: types.Prompt) -> OfferedPrompt:
    arguments = tuple(
        PromptArgument(argument.name, argument.description or "", bool(argument.required))
        for argument in prompt.arguments or ()
    )
    return OfferedPrompt(prompt.name, prompt.title or prompt.description or "", arguments)


def _json(model: BaseModel) -> JsonObject:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
