"""What opens a connection is read without models, and means what the models say that it
means.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import (
    CancelNotification,
    ListSessionsRequest,
    NewSessionRequest,
    PromptRequest,
)
from acp_agent.server.content import parts_from_blocks
from acp_agent.server.params import (
    _plain_cancel,
    _plain_list,
    _plain_new_session,
    _plain_prompt,
)

TEXT = st.text(st.characters(codec=None), max_size=4)
ANYTHING: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats(0, 1) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=4,
)
SERVER: JsonObject = {"name": "s", "command": "/bin/s", "args": [], "env": []}


def some_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object in which any of these may be missing or be wrong."""
    return st.fixed_dictionaries(
        {}, optional={name: field | ANYTHING for name, field in fields.items()}
    )


NEW_SESSION = some_of(
    cwd=st.just("/project"),
    additionalDirectories=st.lists(TEXT, max_size=2),
    mcpServers=st.just([]) | st.just([SERVER]),
    _meta=ANYTHING,
    other=ANYTHING,
)
OTHER = dict.fromkeys(("session_id", "mime_type", "meta", "other", "_meta"), ANYTHING)
BLOCK = some_of(
    **OTHER,
    **dict.fromkeys(("text", "uri", "name", "mimeType", "title", "description"), TEXT),
    type=st.sampled_from(["text", "resource_link"]),
    size=st.integers(),
    annotations=some_of(audience=st.just(["user"]), priority=st.floats(0, 1))
    | ANYTHING,
)
PROMPT = some_of(**OTHER, sessionId=TEXT, prompt=st.lists(BLOCK | ANYTHING, max_size=3))
LINK: JsonObject = {"type": "resource_link", "uri": "file:///a", "name": "a"}


@given(NEW_SESSION)
@example({"cwd": "/a", "mcpServers": []})
@example({"cwd": "/a", "mcpServers": None, "additionalDirectories": ["/b"], "_meta": 1})
@example({"cwd": "\ud800", "mcpServers": []})
@example({"cwd": "/a", "additionalDirectories": "", "mcpServers": []})
@example({"cwd": "/a", "mcpServers": False})
@example({"cwd": "/a", "mcpServers": 0})
def test_a_new_session_that_is_read_without_the_model_is_what_the_model_says(
    params: JsonObject,
) -> None:
    plain = _plain_new_session(params)
    if plain is not None:
        model = NewSessionRequest.from_params(params, "session/new")
        assert (plain.cwd, [*plain.additional_directories]) == (
            model.cwd,
            model.additional_directories,
        )
        assert [*plain.mcp_servers] == model.mcp_servers


@given(PROMPT)
@example(
    {"sessionId": "s", "prompt": [{"type": "text", "text": "\ud800", "annotations": 1}]}
)
@example(
    {
        "sessionId": "s",
        "prompt": [
            LINK,
            {**LINK, "size": 10**30, "mimeType": None, "title": "", "_meta": 1},
        ],
    }
)
@example({"sessionId": "s", "prompt": [{**LINK, "size": True}]})
@example({"sessionId": "s", "prompt": [{**LINK, "mime_type": "text/plain"}]})
@example({"sessionId": "s", "prompt": [{**LINK, "type": "text", "text": "a"}]})
def test_a_prompt_that_is_read_without_the_model_is_what_the_model_says(
    params: JsonObject,
) -> None:
    plain = _plain_prompt(params)
    if plain is not None:
        model = PromptRequest.from_params(params, "session/prompt")
        assert (plain.session_id, plain.parts) == (
            model.session_id,
            parts_from_blocks(model.prompt),
        )


@given(
    some_of(**OTHER, cwd=TEXT, cursor=TEXT, archived=st.sampled_from(["include", None]))
)
@example({"cwd": None, "cursor": "c", "_meta": 1})
@example({})
def test_a_list_that_is_read_without_the_model_is_what_the_model_says(
    params: JsonObject,
) -> None:
    plain = _plain_list(params)
    if plain is not None:
        model = ListSessionsRequest.from_params(params, "session/list")
        assert (plain.cwd, plain.cursor, plain.archived) == (
            model.cwd,
            model.cursor,
            model.archived,
        )


@given(some_of(**OTHER, sessionId=TEXT))
@example({"sessionId": "s", "_meta": 1})
def test_a_cancel_that_is_read_without_the_model_is_what_the_model_says(
    params: JsonObject,
) -> None:
    plain = _plain_cancel(params)
    if plain is not None:
        assert (
            plain.session_id
            == CancelNotification.from_params(params, "session/cancel").session_id
        )


@pytest.mark.parametrize(
    "more", [{}, {"mcpServers": []}, {"additionalDirectories": [], "_meta": {"x": 1}}]
)
def test_what_editors_send_needs_no_model(more: JsonObject) -> None:
    assert _plain_new_session({"cwd": "/a", **more}) is not None
    assert _plain_list({"cwd": "/a"}) is not None
    assert _plain_cancel({"sessionId": "s"}) is not None
