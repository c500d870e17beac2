"""The check that other tests rely on finds what it promises to find."""

from __future__ import annotations

from typing import Any

import pytest

from support.schema import (
    SchemaViolationError,
    official_errors,
    validate_outgoing,
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
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": members},
    }


@pytest.mark.parametrize(
    ("message", "method", "complaint"),
    [
        (
            update(sessionUpdate="agent_message_chunk", content={**TEXT, "txet": 1}),
            None,
            "update.content.txet",
        ),
        (update(**CHUNK, message_id="m"), None, "update.message_id"),
        (
            update(sessionUpdate="agent_message_chunk", content={"type": "text"}),
            None,
            "'text' is a required",
        ),
        (update(**CHUNK) | {"id": 1}, None, "no request called 'session/update'"),
        (
            {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "done"}},
            "session/prompt",
            "at stopReason",
        ),
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "result": {"stopReason": "end_turn", "usage": {}},
            },
            "session/prompt",
            "usage",
        ),
        ({"jsonrpc": "2.0", "result": {}}, "session/load", "lacks"),
        (
            {"jsonrpc": "2.0", "id": None, "method": "fs/read_text_file", "params": {}},
            None,
            "sessionId",
        ),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {}},
            None,
            "an agent does not send it",
        ),
    ],
)
def test_what_the_protocol_does_not_allow_is_found(
    message: dict[str, Any], method: str | None, complaint: str
) -> None:
    with pytest.raises(SchemaViolationError) as caught:
        validate_outgoing(message, method)
    assert complaint in str(caught.value)


def test_an_undeclared_property_passes_the_official_schema_but_not_ours() -> None:
    option = {**OPTION, "categry": "model"}
    assert official_errors("SessionConfigOption", option) == []
    with pytest.raises(SchemaViolationError, match=r"configOptions\[0\]\.categry"):
        validate_result("session/set_config_option", {"configOptions": [option]})
