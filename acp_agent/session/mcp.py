"""`SessionMcp`: what the MCP servers of one session mean for it: more tools, slash commands, and what `@` may name.

The tools that a model is told of change between turns only, and only where a server comes or says that its own have
changed: they stand in front of everything that a provider caches. Without servers nothing is loaded.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import Resource, ResourceLink, Text, UserPart
from acp_agent.errors import InvalidParamsError, ToolError
from acp_agent.session.commands import around_command, first_text
from acp_agent.tools.registry import ToolRegistry
from acp_agent.turn.updates import Command

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost
    from acp_agent.tools.mcp_offer import OfferedPrompt
    from acp_agent.tools.mcp_server import SessionServer
    from acp_agent.tools.mcp_servers import SessionServers

PATIENCE_SECONDS = 5.0
"""How long the first prompt waits for servers that are still being started; the editor is never kept waiting."""
MAX_TOOLS = 128
"""In one request; OpenAI takes no more."""
_COMMAND = re.compile(r"/mcp:(?P<server>[a-z0-9_-]+):(?P<prompt>[a-z0-9_-]+)(?:\s+(?P<rest>.*))?\s*\Z", re.DOTALL)
_MENTION = re.compile(r"(?<![^\s(\[<\"'`])@(?P<server>[A-Za-z0-9_.-]+):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"'`]+)")
_TRAILING = tuple(".,;:!?)]}")
_ARGUMENT = re.compile(r"\s*(?P<name>[^\s=]+)=(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<plain>\S*))(?:\s+|\Z)", re.DOTALL)

_log = logging.getLogger(__name__)


class SessionMcp:
    """The servers of one session.

    :param tools: the built-in ones, which stand before all others.
    :param given: the servers that the editor names; one of the configuration with the same name is left out.
    :param roots: the session's directories.
    """

    def __init__(
        self, host: SessionHost, tools: ToolRegistry, given: Sequence[McpServer], roots: Sequence[Path]
    ) -> None:
        names = {server.name for server in given}
        own = [server for server in host.settings.mcp_servers if server.name not in names]
        self._host = host
        self._built_in = tools
        self._tools = tools
        self._wanted = (*given, *own)
        self._roots = roots
        self._tasks: TaskGroup | None = None
        self._servers: SessionServers | None = None
        self._started = False
        self._waited = False
        self._told_of_many = False

    @property
    def tools(self) -> ToolRegistry:
        """The tools of the session as of the last turn's beginning."""
        return self._tools

    def run_in(self, tasks: TaskGroup) -> None:
        """Run the servers in this task group, which ends with the session."""
        self._tasks = tasks
        if self._started:
            self._started = False
            self.start()

    def start(self) -> None:
        """Start the servers, in the background. Called once the editor has its answer, and with the first prompt."""
        if self._started or not self._wanted:
            return
        self._started = True
        if self._tasks is None:
            return
        from acp_agent.tools.mcp_server import Place
        from acp_agent.tools.mcp_servers import SessionServers

        questions = self._host.client.questions
        place = Place(
            self._roots,
            os.environ,
            elicits=questions.asks == "forms" or questions.opens_urls,
            channel=self._host.client.mcp_channel,
        )
        self._servers = SessionServers(self._wanted, place, self._host.tell, self._changed)
        self._servers.start(self._tasks)

    async def renew(self) -> None:
        """At the beginning of a turn: take over what the servers offer now; the first time, wait for them a little."""
        self.start()
        if self._servers is None:
            return
        self._servers.revive()
        if not self._waited:
            for slow in await self._servers.wait(PATIENCE_SECONDS):
                _log.warning("the MCP server %s is not ready yet", slow.name)
                await self._host.tell(
                    f"The MCP server {slow.name!r} is not ready yet. The session works on without it; its tools come "
                    "with the first prompt after it is."
                )
            self._waited = True  # not before: a prompt that is cancelled meanwhile has told nobody
        more = self._servers.tools
        room = MAX_TOOLS - len(self._built_in.names)
        if len(more) > room and not self._told_of_many:
            self._told_of_many = True
            await self._host.tell(
                f"The MCP servers of this session have {len(more)} tools, of which the model is told of the first "
                f"{room}: no more than {MAX_TOOLS} are taken. Leave servers out that you do not need."
            )
        names = (*self._built_in.names, *(tool.name for tool in more[:room]))
        if names != self._tools.names or any(self._tools.get(tool.name) is not tool for tool in more[:room]):
            self._tools = ToolRegistry((*self._built_in, *more[:room]))

    async def aclose(self) -> None:
        """End the servers."""
        if self._servers is not None:
            await self._servers.aclose()

    # --- prompts and resources ---

    def commands(self) -> tuple[Command, ...]:
        """The servers' prompts as slash commands."""
        return tuple(
            Command(f"mcp:{server.short.lower()}:{name}", _described(prompt, server), _hint(prompt))
            for server in self._all
            for name, prompt in _prompts(server).items()
        )

    async def sent(self, parts: tuple[UserPart, ...]) -> tuple[UserPart, ...] | None:
        """What the model reads in place of a prompt that names a server's prompt or resources; None where it names
        none.

        :raises InvalidParamsError: there is no such prompt, or an argument is missing.
        :raises ToolError: the server has not given it; says why.
        """
        if self._servers is None:
            return None
        made = await self._made(parts)
        told = parts if made is None else made
        resources = await self.resources(parts)
        return (*told, *resources) if made is not None or resources else None

    async def resources(self, parts: tuple[UserPart, ...]) -> tuple[Resource, ...]:
        """What the servers' resources hold that a prompt names, each once.

        :raises ToolError: a server has not given one; says why.
        """
        found = [await self._read(part) for part in parts if isinstance(part, Text | ResourceLink)]
        return tuple(dict.fromkeys(resource for each in found for resource in each))

    async def _made(self, parts: tuple[UserPart, ...]) -> tuple[UserPart, ...] | None:
        match = _COMMAND.match(first_text(parts))
        shorts = {server.short.lower(): server for server in self._all}
        server = shorts.get(match["server"]) if match else None
        if match is None or server is None:
            return None
        prompt = _prompts(server).get(match["prompt"])
        if prompt is None:
            known = ", ".join(f"/mcp:{match['server']}:{name}" for name in _prompts(server)) or "none"
            away = f" It is not there: {server.reason}" if server.reason and server.state != "ready" else ""
            raise InvalidParamsError(
                f"The MCP server {server.name!r} has no prompt {match['prompt']!r}; its prompts are: {known}.{away}"
            )
        from acp_agent.tools.mcp_results import prompt_parts

        arguments = await self._arguments(prompt, match["rest"] or "", f"/mcp:{match['server']}:{match['prompt']}")
        before, behind = around_command(parts)
        made = prompt_parts(await server.prompt(prompt.name, arguments))
        if not made:
            raise ToolError(f"The MCP server {server.name!r} has put nothing into the prompt {prompt.name!r}.")
        return (*made, *before, *behind)

    async def _arguments(self, prompt: OfferedPrompt, line: str, command: str) -> dict[str, str]:
        """A prompt's arguments as they were typed, and what is missing as the user gives it when they are asked.

        :raises InvalidParamsError: a required one is missing, or there is one too many.
        """
        values = _arguments(prompt, line, command)
        missing = [each for each in prompt.arguments if each.required and each.name not in values]
        if not missing:
            return values
        from acp_agent.session.missing import missing_values

        wanted = [(each.name, each.description) for each in missing]
        given = await missing_values(self._host.client.questions, command, wanted)
        if isinstance(given, str):
            names = ", ".join(name for name, _ in wanted)
            raise InvalidParamsError(f"{command} needs {names}: write {command} {_hint(prompt)}")
        return {**values, **given}

    async def _read(self, part: Text | ResourceLink) -> tuple[Resource, ...]:
        from acp_agent.tools.mcp_results import resource_parts

        if isinstance(part, ResourceLink):
            listed = (server for server in self._all if part.uri in _uris(server))
            named = [(server, part.uri) for server in listed][:1]
        else:
            named = [
                (server, _uri(server, match["uri"]))
                for match in _MENTION.finditer(part.text)
                if (server := self._server(match["server"])) is not None
            ]
        found: tuple[Resource, ...] = ()
        for server, uri in dict.fromkeys(named):
            found += resource_parts(uri, await server.read(uri))
        return found

    @property
    def _all(self) -> tuple[SessionServer, ...]:
        return self._servers.all if self._servers is not None else ()

    def _server(self, name: str) -> SessionServer | None:
        """Whom a mention means: who is called so, else whose commands are, in which all letters are small."""
        called = (
            {server.name: server for server in reversed(self._all)},
            {server.short.lower(): server for server in self._all},
        )
        return called[0].get(name) or called[1].get(name.lower())

    def _changed(self) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._offer)

    async def _offer(self) -> None:
        try:
            await self._host.recipes.show_changes()
        except Exception:
            # The prompt that needs a recipe says what is wrong, to somebody who can read it.
            _log.exception("could not offer the prompts of MCP servers")


def _prompts(server: SessionServer) -> dict[str, OfferedPrompt]:
    """A server's prompts by their part of the slash command, in its order; of two alike, the second gets a number."""
    from acp_agent.tools.mcp_names import command_part

    found: dict[str, OfferedPrompt] = {}
    for prompt in {prompt.name: prompt for prompt in server.offering.last.prompts}.values():
        part = plain = command_part(prompt.name)
        number = 1
        while part in found:
            number += 1
            part = f"{plain}-{number}"
        found[part] = prompt
    return found


def _uris(server: SessionServer) -> set[str]:
    return {resource.uri for resource in server.offering.last.resources}


def _uri(server: SessionServer, text: str) -> str:
    """What a mention names: without the punctuation of its sentence, unless it is listed with that."""
    listed, uri = _uris(server), text
    while uri not in listed and uri.endswith(_TRAILING):
        uri = uri[:-1]
    return uri


def _described(prompt: OfferedPrompt, server: SessionServer) -> str:
    from acp_agent.tools.text import one_line

    return f"{one_line(prompt.description, 200)} (MCP server {server.name})".lstrip()


def _hint(prompt: OfferedPrompt) -> str | None:
    words = [f"{each.name}=…" if each.required else f"[{each.name}=…]" for each in prompt.arguments]
    return " ".join(words) or None


def _arguments(prompt: OfferedPrompt, line: str, command: str) -> dict[str, str]:
    """A prompt's arguments as they are typed: `name=value` in front, with quotes where there are blanks; what follows
    is the first one that is still missing.

    :raises InvalidParamsError: there is one too many.
    """
    declared = [each.name for each in prompt.arguments]
    values: dict[str, str] = {}
    position = 0
    while (found := _ARGUMENT.match(line, position)) and found["name"] in declared and found["name"] not in values:
        quoted = found["quoted"]
        values[found["name"]] = found["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        position = found.end()
    rest = line[position:].strip()
    left = [name for name in declared if name not in values]
    if rest and left:
        values[left[0]] = rest
    elif rest:
        raise InvalidParamsError(f"{command} takes {_hint(prompt) or 'no arguments'}, and nothing behind that.")
    return values
