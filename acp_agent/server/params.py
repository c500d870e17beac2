"""Validates the params of requests for their handlers, and reads `_meta`.

The generated models validate params. A worker thread imports them and pydantic on first
use. Importing them takes a third of the time from an editor's start to its first
session, and a cancel would have to wait for the import. Nearly all editors first send a
directory without servers, then text and links. These simple forms are validated here,
and all others by the models.

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
_LIST = frozenset({"cwd", "cursor", "_meta"})
_SESSION = frozenset({"sessionId", "_meta"})
_PROMPT = frozenset({"sessionId", "prompt", "_meta"})
_TEXT = frozenset({"type", "text", "annotations", "_meta"})
_LINK = frozenset({"type", "uri", "name", "annotations", "_meta"})
_TRACE = ("traceparent", "tracestate", "baggage")
_LONGEST_TRACE = 8_192


async def read_params(
    models: ModuleType, names: Mapping[str, str], method: str, params: JsonObject
) -> Any:
    """Return the validated params for a handler.

    :param models: the package with the models of a protocol version.
    :param names: the names of the models by method. The params of other methods are
        returned unchanged.
    :raises InvalidParamsError: if the params are invalid. The message names the member.
    """
    plain = _PLAIN[method](params) if method in _PLAIN else None
    if plain is not None or method not in names:
        return plain or params

    def validate() -> Any:
        return getattr(models, names[method]).from_params(params, method)

    # Use a thread, since the first call for a method imports and builds its model.
    return await anyio.to_thread.run_sync(validate, abandon_on_cancel=True)


@frozen
class NewSession:
    """Holds the params of a `NewSessionRequest` without additional directories or MCP
    servers.
    """

    cwd: str
    additional_directories: tuple[()] = ()
    mcp_servers: tuple[()] = ()


@frozen
class ListSessions:
    """Holds the params of a `ListSessionsRequest` for sessions that are not archived."""

    cwd: str | None
    cursor: str | None
    archived: None = None


@frozen
class Cancel:
    """Holds the params of a `session/cancel`."""

    session_id: str


@frozen
class Prompt:
    """Holds the params of a `PromptRequest` that has only texts and links."""

    session_id: str
    parts: tuple[UserPart, ...]


def _plain_new_session(params: JsonObject) -> NewSession | None:
    """Read the params of `session/new`; return None if they need the model."""
    match params:
        case {"cwd": str(cwd)} if params.keys() <= _NEW and all(
            params.get(key) in ([], None) for key in _LISTS
        ):
            return NewSession(cwd)
        case _:
            return None


def _plain_prompt(params: JsonObject) -> Prompt | None:
    """Read the params of `session/prompt`; return None if they need the model."""
    match params:
        case {"sessionId": str(session_id), "prompt": list(blocks)} if (
            params.keys() <= _PROMPT
        ):
            parts = [part for block in blocks if (part := _part(block)) is not None]
            return (
                Prompt(session_id, tuple(parts)) if len(parts) == len(blocks) else None
            )
        case _:
            return None


def _plain_list(params: JsonObject) -> ListSessions | None:
    """Read the params of `session/list`; return None if they need the model."""
    match params.get("cwd"), params.get("cursor"):
        case (str() | None as cwd, str() | None as cursor) if params.keys() <= _LIST:
            return ListSessions(cwd, cursor)
        case _:
            return None


def _plain_cancel(params: JsonObject) -> Cancel | None:
    """Read the params of `session/cancel`; return None if they need the model."""
    match params:
        case {"sessionId": str(session_id)} if params.keys() <= _SESSION:
            return Cancel(session_id)
        case _:
            return None


def _part(block: JsonValue) -> UserPart | None:
    match block:
        case {"type": "text", "text": str(text)} if block.keys() <= _TEXT:
            return Text(text)
        case {"type": "resource_link", "uri": str(uri), "name": str(name)} if (
            block.keys() <= _LINK
        ):
            return ResourceLink(uri, name)
        case _:
            return None


_PLAIN = {
    methods.SESSION_NEW: _plain_new_session,
    methods.SESSION_LIST: _plain_list,
    methods.SESSION_CANCEL: _plain_cancel,
    methods.SESSION_PROMPT: _plain_prompt,
}


def trace_context(meta: JsonValue) -> dict[str, str]:
    """Return the W3C trace context in `_meta`: its entries that are strings of an
    allowed length.
    """
    found = {key: as_object(meta).get(key) for key in _TRACE}
    return {
        key: value
        for key, value in found.items()
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_TRACE
    }


def fork_point(meta: JsonValue) -> int | str | None:
    """Return the fork point in `_meta` of `session/fork`, an extension of the schema;
    None if there is none.

    The fork point is the number of a log entry, as in `{"acp-agent": {"at": 12}}`, or
    the id of a message, as in `{"acp-agent": {"messageId": "msg_1"}}`.

    :raises InvalidParamsError: if the fork point is malformed.
    """
    match as_object(meta).get(FORK_KEY):
        case None:
            return None
        case {"at": int(at), **more} if (
            not isinstance(at, bool) and more.get("messageId") is None
        ):
            return at
        case {"messageId": str(message_id), **more} if more.get("at") is None:
            return message_id
        case _:
            raise InvalidParamsError(
                f"session/fork: _meta.{FORK_KEY} does not name a fork point. Send `at`, the number of an entry, or "
                "`messageId`."
            )
