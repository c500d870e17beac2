"""Version 2 of the protocol: the method table, the models of what is read and the constructors are the schema's."""

from __future__ import annotations

import inspect
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings

from acp_agent.errors import InvalidParamsError
from acp_agent.protocol import JsonObject, v2
from acp_agent.protocol.v1 import content as c1
from acp_agent.protocol.v1 import requests as r1
from acp_agent.protocol.v1 import results as s1
from acp_agent.protocol.v1 import updates as u1
from acp_agent.protocol.v2 import content, requests, results, updates
from acp_agent.protocol.v2.methods import METHODS
from acp_agent.protocol.wire import WireModel, dump, parse
from support.checkout import REPOSITORY
from support.npm import npm_package
from support.schema import official_errors, official_schema, validate_definition, validate_params, validate_result
from support.schema_members import members_of
from support.schema_values import values as any_value

SIDES = {"agent": "agent", "client": "client", "protocol": "both"}
DEFINITIONS: dict[str, dict[str, Any]] = official_schema(2)["$defs"]
READ = [method.params for method in METHODS.values() if method.side != "client"]
READ += [row.result for row in METHODS.values() if row.side == "client" and row.result and row.name != "mcp/message"]

TEXT = c1.text_content("hello")
PATCH = "diff --git /a /a\n--- /a\n+++ /a\n@@ -1 +1 @@\n-a\n+b\n"
DIFF = content.diff(
    [
        content.change("modify", "/a", file_type="text", mime_type="text/plain"),
        content.change("add", "/b"),
        content.change("delete", "/d", file_type="directory"),
        content.change("move", "/new", former="/old", file_type="symlink"),
        content.change("copy", "/new", former="/old", file_type="binary"),
    ],
    git_patch=PATCH,
)
SELECT = content.config_option(
    c1.config_select("model", "Model", "m1", [c1.config_value("m1", "Model 1")], category="model", description="which")
)
GROUPED = content.config_option(
    c1.config_select("model", "Model", "m1", [c1.config_value("m1", "Model 1", description="large")], category="model"),
    [content.config_group("us", [c1.config_value("m1", "Model 1", description="large")])],
)
MODE = content.config_option(c1.config_select("mode", "Mode", "ask", [c1.config_value("ask", "Ask")], category="mode"))
THINKING = content.config_option(
    c1.config_select("thinking", "Thinking", "off", [c1.config_value("off", "Off")], category="thought_level")
)
COMMAND = content.available_command("compact", "Compact")
BOOLEAN = content.config_option(c1.config_boolean("fast", "Fast", True, category="model", description="q"))

UPDATES: list[JsonObject] = [
    updates.user_message("m", [TEXT, c1.image_content("aGk=", "image/png"), c1.text_resource("file:///a", "text")]),
    updates.user_message(
        "m",
        [
            c1.image_content("aGk=", "image/png", uri="file:///a"),
            c1.audio_content("aGk=", "audio/wav"),
            c1.resource_link("file:///a", "a", mime_type="text/plain", title="A", description="d", size=1),
            c1.text_resource("file:///a", "text", mime_type="text/plain"),
            c1.blob_resource("file:///a", "aGk=", mime_type="text/plain"),
        ],
    ),
    updates.agent_message("m", [TEXT]),
    updates.agent_thought("m", [TEXT]),
    updates.running(),
    updates.requires_action(),
    updates.idle(),
    *(updates.idle(reason) for reason in ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")),
    updates.idle("error", error={"code": -32000, "message": "No key.", "data": {"details": "No key."}}),
    u1.plan_update(
        "plan",
        [
            content.plan_entry("think", priority="high", status="cancelled"),
            content.plan_entry("write", priority="medium", status="completed"),
            content.plan_entry("try", priority="low", status="in_progress"),
            content.plan_entry("tidy", priority="low", status="pending"),
        ],
    ),
    updates.tool_call_update("t"),
    updates.tool_call_update(
        "t",
        name="edit",
        title="Edit a",
        kind="edit",
        status="cancelled",
        content=[DIFF, content.diff([content.change("add", "/c")]), c1.tool_content(TEXT), c1.terminal("term")],
        locations=[c1.location("/a", line=3)],
        rawInput={"path": "/a"},
        rawOutput=["done"],
        capabilities=updates.CANCEL,
    ),
    *(updates.tool_call_update("t", status=status) for status in ("pending", "in_progress", "completed", "failed")),
    *(updates.tool_call_update("t", kind=kind) for kind in ("read", "search", "execute", "think", "other")),
    updates.tool_call_update("t", name=None, title=None, kind=None, status=None, content=None, locations=None),
    updates.tool_call_update("t", rawInput=None, rawOutput=None, capabilities=None),
    updates.terminal_update("term"),
    updates.terminal_update("term", command="make", cwd="/", output=b"\xff", capabilities=updates.CANCEL),
    updates.terminal_update("term", exit_status=updates.exit_status(1, None), capabilities=None),
    updates.terminal_update("term", exit_status=updates.exit_status(None, "SIGTERM")),
    updates.terminal_update("term", command=None, cwd=None, output=None, exit_status=None),
    updates.terminal_output_chunk("term", b"\xf0\x9f"),
    updates.tool_call_content_chunk("t", DIFF),
    # what version 1 makes for both
    u1.user_message_chunk(TEXT, message_id="m"),
    u1.agent_message_chunk(TEXT, message_id="m"),
    u1.agent_thought_chunk(TEXT, message_id="m"),
    u1.available_commands_update(
        [content.available_command("compact", "Compact", hint="instructions"), content.available_command("undo", "")]
    ),
    u1.config_option_update([SELECT, GROUPED, BOOLEAN, MODE, THINKING]),
    u1.session_info_update(title="A title"),
    u1.session_info_update(title=None),
    u1.usage_update(10, 200_000, cost=c1.cost(0.25, "USD")),
    u1.notice("warning", "Careful", description="It is hot."),
    u1.notice("info", "News"),
    u1.notice("error", "It is gone"),
    u1.compaction_update("c", "cancelled"),
    u1.compaction_update("c", "in_progress"),
    u1.compaction_update("c", "completed", summary=[TEXT], meta={"x": 1}),
    u1.compaction_update("c", "failed", error="why"),
    u1.compaction_summary_chunk("c", "part"),
]
CHOICES = [c1.form_choice("a", "A", description="the first"), c1.form_choice("b", "B")]
FORM = c1.form_schema(
    {
        "text": c1.form_field(
            "string", title="T", description="D", default="d", limits={"minLength": 1, "maxLength": 9, "pattern": "d+"}
        ),
        **{name: c1.form_field("string", limits={"format": name}) for name in ("email", "uri", "date", "date-time")},
        "one": c1.form_field("string", choices=CHOICES),
        "some": c1.form_field(
            "array", title="T", description="D", choices=CHOICES, default=["a"], limits={"minItems": 1, "maxItems": 2}
        ),
        "number": c1.form_field("number", title="T", description="D", default=1, limits={"minimum": 0, "maximum": 2}),
        "whole": c1.form_field("integer", title="T", description="D", default=1, limits={"minimum": 0, "maximum": 2}),
        "yes": c1.form_field("boolean", title="T", description="D", default=True),
    },
    ["text"],
)
OPTIONS = [r1.permission_option(kind, kind, kind) for kind in ("allow_once", "allow_always", "reject_once")]
PARAMS: list[tuple[str, JsonObject]] = [
    (
        "session/request_permission",
        requests.request_permission(
            "s", "Edit a?", OPTIONS, subject=requests.tool_call_subject(updates.tool_call("t", content=[DIFF]))
        ),
    ),
    (
        "session/request_permission",
        requests.request_permission(
            "s", "Run?", OPTIONS, subject=requests.command_subject("make", "/", "t"), description="why"
        ),
    ),
    ("elicitation/create", r1.form_elicitation("s", "Which?", FORM, tool_call_id="t")),
    ("elicitation/create", r1.url_elicitation("s", "Visit", "https://example.com/", "e")),
    ("elicitation/create", requests.url_elicitation(7, "Enter a key", "http://127.0.0.1:1/x/", "e")),
    ("elicitation/complete", r1.complete_elicitation("e")),
    ("mcp/message", r1.mcp_message("server", "1", "tools/list", {})),
    ("auth/status_update", s1.auth_status("unknown", [])),
]
ROW = s1.session_info("s", "/", title="T", updated_at="2026-01-01T00:00:00Z", additional_directories=["/b"])
RESULTS: list[tuple[str, JsonObject]] = [
    (
        "initialize",
        results.initialize_result(
            info=s1.implementation("acp-agent", "1.0", title="Agent"),
            capabilities=results.agent_capabilities(
                prompt=("image", "audio", "embeddedContext"),
                mcp=("stdio", "http", "acp"),
                session=("delete", "additionalDirectories", "fork", "title", "archive", "status"),
                auth=("status",),
                more=("providers",),
            ),
            auth_methods=[
                {"type": "agent", "methodId": "key", "name": "A key", "description": "Set it."},
                {"type": "terminal", "methodId": "login", "name": "Log in", "description": "Asks.", "args": ["login"]},
            ],
        ),
    ),
    ("session/new", results.session_result(session_id="s", config_options=[SELECT], available_commands=[COMMAND])),
    ("session/resume", results.session_result(config_options=[], available_commands=[])),
    ("session/fork", results.session_result(session_id="s", config_options=[SELECT], available_commands=[])),
    ("session/set_title", s1.set_title_result("T")),
    ("session/status", results.session_status_result("saved")),
    ("session/status", results.session_status_result("open", {"state": "idle", "stopReason": "end_turn"})),
    ("auth/status", s1.auth_status("not_required", [s1.account("a", active=False)])),
    ("providers/list", s1.list_providers_result([])),
    ("session/prompt", results.prompt_result("m")),
    ("session/set_config_option", s1.set_config_option_result([SELECT])),
    ("session/list", s1.list_sessions_result([ROW], next_cursor="c")),
    *((method, {}) for method in ("auth/login", "auth/logout", "session/close", "session/delete")),
    *((method, {}) for method in ("tool_call/cancel", "terminal/cancel")),
]


def test_every_method_of_the_schema_is_spoken() -> None:
    methods = {definition["x-method"] for definition in DEFINITIONS.values() if "x-method" in definition}
    assert METHODS.keys() == methods


def test_every_row_names_the_definitions_of_its_method() -> None:
    for name, method in METHODS.items():
        assert DEFINITIONS[method.params]["x-method"] == name
        assert SIDES[DEFINITIONS[method.params]["x-side"]] == method.side
        assert method.params.endswith("Request" if method.result else "Notification")
        if method.result is not None:
            assert DEFINITIONS[method.result]["x-method"] == name
        if method.side != "client":
            assert method.params_model().__name__ == method.params


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_written_back_the_same(name: str) -> None:
    model = cast("type[WireModel]", getattr(v2, name))

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(any_value(name, 2))
    def check(value: dict[str, Any]) -> None:
        assert official_errors(name, value, version=2) == []
        assert dump(parse(model, value, name)) == value

    check()


def test_a_kind_of_thing_that_is_not_known_yet_is_read_as_that() -> None:
    server: JsonObject = {"type": "_pigeon", "name": "n", "loft": "north"}
    opened = parse(v2.NewSessionRequest, {"cwd": "/", "mcpServers": [server]}, "session/new")
    assert [type(found) for found in opened.mcp_servers] == [v2.OtherMcpServer]
    prompt: JsonObject = {"sessionId": "s", "prompt": [{"type": "smell", "strength": 3}, {"type": "text", "text": "x"}]}
    assert [type(block) for block in parse(v2.PromptRequest, prompt, "session/prompt").prompt] == [
        v2.OtherContentBlock,
        v2.TextContent,
    ]
    outcome = parse(v2.RequestPermissionResponse, {"outcome": {"outcome": "_later"}}, "x").outcome
    assert isinstance(outcome, v2.OtherRequestPermissionOutcome)


@pytest.mark.parametrize("server", [{"type": "stdio", "name": "n"}, {"type": "http", "name": "n"}, {"name": "n"}, "n"])
def test_a_known_kind_that_lacks_something_is_refused(server: object) -> None:
    with pytest.raises(InvalidParamsError, match=r"mcpServers\[0\]"):
        parse(v2.NewSessionRequest, {"cwd": "/", "mcpServers": [cast("Any", server)]}, "session/new")


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update["sessionUpdate"])
def test_an_update_is_one_of_the_schema(update: JsonObject) -> None:
    params = u1.session_update("s", update)
    validate_params("session/update", params, version=2)
    # not as a kind of update that nobody knows yet
    known = {
        option["properties"]["sessionUpdate"]["const"]
        for option in DEFINITIONS["SessionUpdate"]["anyOf"]
        if "not" not in option
    }
    assert update["sessionUpdate"] in known


@pytest.mark.parametrize(("method", "params"), PARAMS)
def test_a_request_is_one_of_the_schema(method: str, params: JsonObject) -> None:
    validate_params(method, params, version=2)


@pytest.mark.parametrize(("method", "result"), RESULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_result_is_one_of_the_schema(method: str, result: JsonObject) -> None:
    validate_result(method, result, version=2)


def test_what_the_schema_does_not_declare_is_found() -> None:
    wrong = updates.running() | {"background": [], "surprise": 1}
    with pytest.raises(AssertionError, match="surprise"):
        validate_definition("SessionUpdate", wrong, version=2)


def test_every_kind_of_update_and_every_constructor_is_tried() -> None:
    tried = {str(update["sessionUpdate"]) for update in UPDATES}
    known = {
        option["properties"]["sessionUpdate"]["const"]
        for option in DEFINITIONS["SessionUpdate"]["anyOf"]
        if "not" not in option
    }
    assert tried == known
    source = Path(__file__).read_text()
    for module in (content, requests, results, updates):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                assert f"{module.__name__.rpartition('.')[2]}.{name}(" in source, name


def test_bytes_are_base64_of_their_own_in_each_chunk() -> None:
    chunks = [updates.terminal_output_chunk("t", part) for part in (b"\xf0\x9f", b"\x98\x80")]
    assert b"".join(b64decode(str(chunk["data"]), validate=True) for chunk in chunks).decode() == "😀"


def test_what_of_the_stable_part_is_never_sent_stands_on_the_page_with_the_reason() -> None:
    folder = npm_package("@agentclientprotocol/sdk") / "schema" / "v2"
    stable: dict[str, Any] = json.loads((folder / "schema.json").read_text())["$defs"]
    values: list[tuple[str, Any]] = [("UpdateSessionNotification", u1.session_update("s", each)) for each in UPDATES]
    values += [(METHODS[method].params, params) for method, params in PARAMS]
    values += [(METHODS[method].result or "", result) for method, result in RESULTS]
    # what errors have beside their message; see `server.face` and `server.agent`
    values += [("SessionNotFoundErrorData", {"sessionId": "s"})]
    values += [("UnsupportedProtocolVersionErrorData", {"requested": 0, "supported": [1, 2]})]
    had, known = members_of(stable, values)
    page = (REPOSITORY / "docs" / "protocol.md").read_text()
    rows = page.partition("\n### Of the stable part of version 2\n")[2].split("\n## ")[0].splitlines()
    named = {name for row in rows if row.startswith("| `") for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert known - had == named
