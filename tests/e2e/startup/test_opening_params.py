"""What opens a connection is read without models, and means what the models say that it means."""

from __future__ import annotations

import re

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


def some_of(**fields: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    """An object in which any of these may be missing, be wrong, or stand beside something unknown."""
    return st.fixed_dictionaries({}, optional={name: field | ANYTHING for name, field in fields.items()}) | ANYTHING


NEW_SESSION = st.fixed_dictionaries(
    {},
    optional={
        "cwd": st.just("/project") | ANYTHING,
        "additionalDirectories": st.lists(TEXT, max_size=2) | ANYTHING,
        "mcpServers": st.just([]) | st.just([SERVER]) | ANYTHING,
        "_meta": ANYTHING,
        "other": ANYTHING,
    },
)
OTHER_SPELLINGS = dict.fromkeys(("session_id", "mime_type", "meta", "other", "_meta", "annotations"), ANYTHING)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "resource_link"]) | ANYTHING},
    optional={
        **OTHER_SPELLINGS,
        **dict.fromkeys(("text", "uri", "name", "mimeType", "title", "description"), TEXT | ANYTHING),
        "size": st.integers() | ANYTHING,
        "annotations": some_of(audience=st.just(["user"]), priority=st.floats(0, 1)),
    },
)
PROMPT = st.fixed_dictionaries(
    {},
    optional={
        **OTHER_SPELLINGS,
        "sessionId": TEXT | ANYTHING,
        "prompt": st.lists(BLOCK | ANYTHING, max_size=3) | ANYTHING,
    },
)
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


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        ({"cwd": 1, "mcpServers": []}, "cwd must be a string"),
        ({"mcpServers": []}, "cwd is missing"),
        ({"cwd": "/", "mcpServers": {}}, "mcpServers must be a valid list"),
        ({"cwd": "/", "mcpServers": [{"name": "s"}]}, "mcpServers[0].command is missing"),
        (
            {"cwd": "/", "mcpServers": [], "additionalDirectories": ["/", 2]},
            "additionalDirectories[1] must be a string",
        ),
    ],
)
def test_what_is_wrong_with_a_new_session_is_named_by_its_path(params: JsonObject, wrong: str) -> None:
    assert plain_new_session(params) is None
    with pytest.raises(InvalidParamsError, match=f"session/new.*{re.escape(wrong)}"):
        parse(NewSessionRequest, params, "session/new")


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        ({"prompt": []}, "sessionId is missing"),
        ({"prompt": "Hi"}, "prompt must be a valid list"),
        ({"prompt": [{"type": "text"}]}, "prompt[0].text is missing"),
        ({"prompt": [{"type": "text", "text": 1}]}, "prompt[0].text must be a string"),
        ({"prompt": [{"text": "Hi"}]}, "prompt[0].type is missing"),
        ({"prompt": [{"type": "film"}]}, "prompt[0].type is 'film', which is none of text, image"),
        ({"prompt": [{"type": "resource_link", "uri": "file:///a"}]}, "prompt[0].name is missing"),
    ],
)
def test_what_is_wrong_with_a_prompt_is_named_by_its_path(params: JsonObject, wrong: str) -> None:
    known: JsonObject = {} if wrong.startswith("sessionId") else {"sessionId": "sess_1"}
    assert plain_prompt({**known, **params}) is None
    with pytest.raises(InvalidParamsError, match=f"session/prompt.*{re.escape(wrong)}"):
        parse(PromptRequest, {**known, **params}, "session/prompt")
