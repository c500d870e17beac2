"""`SessionMcp`: the MCP servers of one session. They add tools, slash commands, and
resources that a prompt mentions with `@`.

The tools in requests change only between turns, and only if a server becomes ready or
reports that its tools have changed, since tools precede everything that a provider
caches. Without servers nothing is loaded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from acp_agent.conversation.messages import (
    Resource,
    ResourceLink,
    Section,
    Text,
    UserPart,
)
from acp_agent.conversation.updates import Command
from acp_agent.errors import InvalidParamsError, ToolError
from acp_agent.mcp.model import SERVER_SECTION, ServerOptions, environment_for
from acp_agent.session.client import SessionClient, ask_arguments
from acp_agent.session.commands import around_command, command_words
from acp_agent.session.notices import Notices
from acp_agent.session.state import SessionState
from acp_agent.tools.registry import built_in_tools
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import Tool

if TYPE_CHECKING:
    from acp_agent.mcp.model import Prompt
    from acp_agent.mcp.server import SessionServer

PATIENCE_SECONDS = 5.0
"""How long the first prompt waits for servers that are still starting. The editor
itself never waits.
"""
MAX_TOOLS = 128
"""Maximum number of tools in one request. OpenAI accepts no more."""
_MENTION = re.compile(
    r"(?<![^\s(\[<\"'`])@(?P<server>[A-Za-z0-9_.-]+):"
    r"(?P<uri>[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}])"
)
"""A mention does not include the punctuation after it."""

_log = logging.getLogger(__name__)


class SessionMcp:
    """The servers of one session: the client's, and configured servers with other
    names.

    :param tasks: runs the servers.
    :param changed: called when a server's offer changes.
    """

    def __init__(
        self,
        state: SessionState,
        client: SessionClient,
        notices: Notices,
        tasks: TaskGroup,
        changed: Callable[[], None],
    ) -> None:
        given = {server.name for server in state.mcp_servers}
        configured = (
            server
            for server in state.settings.mcp_servers.values()
            if server.name not in given
        )
        self._wanted = (*state.mcp_servers, *configured)
        self._directories = state.directories
        self._client = client
        self._notices = notices
        self._tasks = tasks
        self._changed = changed
        self._servers: tuple[SessionServer, ...] = ()
        self._waited = False
        self._tools: Mapping[str, Tool] | None = None

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Return the tools by name as of the start of the last turn, built-in tools
        first.
        """
        return self._tools or built_in_tools(self._client.questions.asks)

    def start(self) -> None:
        """Start the servers in the background. This is called after the editor has
        received its answer, or on the first prompt.
        """
        if self._servers or not self._wanted:
            return
        from acp_agent.mcp.server import SessionServer
        from acp_agent.mcp.tools import server_names

        questions = self._client.questions
        options = ServerOptions(
            self._directories,
            environment_for(self._directories[0]),
            elicits=questions.asks == "forms" or questions.opens_urls,
            channel=self._client.mcp_channel,
        )
        shorts = server_names([server.name for server in self._wanted])
        self._servers = tuple(
            SessionServer(
                server, short, options, self._notices.tell_once, self._changed
            )
            for server, short in zip(self._wanted, shorts, strict=True)
        )
        for server in self._servers:
            self._tasks.start_soon(server.run)

    async def renew(self) -> None:
        """Use the servers' current tools from this turn on. On the first turn, wait
        briefly for the servers to start.
        """
        self.start()
        if not self._servers:
            return
        for server in self._servers:
            server.revive()
        if not self._waited:
            with anyio.move_on_after(PATIENCE_SECONDS):
                for server in self._servers:
                    await server.settled()
            for slow in (
                server for server in self._servers if server.state == "starting"
            ):
                _log.warning("the MCP server %s is not ready yet", slow.name)
                await self._notices.tell(
                    f"The MCP server {slow.name!r} is not ready yet. The session continues without it. Its tools "
                    "become available with the first prompt after it is ready."
                )
            self._waited = True  # only now, since a prompt that is cancelled earlier loses the notice
        more = [tool for server in self._servers for tool in server.tools]
        built_in = built_in_tools(self._client.questions.asks)
        room = MAX_TOOLS - len(built_in)
        if len(more) > room:
            await self._notices.tell_once(
                f"The MCP servers of this session have more than {room} tools. The model gets only the first {room}. "
                "Remove servers that you do not need."
            )
        tools = {**built_in, **{tool.name: tool for tool in more[:room]}}
        if tools != self.tools:
            self._tools = tools

    def sections(self, announced: Iterable[Section]) -> tuple[Section, ...]:
        """Return the servers' instructions as sections of the system prompt.

        :param announced: the sections that the model knows. A server that has not
            answered yet keeps its section from there.
        """
        known = {
            section.name: section
            for section in announced
            if section.name.startswith(SERVER_SECTION)
        }
        if not self._servers:
            return tuple(known.values()) if self._wanted else ()
        from acp_agent.mcp.tools import instructions_section

        found: dict[str, Section] = {}
        for server in self._servers:
            section = instructions_section(server.name, server.offer.instructions)
            if not server.was_ready:
                section = known.get(section.name, section)
            found.setdefault(section.name, section)
        return tuple(section for section in found.values() if section.text)

    # --- prompts and resources ---

    def commands(self) -> tuple[Command, ...]:
        """Return the servers' prompts as slash commands."""
        return tuple(
            Command(
                f"mcp:{server.short.lower()}:{name}",
                f"{one_line(prompt.title or prompt.description or '', 200)} (MCP server {server.name})".lstrip(),
                _hint(prompt),
            )
            for server in self._servers
            for name, prompt in _prompts(server).items()
        )

    async def sent(self, parts: tuple[UserPart, ...]) -> tuple[UserPart, ...] | None:
        """Return the parts that the model reads instead of a prompt that names a
        server's prompt or resources; None if it names none.

        :raises InvalidParamsError: if there is no such prompt, or if an argument is
            missing.
        :raises ToolError: if the server did not return it. The message says why.
        """
        if not self._servers:
            return None
        made = await self._made(parts)
        sent = parts if made is None else made
        resources = await self.resources(parts)
        return (*sent, *resources) if made is not None or resources else None

    async def resources(self, parts: tuple[UserPart, ...]) -> tuple[Resource, ...]:
        """Return the contents of the resources that a prompt names, without duplicates.

        :raises ToolError: if a server did not return one. The message says why.
        """
        found = [
            await self._read(part)
            for part in parts
            if isinstance(part, Text | ResourceLink)
        ]
        return tuple(dict.fromkeys(resource for each in found for resource in each))

    def lists(self, uri: str) -> bool:
        """Return whether any server lists a resource with this URI."""
        return any(uri in server.offer.resources for server in self._servers)

    async def _made(self, parts: tuple[UserPart, ...]) -> tuple[UserPart, ...] | None:
        name, line = command_words(parts) or ("", "")
        prefix, short, wanted = [*name.split(":"), "", ""][:3]
        server = (
            next((each for each in self._servers if each.short.lower() == short), None)
            if prefix == "mcp"
            else None
        )
        if server is None:
            return None
        prompt = _prompts(server).get(wanted)
        if prompt is None:
            known = (
                ", ".join(f"/mcp:{short}:{each}" for each in _prompts(server))
                or f"none. {server.reason}"
            )
            raise InvalidParamsError(
                f"The MCP server {server.name!r} has no prompt {wanted!r}. Its prompts are: {known}"
            )
        arguments = await self._arguments(prompt, line, f"/{name}")
        before, behind = around_command(parts)
        made = await server.prompt(prompt.name, arguments)
        if not made:
            raise ToolError(
                f"The MCP server {server.name!r} returned nothing for the prompt {prompt.name!r}."
            )
        return (*made, *before, *behind)

    async def _arguments(
        self, prompt: Prompt, line: str, command: str
    ) -> dict[str, str]:
        """Return a prompt's typed arguments, and ask the user for missing ones. Text
        after the named arguments is the value of the first argument without a value.

        :raises InvalidParamsError: if a required argument is missing, or if there are
            too many.
        """
        from acp_agent.recipes.arguments import split_arguments

        arguments = prompt.arguments or []
        values, rest = split_arguments(command, [each.name for each in arguments], line)
        left = [each.name for each in arguments if each.name not in values]
        if rest and not left:
            raise InvalidParamsError(
                f"{command} takes {_hint(prompt) or 'no arguments'}, and nothing after that."
            )
        if rest:
            values[left[0]] = rest
        missing = [
            (each.name, each.description or "")
            for each in arguments
            if each.required and each.name not in values
        ]
        return (
            values | await ask_arguments(self._client.questions, command, missing)
            if missing
            else values
        )

    async def _read(self, part: Text | ResourceLink) -> tuple[Resource, ...]:
        if isinstance(part, ResourceLink):
            named = [
                (server, part.uri)
                for server in self._servers
                if part.uri in server.offer.resources
            ][:1]
        else:
            servers = {
                name.lower(): server
                for server in self._servers
                for name in (server.name, server.short)
            }
            named = [
                (server, match["uri"])
                for match in _MENTION.finditer(part.text)
                if (server := servers.get(match["server"].lower())) is not None
            ]
        found: tuple[Resource, ...] = ()
        for server, uri in dict.fromkeys(named):
            found += await server.read(uri)
        return found


def _prompts(server: SessionServer) -> dict[str, Prompt]:
    """Return a server's prompts by their part of the slash command, in the server's
    order. If two have the same name, the first one is used.
    """
    from acp_agent.mcp.tools import command_part

    found: dict[str, Prompt] = {}
    for prompt in server.offer.prompts:
        found.setdefault(command_part(prompt.name), prompt)
    return found


def _hint(prompt: Prompt) -> str | None:
    words = [
        f"{each.name}=…" if each.required else f"[{each.name}=…]"
        for each in prompt.arguments or ()
    ]
    return " ".join(words) or None
