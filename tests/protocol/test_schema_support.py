"""The check that other tests rely on finds what it promises to find."""

from __future__ import annotations

from typing import Any

import pytest

from support.schema import (
    SchemaViolationError,
    official_errors,
    validate_outgoing,
    validate_params,
    validate_result,
)

TEXT = {"type": "text", "text": "x"}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": TEXT}
OPTION = {
    "id": "m",
    "name": "n",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a", "name": "b"}],
}


def update(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": members}}


@pytest.mark.parametrize(
    ("message", "method"),
    [
        (update(**CHUNK, _meta={"anything": {"goes": 1}}), None),
        (update(sessionUpdate="tool_call_update", toolCallId="t", rawInput={"any": [{"thing": 1}]}, kind=None), None),
        ({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}, "session/prompt"),
        ({"jsonrpc": "2.0", "id": "a", "result": {"sessionId": "s", "configOptions": [OPTION]}}, "session/new"),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "m", "data": {"details": "d"}}}, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/"}}, None),
        ({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}, None),
    ],
)
def test_what_the_protocol_allows_passes(message: dict[str, Any], method: str | None) -> None:
    validate_outgoing(message, method)


@pytest.mark.parametrize(
    ("message", "method", "complaint"),
    [
        (update(sessionUpdate="agent_message_chunk", content={**TEXT, "txet": 1}), None, "update.content.txet"),
        (update(**CHUNK, message_id="m"), None, "update.message_id"),
        (update(sessionUpdate="agent_message_chunk", content={"type": "text"}), None, "'text' is a required"),
        (update(sessionUpdate="nonsense"), None, "at update.sessionUpdate"),
        (update(content=TEXT), None, "'sessionUpdate' is a required"),
        (update(**CHUNK) | {"extra": 1}, None, "undeclared members"),
        (update(**CHUNK) | {"jsonrpc": "1.0"}, None, "jsonrpc"),
        (update(**CHUNK) | {"id": 1}, None, "no request called 'session/update'"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "done"}}, "session/prompt", "at stopReason"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn", "usage": {}}}, "session/prompt", "usage"),
        ({"jsonrpc": "2.0", "id": 1, "result": None}, "session/load", "not of type 'object'"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None, "only with the method"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "session/nonsense", "no response called"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, "session/load", "undeclared members"),
        ({"jsonrpc": "2.0", "result": {}}, "session/load", "lacks"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "m"}}, None, "at code"),
        ({"jsonrpc": "2.0", "id": None, "method": "fs/read_text_file", "params": {}}, None, "sessionId"),
        ({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {}}, None, "an agent does not send it"),
        ({"jsonrpc": "2.0", "method": "session/nonsense", "params": {}}, None, "no notification called"),
    ],
)
def test_what_the_protocol_does_not_allow_is_found(message: dict[str, Any], method: str | None, complaint: str) -> None:
    with pytest.raises(SchemaViolationError) as caught:
        validate_outgoing(message, method)
    assert complaint in str(caught.value)


def test_an_undeclared_property_passes_the_official_schema_but_not_ours() -> None:
    option = {**OPTION, "categry": "model"}
    assert official_errors("SessionConfigOption", option) == []
    with pytest.raises(SchemaViolationError, match=r"configOptions\[0\]\.categry"):
        validate_result("session/set_config_option", {"configOptions": [option]})


def test_params_from_the_client_can_be_checked_too() -> None:
    validate_params("initialize", {"protocolVersion": 1, "clientCapabilities": {"session": {"compaction": {}}}})
    with pytest.raises(SchemaViolationError, match="at protocolVersion"):
        validate_params("initialize", {"protocolVersion": "1"})
