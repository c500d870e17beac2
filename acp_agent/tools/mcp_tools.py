"""The tools of MCP servers as tools of the agent: their names, their schemas, what a call would touch.

Knows a server only as somebody who can be called.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Protocol

from anyio import to_thread

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.tools.environment import Environment
from acp_agent.tools.mcp_elicitation import Calling
from acp_agent.tools.mcp_names import tool_names
from acp_agent.tools.mcp_offer import Answer, OfferedTool
from acp_agent.tools.mcp_results import result_parts
from acp_agent.tools.text import clean, cut_middle, one_line
from acp_agent.tools.tool import Access, Outcome, OutputArrived, PreparedCall, Report

DESCRIPTION_LIMIT = 4000
"""Characters: what a server says of a tool is in every request."""
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REFUSED = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$schema", "$id")
"""Keywords that providers do not take at the top of a tool's schema: one such tool would fail every request."""


class Callee(Protocol):
    """A server, as far as its tools need it."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def identity(self) -> str:
        """Digits that tell it from every other server, whatever those are called."""
        ...

    async def call(
        self, tool: str, arguments: JsonObject, report: Callable[[str], Awaitable[None]], calling: Calling
    ) -> Answer:
        """Call a tool by the server's own name for it.

        :param calling: what the call is part of.
        :raises ToolError: there is no answer; says why.
        """
        ...


class McpTool:
    """A `Tool` that an MCP server runs."""

    def __init__(self, server: Callee, name: str, tool: OfferedTool) -> None:
        self._server = server
        self._name = name
        self._tool = tool
        self._description = cut_middle(clean(tool.description), DESCRIPTION_LIMIT)
        self._schema = input_schema(tool.input_schema)

    @property
    def name(self) -> str:
        """As the model calls it."""
        return self._name

    @property
    def description(self) -> str:
        """What the server says of it."""
        return self._description

    @property
    def input_schema(self) -> JsonObject:
        """The server's, as providers take it."""
        return self._schema

    def preview(self, arguments: JsonObject) -> CallView:
        """Title and kind; the arguments are shown beside them."""
        title = f"{one_line(self._tool.title or self._tool.name, 80)} ({one_line(self._server.name, 30)})"
        return CallView(title, "read" if self._tool.reads else "other")

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Ready to be allowed. Whether the arguments are sound is the server's to say."""
        view = self.preview(arguments)
        calling = Calling(environment.call_id, environment.questions, environment.trace)

        async def run(report: Report) -> Outcome:
            async def tell(text: str) -> None:
                await report(OutputArrived(clean(text)))

            answer = await self._server.call(self._tool.name, arguments, tell, calling)
            # Images are decoded to be looked at, which takes a while.
            parts = await to_thread.run_sync(result_parts, answer, abandon_on_cancel=True)
            return Outcome(parts, view, is_error=answer.is_error)

        effect = "read" if self._tool.reads else "execute"
        # Not the name alone: an "always" for this server must not be one for another that is called so later.
        return PreparedCall(view, Access(effect, subject=f"{self._name} ({self._server.identity})"), run)


def tools_of(server: Callee, short: str, offered: tuple[OfferedTool, ...]) -> tuple[McpTool, ...]:
    """A server's tools, in its order; without those that no model could be told of.

    :param short: the server's part of their names.
    """
    usable = {tool.name: tool for tool in reversed(offered) if is_usable(tool)}
    names = tool_names(short, (tool.name for tool in offered if tool.name in usable))
    return tuple(McpTool(server, name, usable[tool]) for tool, name in names.items())


def input_schema(schema: JsonObject) -> JsonObject:
    """A tool's schema as every provider takes it: an object with properties, and no alternatives at the top. The server
    checks the arguments anyway."""
    properties = schema.get("properties")
    kept: dict[str, JsonValue] = {key: value for key, value in schema.items() if key not in _REFUSED}
    return {**kept, "type": "object", "properties": properties if isinstance(properties, dict) else {}}


def is_usable(tool: OfferedTool) -> bool:
    """Whether providers take the names of a tool's arguments."""
    properties = tool.input_schema.get("properties")
    return not isinstance(properties, dict) or all(_PROPERTY.fullmatch(name) for name in properties)
