"""Every constructor's output is what the official schema says and what the generated models read."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.protocol import JsonObject, v1
from acp_agent.protocol.v1 import content as c
from acp_agent.protocol.v1 import requests, results
from acp_agent.protocol.v1 import updates as u
from acp_agent.protocol.v1.methods import METHODS
from acp_agent.protocol.wire import dump, parse
from support.schema import (
    official_schema,
    validate_definition,
    validate_outgoing,
    validate_params,
    validate_result,
)

TEXT = c.text_content("hello")
VALUE = c.config_value("m1", "Model 1", description="the first")
SELECT = c.config_select("model", "Model", "m1", [VALUE], category="model", description="which")
BOOLEAN = c.config_boolean("fast", "Fast", True, category="model_config", description="quick")
MODES = c.session_mode_state("ask", [c.session_mode("ask", "Ask", description="asks"), c.session_mode("plan", "Plan")])
CHOICES = [c.form_choice("a", "A", description="the first"), c.form_choice("b", "B")]
FORM = c.form_schema(
    {
        "text": c.form_field("string", title="Text", description="some", default="x", limits={"maxLength": 9}),
        "one": c.form_field("string", choices=CHOICES),
        "some": c.form_field("array", choices=CHOICES, default=["a"], limits={"minItems": 1}),
        "yes": c.form_field("boolean", default=False),
        "count": c.form_field("integer", limits={"minimum": 1}),
    },
    ["one"],
)
ALL_TOOL_CONTENT = [c.tool_content(TEXT), c.diff("/a", None, "new"), c.diff("/a", "old", "new"), c.terminal("t")]

UPDATES: list[JsonObject] = [
    u.user_message_chunk(TEXT, message_id="m"),
    u.user_message_chunk(c.image_content("aGk=", "image/png")),
    u.user_message_chunk(c.image_content("aGk=", "image/png", uri="file:///a.png")),
    u.user_message_chunk(c.audio_content("aGk=", "audio/wav")),
    u.user_message_chunk(c.resource_link("file:///a", "a")),
    u.user_message_chunk(
        c.resource_link("file:///a", "a", mime_type="text/plain", title="A", description="an a", size=3)
    ),
    u.user_message_chunk(c.text_resource("file:///a", "text")),
    u.user_message_chunk(c.text_resource("file:///a", "text", mime_type="text/plain")),
    u.user_message_chunk(c.blob_resource("file:///a", "aGk=", mime_type="application/pdf")),
    u.agent_message_chunk(TEXT),
    u.agent_message_chunk(TEXT, message_id="m"),
    u.agent_thought_chunk(TEXT),
    u.agent_thought_chunk(TEXT, message_id="m"),
    u.tool_call("t", "Read a"),
    u.tool_call(
        "t",
        "Edit a",
        name="edit",
        kind="edit",
        status="in_progress",
        content=ALL_TOOL_CONTENT,
        locations=[c.location("/a"), c.location("/a", line=3)],
        raw_input={"path": "/a"},
        raw_output=["done"],
        meta={"x": 1},
    ),
    u.tool_call_update("t"),
    u.tool_call_update("t", "Edited a", status="completed", content=[], locations=[], raw_output="done"),
    u.plan([]),
    u.plan([c.plan_entry("think", priority="high", status="in_progress")]),
    u.plan_update("plan", [c.plan_entry("think", priority="low", status="completed")]),
    u.plan_removed("plan"),
    u.available_commands_update([c.available_command("compact", "Compact", hint="instructions")]),
    u.available_commands_update([c.available_command("undo", "Undo")]),
    u.current_mode_update("ask"),
    u.config_option_update([SELECT, BOOLEAN]),
    u.session_info_update(),
    u.session_info_update(title="A title", updated_at="2026-01-01T00:00:00Z"),
    u.session_info_update(title=None),
    u.usage_update(10, 200_000),
    u.usage_update(10, 200_000, cost=c.cost(0.25, "USD")),
    u.notice("warning", "Careful"),
    u.notice("error", "Broken", description="very"),
    u.compaction_update("c", "in_progress"),
    u.compaction_update("c", "completed", summary=[TEXT], meta={"x": 1}),
    u.compaction_update("c", "failed", summary=None, error="no"),
    u.compaction_update("c", "cancelled", summary=[], error=None, meta=None),
    u.compaction_summary_chunk("c", "part"),
]

CLEARING = ("oldText", "current")
"""Where null says something: a new file, a provider that is turned off."""
CAPABILITIES = results.agent_capabilities(
    load_session=True,
    prompt=["image", "audio", "embeddedContext"],
    mcp=["http", "sse", "acp"],
    session=["list", "delete", "additionalDirectories", "resume", "close"],
    auth=["logout", "status"],
    more=["providers"],
)
RESULTS: list[tuple[str, JsonObject]] = [
    (
        "initialize",
        results.initialize_result(
            agent_capabilities=CAPABILITIES,
            auth_methods=[
                results.agent_auth_method("key", "API key", description="from the environment", meta={"x": 1}),
                results.terminal_auth_method("login", "Log in"),
                results.terminal_auth_method(
                    "login", "Log in", description="asks", args=["setup"], env={"A": "b"}, meta={"x": 1}
                ),
            ],
            agent_info=results.implementation("acp-agent", "1.0.0", title="ACP agent"),
        ),
    ),
    (
        "providers/list",
        results.list_providers_result(
            [
                results.provider("a", supported=["openai"], required=False, api_type="openai", base_url="http://a/v1"),
                results.provider("b", supported=["anthropic"], required=True, api_type=None, base_url="http://b"),
            ]
        ),
    ),
    ("auth/status", results.auth_status("authenticated", [results.account("openai: a key", active=True)])),
    ("session/new", results.session_result(session_id="s", modes=MODES, config_options=[SELECT, BOOLEAN])),
    ("session/new", results.session_result(session_id="s")),
    ("session/load", results.session_result()),
    ("session/resume", results.session_result(modes=MODES)),
    ("session/list", results.list_sessions_result([])),
    (
        "session/list",
        results.list_sessions_result(
            [
                results.session_info("s", "/"),
                results.session_info("s", "/", title="T", updated_at="2026", additional_directories=["/b"]),
                results.session_info("s", "/", archived=False),
            ],
            next_cursor="2",
        ),
    ),
    ("session/fork", results.session_result(session_id="s", modes=MODES)),
    ("session/set_title", results.set_title_result("T")),
    ("session/status", results.session_status_result("saved")),
    ("session/prompt", results.prompt_result("end_turn")),
    ("session/set_config_option", results.set_config_option_result([SELECT])),
]

REQUESTS: list[tuple[str, JsonObject]] = [
    (
        "session/request_permission",
        requests.request_permission(
            "s",
            u.tool_call_fields(
                "t", "Edit", kind="edit", status="pending", content=ALL_TOOL_CONTENT, raw_input={"a": 1}
            ),
            [requests.permission_option("yes", "Allow", "allow_once")],
        ),
    ),
    ("fs/read_text_file", requests.read_text_file("s", "/a")),
    ("fs/read_text_file", requests.read_text_file("s", "/a", line=1, limit=10)),
    ("fs/write_text_file", requests.write_text_file("s", "/a", "text")),
    ("terminal/create", requests.create_terminal("s", "ls")),
    (
        "terminal/create",
        requests.create_terminal("s", "ls", args=["-l"], env={"A": "b"}, cwd="/", output_byte_limit=1000),
    ),
    ("terminal/output", requests.terminal_request("s", "t")),
    ("terminal/wait_for_exit", requests.terminal_request("s", "t")),
    ("terminal/kill", requests.terminal_request("s", "t")),
    ("terminal/release", requests.terminal_request("s", "t")),
    ("elicitation/create", requests.form_elicitation("s", "Which?", FORM)),
    ("elicitation/create", requests.form_elicitation("s", "Which?", c.form_schema({}, []), tool_call_id="t")),
    ("elicitation/create", requests.url_elicitation("s", "Sign in", "https://example.com/", "e", tool_call_id="t")),
    ("elicitation/complete", requests.complete_elicitation("e")),
    ("auth/status_update", results.auth_status("unauthenticated", [])),
]


def notification(update: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "method": "session/update", "params": u.session_update("s", update)}


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: str(update["sessionUpdate"]))
def test_an_update_is_valid_and_read_back_by_the_models(update: JsonObject) -> None:
    validate_outgoing(notification(update))
    params = u.session_update("s", update)
    assert dump(parse(v1.SessionNotification, params, "session/update")) == params


@pytest.mark.parametrize(("method", "result"), RESULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_result_is_valid_and_read_back_by_the_models(method: str, result: JsonObject) -> None:
    validate_result(method, result)
    assert dump(parse(getattr(v1, str(METHODS[method].result)), result, method)) == result


@pytest.mark.parametrize(("method", "params"), REQUESTS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_the_client_is_asked_is_valid_and_read_back_by_the_models(method: str, params: JsonObject) -> None:
    validate_params(method, params)
    assert dump(parse(METHODS[method].params_model(), params, method)) == params


@pytest.mark.parametrize("params", [None, {"name": "look", "_meta": {"x": 1}}])
def test_a_message_to_the_editors_mcp_server_is_valid(params: JsonObject | None) -> None:
    message = requests.mcp_message("server", "1", "tools/call", params)
    validate_params("mcp/message", message)
    assert ("params" in message) is (params is not None)


def test_every_variant_of_the_update_has_a_constructor() -> None:
    variants = {
        option["properties"]["sessionUpdate"]["const"]
        for option in official_schema()["$defs"]["SessionUpdate"]["oneOf"]
    }
    assert {str(update["sessionUpdate"]) for update in UPDATES} == variants


@pytest.mark.parametrize("module", [c, u, results, requests], ids=lambda module: module.__name__)
def test_every_constructor_is_tried_above(module: ModuleType) -> None:
    source = inspect.getsource(inspect.getmodule(notification) or pytest.fail("no source"))
    functions = [
        name
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__
    ]
    assert [name for name in functions if f".{name}(" not in source and name != "given"] == []


@pytest.mark.parametrize(
    ("constructed", "definition"),
    [
        (TEXT, "ContentBlock"),
        (c.tool_content(TEXT), "ToolCallContent"),
        (c.location("/a"), "ToolCallLocation"),
        (c.available_command("a", "b"), "AvailableCommand"),
        (MODES, "SessionModeState"),
        (SELECT, "SessionConfigOption"),
        (FORM, "ElicitationSchema"),
    ],
)
def test_a_piece_is_valid_on_its_own(constructed: JsonObject, definition: str) -> None:
    validate_definition(definition, constructed)


def test_nothing_that_was_left_out_appears_as_null() -> None:
    def nulls(value: object) -> bool:
        if isinstance(value, Mapping):
            members = cast("Mapping[str, object]", value)
            return any(nulls(member) for key, member in members.items() if key not in CLEARING)
        return value is None or (isinstance(value, list) and any(nulls(item) for item in cast("list[object]", value)))

    clearing = {"compaction_update", "session_info_update"}
    made = [update for update in UPDATES if update["sessionUpdate"] not in clearing]
    made += [result for _, result in RESULTS] + [params for _, params in REQUESTS]
    assert [value for value in made if nulls(value)] == []


@given(
    summary=st.sampled_from([c.OMITTED, None, [], [TEXT]]),
    error=st.sampled_from([c.OMITTED, None, "why"]),
    meta=st.sampled_from([c.OMITTED, None, {"tokens": 1}]),
)
def test_a_compaction_tells_null_from_omitted(summary: Any, error: Any, meta: Any) -> None:
    update = u.compaction_update("c", "failed", summary=summary, error=error, meta=meta)
    expected = {"summary": summary, "error": error, "_meta": meta}
    found = {key: update[key] for key in expected if key in update}
    assert found == {key: value for key, value in expected.items() if value is not c.OMITTED}
    validate_outgoing(notification(update))
    assert dump(parse(v1.SessionNotification, u.session_update("s", update), "m"))["update"] == update


@given(title=st.sampled_from([c.OMITTED, None, "t"]), updated_at=st.sampled_from([c.OMITTED, None, "2026"]))
def test_session_info_tells_null_from_omitted(title: Any, updated_at: Any) -> None:
    update = u.session_info_update(title=title, updated_at=updated_at)
    expected = {"title": title, "updatedAt": updated_at}
    found = {key: update[key] for key in expected if key in update}
    assert found == {key: value for key, value in expected.items() if value is not c.OMITTED}


@settings(deadline=None)
@given(text=st.text(), message_id=st.none() | st.text())
def test_any_text_can_be_sent(text: str, message_id: str | None) -> None:
    for chunk in (u.user_message_chunk, u.agent_message_chunk, u.agent_thought_chunk):
        validate_outgoing(notification(chunk(c.text_content(text), message_id=message_id)))


def test_a_new_file_is_told_by_a_null_old_text() -> None:
    assert c.diff("/a", None, "x") == {"type": "diff", "path": "/a", "oldText": None, "newText": "x"}


def test_session_capabilities_are_objects() -> None:
    assert results.agent_capabilities(session=["list"])["sessionCapabilities"] == {"list": {}}
