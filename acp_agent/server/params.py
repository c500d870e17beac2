"""Reads the params of requests for their handlers, and what stands in `_meta`.

Most are read by the generated models, which are imported with pydantic in a worker thread on first use. That would take
a third of the time from an editor's start to its first session, and nearly every editor sends a directory and no
servers, then text and links. These simple forms are read here; everything else is left to the model.

ACP, "Session Setup", "Prompt Turn", "Extensibility"; W3C, "Trace Context", "Baggage".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import anyio.to_thread

from acp_agent.conversation.messages import ResourceLink, Text, UserPart
from acp_agent.errors import InvalidParamsError
from acp_agent.frozen import frozen
from acp_agent.jsonrpc.messages import JsonObject, JsonValue
from acp_agent.protocol import as_object, methods
from acp_agent.server.handshake import FORK_KEY

_LISTS = ("additionalDirectories", "mcpServers")
_NEW = frozenset({"cwd", *_LISTS, "_meta"})
_PROMPT = frozenset({"sessionId", "prompt", "_meta"})
_TEXT = frozenset({"type", "text", "annotations", "_meta"})
_LINK = frozenset({"type", "uri", "name", "annotations", "_meta"})
_TRACE = ("traceparent", "tracestate", "baggage")
_LONGEST_TRACE = 8_192


async def read_params(models: ModuleType, names: Mapping[str, str], method: str, params: JsonObject) -> Any:
    """Return what the handler of a method takes.

    :param models: the package with the models of a version.
    :param names: of the models, by method; the params of other methods are left as they came.
    :raises InvalidParamsError: the params are wrong; says which member is.
    """
    plain = _PLAIN[method](params) if method in _PLAIN else None
    if plain is not None or method not in names:
        return plain or params

    def validate() -> Any:
        return getattr(models, names[method]).from_params(params, method)

    # In a thread, since the first one imports and builds its model.
    return await anyio.to_thread.run_sync(validate, abandon_on_cancel=True)


@frozen
class NewSession:
    """Holds the params of a `NewSessionRequest` without further directories and MCP servers."""

    cwd: str
    additional_directories: tuple[()] = ()
    mcp_servers: tuple[()] = ()


@frozen
class Prompt:
    """Holds the params of a `PromptRequest` that has only texts and links."""

    session_id: str
    parts: tuple[UserPart, ...]


def _plain_new_session(params: JsonObject) -> NewSession | None:
    """Read the params of `session/new`; None where the model has to."""
    match params:
        case {"cwd": str(cwd)} if params.keys() <= _NEW and all(params.get(key) in ([], None) for key in _LISTS):
            return NewSession(cwd)
        case _:
            return None


def _plain_prompt(params: JsonObject) -> Prompt | None:
    """Read the params of `session/prompt`; None where the model has to."""
    match params:
        case {"sessionId": str(session_id), "prompt": list(blocks)} if params.keys() <= _PROMPT:
            parts = [part for block in blocks if (part := _part(block)) is not None]
            return Prompt(session_id, tuple(parts)) if len(parts) == len(blocks) else None
        case _:
            return None


def _part(block: JsonValue) -> UserPart | None:
    match block:
        case {"type": "text", "text": str(text)} if block.keys() <= _TEXT:
            return Text(text)
        case {"type": "resource_link", "uri": str(uri), "name": str(name)} if block.keys() <= _LINK:
            return ResourceLink(uri, name)
        case _:
            return None


_PLAIN = {
    methods.SESSION_NEW: _plain_new_session,
    methods.SESSION_PROMPT: _plain_prompt,
}


def trace_context(meta: JsonValue) -> dict[str, str]:
    """Return the W3C trace context in `_meta`: the entries that are strings of an allowed length."""
    found = {key: as_object(meta).get(key) for key in _TRACE}
    return {key: value for key, value in found.items() if isinstance(value, str) and 0 < len(value) <= _LONGEST_TRACE}


def fork_point(meta: JsonValue) -> int | str | None:
    """Return the entry of the log or the message's id at which `session/fork` is to fork: what `_meta` says beyond the
    schema, as `{"acp-agent": {"at": 12}}` or `{"acp-agent": {"messageId": "msg_1"}}`; None where it says nothing.

    :raises InvalidParamsError: what stands there names no point.
    """
    match as_object(meta).get(FORK_KEY):
        case None:
            return None
        case {"at": int(at), **more} if not isinstance(at, bool) and more.get("messageId") is None:
            return at
        case {"messageId": str(message_id), **more} if more.get("at") is None:
            return message_id
        case _:
            raise InvalidParamsError(
                f"session/fork: _meta.{FORK_KEY} names no point to fork at. Send `at`, the number of an entry, or "
                "`messageId`."
            )
