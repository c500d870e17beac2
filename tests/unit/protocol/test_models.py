"""The generated models read every message of the official schemas, and are lenient
where those say so.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any, TypeAlias, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from acp_agent.errors import AgentError, InvalidParamsError
from acp_agent.protocol import JsonObject, v1, v2
from acp_agent.protocol.wire import WireModel
from support.schema import Schema, official_errors, official_schema

Model = TypeVar("Model", bound=WireModel)
Name: TypeAlias = tuple[int, str]
"""A version and a definition of its schema."""
ROOMS: dict[int, Any] = {1: v1, 2: v2}
UNREAD = {"annotations", "icons", "_meta"}
"""Members of what is read that the models leave out."""
READ: list[Name] = [
    (version, name)
    for version, room in ROOMS.items()
    for name, definition in official_schema(version)["$defs"].items()
    if "x-method" in definition and hasattr(room, name)
]
TOLERATED = {"mcpServers", "args", "env", "headers"}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def model(name: Name) -> type[WireModel]:
    return cast("type[WireModel]", getattr(ROOMS[name[0]], name[1]))


def definition(name: Name) -> dict[str, Any]:
    return official_schema(name[0])["$defs"][name[1]]


def without_unread(value: Any) -> Any:
    """A value of the schema as the models have it."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            key: without_unread(member)
            for key, member in members.items()
            if key not in UNREAD
        }
    return (
        [without_unread(item) for item in cast("list[Any]", value)]
        if isinstance(value, list)
        else value
    )


def properties_marked(mark: str) -> list[tuple[Name, str]]:
    """(definition, property) for every definition that is a model of ours, where a
    value can be wrong at all.
    """
    names = [
        (version, name)
        for version, room in ROOMS.items()
        for name in official_schema(version)["$defs"]
        if isinstance(getattr(room, name, None), type)
        and issubclass(getattr(room, name), WireModel)
    ]
    return [
        (name, key)
        for name in names
        for key, part in definition(name).get("properties", {}).items()
        if mark in part
        and part.keys() & {"type", "anyOf", "allOf"}
        and key not in UNREAD
    ]


def discriminator(name: Name) -> dict[str, str]:
    """The constant of a model that is one alternative of a union: the schema's own
    definition does not have it.
    """
    declared = definition(name).get("properties", {})
    found: dict[str, str] = {}
    for field, info in model(name).model_fields.items():
        options = getattr(info.annotation, "__args__", ())
        if (
            info.is_required()
            and len(options) == 1
            and info.alias not in declared
            and isinstance(options[0], str)
        ):
            found[info.alias or field] = options[0]
    return found


def junk_for(part: dict[str, Any], version: int) -> Any:
    """Something that the schema of a property refuses."""
    probe = {"properties": {"it": part}, "$defs": official_schema(version)["$defs"]}
    validator = Draft202012Validator(probe)
    return next(
        junk for junk in (17, "junk", {"j": 1}) if not validator.is_valid({"it": junk})
    )


def dump(model: WireModel) -> dict[str, Any]:
    """What was set of a model, as it stands on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def parse(model: type[Model], params: Any, method: str) -> Model:
    return model.from_params(params, method)


def refused(name: Name, params: Any) -> str:
    """The sentence with which params are refused; empty where they can be read."""
    try:
        parse(model(name), params, name[1])
    except InvalidParamsError as error:
        return str(error)
    return ""


@cache
def values(definition: str, version: int = 1) -> st.SearchStrategy[Any]:
    """Valid values of one of the schema's `$defs`, without undeclared properties, and
    without kinds of things to come.

    They follow the schema, not our models.
    """
    return _values(official_schema(version)["$defs"][definition], version)


def _values(schema: Schema, version: int) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        name = cast(str, schema["$ref"]).removeprefix("#/$defs/")
        return st.deferred(lambda: values(name, version))
    if "const" in schema:
        return st.just(schema["const"])
    alternatives: list[Schema] = schema.get("oneOf") or schema.get("anyOf") or []
    alternatives = [
        alternative for alternative in alternatives if "not" not in alternative
    ]
    parts = [_values(part, version) for part in schema.get("allOf", [])]
    if alternatives:
        parts.append(
            st.one_of([_values(alternative, version) for alternative in alternatives])
        )
    if "properties" in schema:
        required = schema.get("required", [])
        declared = {
            key: _values(part, version) for key, part in schema["properties"].items()
        }
        parts.append(
            st.fixed_dictionaries(
                {key: part for key, part in declared.items() if key in required},
                optional={
                    key: part for key, part in declared.items() if key not in required
                },
            )
        )
    if parts:
        return parts[0] if len(parts) == 1 else st.tuples(*parts).map(_merged)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return st.one_of(
            [
                _plain({**schema, "type": kind}, version)
                for kind in cast(list[str], kinds)
            ]
        )
    return _plain(schema, version)


def _merged(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return reduce(lambda left, right: {**left, **right}, parts)


def _plain(schema: Schema, version: int) -> st.SearchStrategy[Any]:
    match schema.get("type"):
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=8)
        case "integer":
            return st.integers(
                schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
            )
        case "number":
            return st.floats(
                schema.get("minimum"),
                schema.get("maximum"),
                allow_nan=False,
                allow_infinity=False,
            )
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(
                _values(schema["items"], version),
                min_size=schema.get("minItems", 0),
                max_size=3,
            )
        case "object" if "additionalProperties" not in schema:
            return st.builds(dict)
        case "object":
            entries = schema["additionalProperties"]
            entry = _values(entries, version) if isinstance(entries, dict) else JSON
            return st.dictionaries(st.text(max_size=5), entry, max_size=2)
        case _:
            return JSON


@pytest.mark.parametrize("name", READ, ids=str)
def test_what_is_read_is_written_back_the_same(name: Name) -> None:
    version, message = name

    @quick
    @given(values(message, version))
    def check(value: dict[str, Any]) -> None:
        assert official_errors(message, value, version=version) == []
        read = parse(model(name), value, message)
        written = dump(read)
        assert without_unread(written) == without_unread(value)
        assert parse(model(name), written, message) == read

    check()


@pytest.mark.parametrize("name", READ, ids=str)
def test_a_required_property_that_is_missing_is_named(name: Name) -> None:
    required = [
        key for key in definition(name).get("required", []) if key not in TOLERATED
    ]

    @quick
    @given(values(name[1], name[0]), st.sampled_from(required))
    def check(value: dict[str, Any], key: str) -> None:
        del value[key]
        with pytest.raises(
            InvalidParamsError, match=rf"^some/method: {key} is missing$"
        ):
            parse(model(name), value, "some/method")

    if required:
        check()


@pytest.mark.parametrize(
    ("name", "key"), properties_marked("x-deserialize-default-on-error"), ids=str
)
def test_a_property_that_the_schema_marks_takes_its_default_when_it_cannot_be_read(
    name: Name, key: str
) -> None:
    junk = junk_for(definition(name)["properties"][key], name[0])

    @settings(quick, max_examples=5)
    @given(values(name[1], name[0]))
    def check(value: dict[str, Any]) -> None:
        value |= discriminator(name)
        value.pop(key, None)
        field = next(
            field
            for field, info in model(name).model_fields.items()
            if info.alias == key
        )
        default = getattr(parse(model(name), value, "m"), field)
        read = parse(model(name), {**value, key: junk}, "m")
        assert getattr(read, field) == default
        others = {other: member for other, member in dump(read).items() if other != key}
        assert without_unread(others) == without_unread(value)

    check()


@pytest.mark.parametrize(
    ("name", "key"), properties_marked("x-deserialize-default-on-null"), ids=str
)
def test_null_counts_as_empty_where_the_schema_says_so(name: Name, key: str) -> None:
    @settings(quick, max_examples=5)
    @given(values(name[1], name[0]))
    def check(value: dict[str, Any]) -> None:
        value |= discriminator(name)
        assert dump(parse(model(name), {**value, key: None}, "m"))[key] in ([], {})

    check()


def test_a_session_can_be_opened_without_mcp_servers_and_with_one_that_has_no_type() -> (
    None
):
    assert (
        parse(
            v1.NewSessionRequest,
            {"cwd": "/", "_meta": 5, "surprise": [1]},
            "session/new",
        ).mcp_servers
        == []
    )
    server = {"name": "n", "command": "c", "args": ["-x"], "env": []}
    read = parse(
        v1.NewSessionRequest,
        {"cwd": "/", "mcpServers": [server, {**server, "type": "stdio"}]},
        "session/new",
    )
    assert [type(found) for found in read.mcp_servers] == [v1.McpServerStdio] * 2


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ([{"type": "text"}], "prompt[0].text is missing"),
        ([{"type": "text", "text": 5}], "prompt[0].text must be a string"),
        (
            [{"type": "text", "text": "x"}, {"type": "video"}],
            "prompt[1].type is 'video', which is none of text",
        ),
        ({}, "prompt must be a valid list"),
    ],
)
def test_wrong_params_are_refused_by_their_path(prompt: Any, sentence: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        parse(v1.PromptRequest, {"sessionId": "s", "prompt": prompt}, "session/prompt")
    assert str(caught.value).startswith(f"session/prompt: {sentence}")
    assert caught.value.code == -32602


@given(
    st.text(min_size=12).filter(
        lambda text: text not in "authenticate: methodId must be a string"
    )
)
def test_the_error_does_not_tell_the_values(secret: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        parse(v1.AuthenticateRequest, {"methodId": [secret]}, "authenticate")
    assert secret not in str(caught.value)


@pytest.mark.parametrize("name", READ, ids=str)
def test_whatever_comes_is_read_or_refused_in_one_short_line(name: Name) -> None:
    @settings(quick, max_examples=15)
    @given(JSON, values(name[1], name[0]), st.data())
    def check(anything: Any, value: dict[str, Any], data: st.DataObject) -> None:
        spoilt = (
            {**value, data.draw(st.sampled_from(sorted(value))): anything}
            if value
            else {}
        )
        for params in (anything, spoilt):
            refusal = refused(name, params)
            assert len(refusal.splitlines()) <= 1
            assert len(refusal) < 3000

    check()


def test_an_answer_of_null_counts_as_empty_and_one_that_cannot_be_used_is_no_fault_of_the_request() -> (
    None
):
    assert (
        v1.WaitForTerminalExitResponse.from_result(
            None, "terminal/wait_for_exit"
        ).exit_code
        is None
    )
    with pytest.raises(
        AgentError, match=r"fs/read_text_file cannot be used: content is missing"
    ) as caught:
        v1.ReadTextFileResponse.from_result({}, "fs/read_text_file")
    assert not isinstance(caught.value, InvalidParamsError)


def test_a_kind_of_thing_that_is_not_known_yet_is_read_as_that() -> None:
    server: JsonObject = {"type": "_pigeon", "name": "n", "loft": "north"}
    opened = parse(
        v2.NewSessionRequest, {"cwd": "/", "mcpServers": [server]}, "session/new"
    )
    assert [type(found) for found in opened.mcp_servers] == [v2.OtherMcpServer]
    prompt: JsonObject = {
        "sessionId": "s",
        "prompt": [{"type": "smell", "strength": 3}, {"type": "text", "text": "x"}],
    }
    kinds = [
        type(block)
        for block in parse(v2.PromptRequest, prompt, "session/prompt").prompt
    ]
    assert kinds == [v2.OtherContentBlock, v2.TextContent]
    outcome = parse(
        v2.RequestPermissionResponse, {"outcome": {"outcome": "_later"}}, "x"
    ).outcome
    assert isinstance(outcome, v2.OtherRequestPermissionOutcome)


@pytest.mark.parametrize(
    "server",
    [{"type": "stdio", "name": "n"}, {"type": "http", "name": "n"}, {"name": "n"}, "n"],
)
def test_a_known_kind_that_lacks_something_is_refused(server: object) -> None:
    with pytest.raises(InvalidParamsError, match="mcpServers"):
        parse(
            v2.NewSessionRequest,
            {"cwd": "/", "mcpServers": [cast("Any", server)]},
            "session/new",
        )
