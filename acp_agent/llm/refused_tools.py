"""Finds the tools that a provider's error names, and removes them from the request.

A provider refuses a whole request because of one unsupported tool, and identifies the
tool by name or by position: `tools[3].function.parameters` (OpenAI),
`tools.3.custom.input_schema` (Anthropic), `["body", "tools", 3]` (FastAPI),
`tools[0].function_declarations[3]` (Google, whose first tool holds all functions),
`/tools/3` (a JSON pointer).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.conversation.messages import (
    Amendment,
    JsonObject,
    Message,
    ToolDefinition,
)
from acp_agent.conversation.strict_json import get_object, get_objects, get_text
from acp_agent.llm.provider import ModelRequest

if TYPE_CHECKING:
    from acp_agent.llm.errors import CallFailed

_THEN = r"""(?:\[|\.|/|\s*->\s*|["']\s*,\s*|["']\]\[)"""
"""Separators between a member and an index, in the notations that errors use for a
position.
"""
_PLACE = re.compile(
    rf"\b(?:tools{_THEN}(?P<around>\d{{1,4}})\b\W{{0,4}})?function_?declarations{_THEN}(?P<declared>\d{{1,4}})\b"
    rf"|\b(?:tools|functions){_THEN}(?P<alone>\d{{1,4}})\b(?P<member>\W+\w+)?",
    re.IGNORECASE,
)
_IN_MESSAGE = re.compile(
    r"(?:input|messages|contents)\W{1,3}\d{1,6}\W[^\s]{0,80}$", re.IGNORECASE
)
"""Matches the text before a position inside a message. Such tools are numbered
separately.
"""
_OF_ADAPTERS = ("defer_loading", "cache_control", "strict")
"""Members that an adapter adds to a tool. An error about one of them does not refuse
the tool.
"""
_WORDS = ("tool", "function", "schema")
_LONGEST = re.compile(
    r"description.{0,200}?(?:maximum length|at most|less than or equal to|longer than|max(?:imum)?)\D{0,20}(\d{2,6})",
    re.IGNORECASE | re.DOTALL,
)


def refused_tools(
    failure: CallFailed, body: JsonObject, known: Iterable[str]
) -> tuple[str, ...]:
    """Return the names of the tools that an error refers to; empty if the error is
    about something else.

    :param body: the body of the request.
    :param known: the names of the request's tools.
    """
    said = failure.message
    found: dict[str, None] = {}
    places = f"{said}\n{failure.body}"
    sent = [
        get_text(tool, "name") or get_text(get_object(tool, "function"), "name")
        for tool in get_objects(body, "tools")
    ]
    for place in _PLACE.finditer(places):
        if _IN_MESSAGE.search(places[max(0, place.start() - 120) : place.start()]):
            continue
        if any(member in (place["member"] or "") for member in _OF_ADAPTERS):
            continue
        number = place["alone"] or place["declared"]
        if place["around"] not in (None, "0"):
            number = place["around"]
        if int(number) < len(sent):
            found[sent[int(number)]] = None
    if any(word in said.lower() for word in _WORDS):
        for name in known:
            quote = "[\"'`]" if is_built_in(name) else ""
            if re.search(rf"(?<![\w-]){quote}{re.escape(name)}{quote}(?![\w-])", said):
                found[name] = None
    return tuple(filter(None, found))


def is_built_in(name: str) -> bool:
    """Return whether a tool is built in rather than from an MCP server. Built-in names
    such as `read` are also ordinary words.
    """
    return "__" not in name


def longest_description(failure: CallFailed) -> int | None:
    """Return the maximum length of a tool description if an error says that a
    description is too long, otherwise None.
    """
    found = _LONGEST.search(failure.message)
    return int(found[1]) if found else None


def tool_names(request: ModelRequest) -> list[str]:
    """Return the names of all tools in a request, including tools in its declaration
    and its amendments.
    """
    return list(dict.fromkeys(tool.name for tool in all_tools(request)))


def without_tools(request: ModelRequest, names: Collection[str]) -> ModelRequest:
    """Return the request as it would be if tools with these names had never existed."""
    return (
        _changed(request, lambda tool: None if tool.name in names else tool, names)
        if names
        else request
    )


def with_short_descriptions(request: ModelRequest, longest: int | None) -> ModelRequest:
    """Return the request with tool descriptions cut to `longest` characters; unchanged
    if `longest` is None.
    """
    if longest is None or all(
        len(tool.description) <= longest for tool in all_tools(request)
    ):
        return request
    return _changed(
        request, lambda tool: replace(tool, description=tool.description[:longest])
    )


def all_tools(request: ModelRequest) -> Iterable[ToolDefinition]:
    """Yield all tools in a request, including tools in its declaration and its
    amendments.
    """
    yield from request.tools
    if request.declared is not None:
        yield from request.declared.tools or ()
    for message in request.messages:
        if isinstance(message, Amendment):
            yield from message.added


def _changed(
    request: ModelRequest,
    change: Callable[[ToolDefinition], ToolDefinition | None],
    gone: Collection[str] = (),
) -> ModelRequest:
    """Return the request with each tool changed or left out, in its declaration and its
    amendments as well.

    :param gone: names of the tools that are left out. Amendments that remove these
        tools no longer mention them.
    """

    def changed(tools: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        return tuple(filter(None, map(change, tools)))

    messages: list[Message] = []
    for message in request.messages:
        if isinstance(message, Amendment) and (message.added or message.removed):
            removed = tuple(name for name in message.removed if name not in gone)
            message = replace(message, added=changed(message.added), removed=removed)  # noqa: PLW2901
        messages.append(message)
    declared = request.declared
    if declared is not None and declared.tools is not None:
        declared = replace(declared, tools=changed(declared.tools))
    return replace(
        request,
        tools=changed(request.tools),
        declared=declared,
        messages=tuple(messages),
    )
