"""What opens a connection is read without models, and means what the models say that it means."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.errors import InvalidParamsError
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import CancelNotification, NewSessionRequest, PromptRequest
from acp_agent.protocol.wire import parse
from acp_agent.server.content import parts_from_blocks
from acp_agent.server.params import plain_cancel, plain_new_session, plain_prompt

TEXT = st.text(st.characters(codec=None), max_size=4)
ANYTHING: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats(0, 1) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
SERVER: JsonObject = {"name": "s", "command": "/bin/s", "args": [], "env": []}


def some_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object in which any of these may be missing or be wrong."""
    return st.fixed_dictionaries({}, optional={name: field | ANYTHING for name, field in fields.items()})


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
    annotations=some_of(audience=st.just(["user"]), priority=st.floats(0, 1)) | ANYTHING,
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
def test_a_new_session_that_is_read_without_the_model_is_what_the_model_says(params: JsonObject) -> None:
    plain = plain_new_session(params)
    if plain is not None:
        model = parse(NewSessionRequest, params, "session/new")
        assert (plain.cwd, plain.additional_directories) == (model.cwd, model.additional_directories)
        assert [*plain.mcp_servers] == model.mcp_servers


@given(PROMPT)
@example({"sessionId": "s", "prompt": [{"type": "text", "text": "\ud800", "annotations": 1}]})
@example({"sessionId": "s", "prompt": [LINK, {**LINK, "size": 10**30, "mimeType": None, "title": "", "_meta": 1}]})
@example({"sessionId": "s", "prompt": [{**LINK, "size": True}]})
@example({"sessionId": "s", "prompt": [{**LINK, "mime_type": "text/plain"}]})
@example({"sessionId": "s", "prompt": [{**LINK, "type": "text", "text": "a"}]})
def test_a_prompt_that_is_read_without_the_model_is_what_the_model_says(params: JsonObject) -> None:
    plain = plain_prompt(params)
    if plain is not None:
        model = parse(PromptRequest, params, "session/prompt")
        assert (plain.session_id, plain.parts) == (model.session_id, parts_from_blocks(model.prompt))


@given(PROMPT)
def test_a_cancel_that_is_read_without_the_model_is_what_the_model_says(params: JsonObject) -> None:
    plain = plain_cancel(params)
    if plain is not None:
        assert plain.session_id == parse(CancelNotification, params, "session/cancel").session_id


@pytest.mark.parametrize("more", [{}, {"mcpServers": []}, {"additionalDirectories": ["/b"], "_meta": {"x": 1}}])
def test_what_editors_send_needs_no_model(more: JsonObject) -> None:
    assert plain_new_session({"cwd": "/a", **more}) is not None


OPENED: JsonObject = {"cwd": "/", "mcpServers": []}
PROMPTED: JsonObject = {"sessionId": "sess_1"}


@pytest.mark.parametrize(
    ("method", "params", "wrong"),
    [
        ("session/new", {**OPENED, "cwd": 1}, "cwd must be a string"),
        ("session/new", {"mcpServers": []}, "cwd is missing"),
        ("session/new", {**OPENED, "mcpServers": {}}, "mcpServers must be a valid list"),
        ("session/new", {**OPENED, "mcpServers": [{"name": "s"}]}, "mcpServers[0].command is missing"),
        ("session/new", {**OPENED, "additionalDirectories": ["/", 2]}, "additionalDirectories[1] must be a string"),
        ("session/prompt", {"prompt": []}, "sessionId is missing"),
        ("session/prompt", {**PROMPTED, "prompt": "Hi"}, "prompt must be a valid list"),
        ("session/prompt", {**PROMPTED, "prompt": [{"type": "text"}]}, "prompt[0].text is missing"),
        ("session/prompt", {**PROMPTED, "prompt": [{"type": "text", "text": 1}]}, "prompt[0].text must be a string"),
        ("session/prompt", {**PROMPTED, "prompt": [{"text": "Hi"}]}, "prompt[0].type is missing"),
        ("session/prompt", {**PROMPTED, "prompt": [{"type": "film"}]}, "is 'film', which is none of text, image"),
        ("session/prompt", {**PROMPTED, "prompt": [{**LINK, "name": None}]}, "prompt[0].name"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(method: str, params: JsonObject, wrong: str) -> None:
    plain, model = {
        "session/new": (plain_new_session, NewSessionRequest),
        "session/prompt": (plain_prompt, PromptRequest),
    }[method]
    assert plain(params) is None
    with pytest.raises(InvalidParamsError, match=f"{method}.*{re.escape(wrong)}"):
        parse(model, params, method)
