"""The generated models read and write every message of the official schema, and are lenient where it says so."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from acp_agent.errors import AgentError, InvalidParamsError
from acp_agent.protocol import v1
from acp_agent.protocol.v1.methods import METHODS
from acp_agent.protocol.wire import WireModel, dump, parse, parse_result
from support.schema import official_errors, official_schema
from support.schema_values import JSON, values

ROWS = [method for method in METHODS.values() if method.name != "mcp/message"]
MESSAGES = sorted({name for method in ROWS for name in (method.params, method.result) if name})
DEFINITIONS: dict[str, dict[str, Any]] = official_schema()["$defs"]
TOLERATED = {("NewSessionRequest", "mcpServers"), ("LoadSessionRequest", "mcpServers")}

quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def model(name: str) -> type[WireModel]:
    return cast("type[WireModel]", getattr(v1, name))


def properties_marked(mark: str) -> list[tuple[str, str]]:
    """(definition, property) for every definition that is a model of ours, where a value can be wrong at all."""
    names = [name for name in DEFINITIONS if isinstance(getattr(v1, name, None), type)]
    names = [name for name in names if issubclass(getattr(v1, name), WireModel)]
    return [
        (name, key)
        for name in names
        for key, part in DEFINITIONS[name].get("properties", {}).items()
        if mark in part and part.keys() & {"type", "anyOf", "allOf"} and key != "_meta"
    ]


def discriminator(name: str) -> dict[str, str]:
    """The constant of a model that is one alternative of a union: the schema's own definition does not have it."""
    declared = DEFINITIONS[name].get("properties", {})
    found: dict[str, str] = {}
    for field, info in model(name).model_fields.items():
        options = getattr(info.annotation, "__args__", ())
        if info.is_required() and len(options) == 1 and info.alias not in declared and isinstance(options[0], str):
            found[info.alias or field] = options[0]
    return found


def junk_for(part: dict[str, Any]) -> Any:
    """Something that the schema of a property refuses."""
    probe = {"properties": {"it": part}, "$defs": DEFINITIONS}
    validator = Draft202012Validator(probe)
    return next(junk for junk in (17, "junk", {"j": 1}) if not validator.is_valid({"it": junk}))


def refused(name: str, params: Any) -> str:
    """The sentence with which params are refused; empty where they can be read."""
    try:
        parse(model(name), params, name)
    except InvalidParamsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", MESSAGES)
def test_what_is_read_is_written_back_the_same(name: str) -> None:
    @quick
    @given(values(name))
    def check(value: dict[str, Any]) -> None:
        assert official_errors(name, value) == []
        read = parse(model(name), value, name)
        written = dump(read)
        assert written == value
        assert official_errors(name, written) == []
        assert parse(model(name), written, name) == read

    check()


@pytest.mark.parametrize("name", MESSAGES)
def test_a_required_property_that_is_missing_is_named(name: str) -> None:
    required = [key for key in DEFINITIONS[name].get("required", []) if (name, key) not in TOLERATED]

    @quick
    @given(values(name), st.sampled_from(required))
    def check(value: dict[str, Any], key: str) -> None:
        del value[key]
        with pytest.raises(InvalidParamsError, match=rf"^some/method: {key} is missing$"):
            parse(model(name), value, "some/method")

    if required:
        check()


@pytest.mark.parametrize(("name", "key"), properties_marked("x-deserialize-default-on-error"))
def test_a_property_that_the_schema_marks_takes_its_default_when_it_cannot_be_read(name: str, key: str) -> None:
    part = DEFINITIONS[name]["properties"][key]

    @settings(quick, max_examples=5)
    @given(values(name))
    def check(value: dict[str, Any]) -> None:
        value |= discriminator(name)
        value.pop(key, None)
        field = next(field for field, info in model(name).model_fields.items() if info.alias == key)
        required = key in DEFINITIONS[name].get("required", [])
        default = [] if required else getattr(parse(model(name), value, name), field)
        read = parse(model(name), {**value, key: junk_for(part)}, name)
        assert getattr(read, field) == default
        others = {other: member for other, member in dump(read).items() if other != key}
        assert others == value

    check()


@pytest.mark.parametrize(("name", "key"), properties_marked("x-deserialize-skip-invalid-items"))
def test_items_that_cannot_be_read_are_dropped_where_the_schema_says_so(name: str, key: str) -> None:
    part = DEFINITIONS[name]["properties"][key]

    @settings(quick, max_examples=5)
    @given(values(name), st.integers(0, 3))
    def check(value: dict[str, Any], position: int) -> None:
        value |= discriminator(name)
        items: list[Any] = value.get(key) or []
        broken = [*items[:position], junk_for(part["items"]), *items[position:]]
        assert dump(parse(model(name), {**value, key: broken}, name))[key] == items

    check()


@pytest.mark.parametrize(("name", "key"), properties_marked("x-deserialize-default-on-null"))
def test_null_counts_as_empty_where_the_schema_says_so(name: str, key: str) -> None:
    @settings(quick, max_examples=5)
    @given(values(name))
    def check(value: dict[str, Any]) -> None:
        value |= discriminator(name)
        assert dump(parse(model(name), {**value, key: None}, name))[key] in ([], {})

    check()


def test_unknown_properties_and_a_meta_of_the_wrong_type_are_ignored() -> None:
    read = parse(v1.CancelNotification, {"sessionId": "s", "_meta": 5, "surprise": [1]}, "session/cancel")
    assert (read.session_id, read.meta) == ("s", None)


def test_a_session_can_be_opened_without_mcp_servers() -> None:
    assert parse(v1.NewSessionRequest, {"cwd": "/"}, "session/new").mcp_servers == []
    assert parse(v1.LoadSessionRequest, {"cwd": "/", "sessionId": "s"}, "session/load").mcp_servers == []


def test_an_mcp_server_without_a_type_is_started_over_stdio() -> None:
    server = {"name": "n", "command": "c", "args": ["-x"], "env": []}
    read = parse(v1.NewSessionRequest, {"cwd": "/", "mcpServers": [server, {**server, "type": "stdio"}]}, "session/new")
    assert [type(found) for found in read.mcp_servers] == [v1.McpServerStdio] * 2


def test_wrong_client_capabilities_count_as_absent_and_the_others_stand() -> None:
    capabilities = {"fs": True, "terminal": "yes", "session": {"compaction": {}, "notices": True}}
    read = parse(v1.InitializeRequest, {"protocolVersion": 1, "clientCapabilities": capabilities}, "initialize")
    found = read.client_capabilities
    assert (found.fs.read_text_file, found.terminal) == (False, False)
    assert found.session is not None
    assert found.session.compaction is not None
    assert found.session.notices is None


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ([{"text": "x"}], "prompt[0].type is missing"),
        ([{"type": "text"}], "prompt[0].text is missing"),
        ([{"type": "text", "text": 5}], "prompt[0].text must be a string"),
        (
            [{"type": "text", "text": "x"}, {"type": "video"}],
            "prompt[1].type is 'video', which is none of text, image, audio, resource_link, resource",
        ),
        ([7], "prompt[0] must be an object"),
        ({}, "prompt must be an array"),
        ([{"type": "image", "data": "a"}], "prompt[0].mimeType is missing"),
        ([{"type": "resource", "resource": {"text": "x", "uri": 5}}], "prompt[0].resource.uri must be a string"),
    ],
)
def test_wrong_params_are_refused_by_their_path_on_the_wire(prompt: Any, sentence: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        parse(v1.PromptRequest, {"sessionId": "s", "prompt": prompt}, "session/prompt")
    assert str(caught.value).split("; ")[0] == f"session/prompt: {sentence}"
    assert caught.value.code == -32602


@given(st.text(min_size=12).filter(lambda text: text not in "authenticate: methodId must be a string"))
def test_the_error_does_not_tell_the_values(secret: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        parse(v1.AuthenticateRequest, {"methodId": [secret]}, "authenticate")
    assert secret not in str(caught.value)


@pytest.mark.parametrize("name", MESSAGES)
def test_whatever_comes_is_read_or_refused_in_one_short_line(name: str) -> None:
    @settings(quick, max_examples=15)
    @given(JSON, values(name), st.data())
    def check(anything: Any, value: dict[str, Any], data: st.DataObject) -> None:
        spoilt = {**value, data.draw(st.sampled_from(sorted(value))): anything} if value else {}
        for params in (anything, spoilt):
            refusal = refused(name, params)
            assert len(refusal.splitlines()) <= 1
            assert len(refusal) < 1000

    check()


def test_a_name_that_the_client_chose_is_shown_short_and_without_what_a_terminal_obeys() -> None:
    provider = {"providerId": "p", "apiType": "openai", "baseUrl": "http://x"}
    for chosen, shown in (("a\r\x1b[2J", r"a\r\x1b[2J"), ("é", "é"), ("x" * 2000, "x" * 60 + "…")):
        assert refused("SetProviderRequest", {**provider, "headers": {chosen: 5}}).endswith(
            f"headers.{shown} must be a string"
        )


def test_params_that_are_absent_count_as_empty() -> None:
    assert parse(v1.ListSessionsRequest, None, "session/list").cursor is None
    with pytest.raises(InvalidParamsError, match=r"^session/cancel: sessionId is missing$"):
        parse(v1.CancelNotification, None, "session/cancel")


def test_numbers_are_not_read_from_strings() -> None:
    with pytest.raises(InvalidParamsError, match="protocolVersion must be an integer"):
        parse(v1.InitializeRequest, {"protocolVersion": "1"}, "initialize")


def test_a_config_value_is_a_string_or_a_boolean() -> None:
    with pytest.raises(InvalidParamsError, match=r"^m: value must be true or false or must be a string$"):
        parse(v1.SetSessionConfigOptionRequest, {"sessionId": "s", "configId": "c", "value": 5}, "m")


def test_an_answer_of_null_counts_as_empty() -> None:
    parse_result(v1.WriteTextFileResponse, None, "fs/write_text_file")


def test_an_answer_that_cannot_be_used_is_no_fault_of_the_request() -> None:
    with pytest.raises(AgentError, match=r"fs/read_text_file cannot be used: content is missing") as caught:
        parse_result(v1.ReadTextFileResponse, {}, "fs/read_text_file")
    assert not isinstance(caught.value, InvalidParamsError)


def test_writing_keeps_null_and_leaves_out_what_was_not_set() -> None:
    update = v1.CompactionUpdate(session_update="compaction_update", compaction_id="c", status="failed", summary=None)
    assert dump(update) == {
        "sessionUpdate": "compaction_update",
        "compactionId": "c",
        "status": "failed",
        "summary": None,
    }
