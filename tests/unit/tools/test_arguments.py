"""The schemas of tools, and errors about arguments."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import Field

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.built_in import TOOLS
from acp_agent.tools.environment import Environment
from acp_agent.tools.tool import PreparedCall, Tool
from support.workspace import Workspace

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


async def complaint(workspace: Workspace, tool: str, **arguments: JsonValue) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.prepare(tool, **arguments)
    return str(caught.value)


def test_the_tools_have_a_fixed_order() -> None:
    assert [tool.name for tool in TOOLS] == [
        "read",
        "write",
        "edit",
        "list",
        "glob",
        "grep",
        "shell",
        "plan",
        "recall",
    ]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_is_sound_and_compact(tool: Tool) -> None:
    schema = tool.input_schema
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    text = json.dumps(schema)
    assert not any(
        key in text
        for key in (
            '"title"',
            "$ref",
            "$defs",
            '"null"',
            "Properties",
            "Length",
            "Items",
            "imum",
        )
    )
    assert len(text) < 800


class _Named(Arguments):
    title: str = Field("", min_length=1, max_length=9)
    default: list[int] = Field(max_length=3)
    minimum: int = Field(1, ge=1, description="Stays.")


async def _prepare_nothing(asked: _Named, environment: Environment) -> PreparedCall:
    raise NotImplementedError


def test_an_argument_named_like_a_keyword_stays_in_the_schema() -> None:
    named = BuiltIn("named", "Named.", _Named, _prepare_nothing, title=titled("Named"))
    assert named.input_schema == {
        "properties": {
            "title": {"type": "string"},
            "default": {"items": {"type": "integer"}, "type": "array"},
            "minimum": {"description": "Stays.", "type": "integer"},
        },
        "required": ["default"],
        "type": "object",
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("list", {"depth": 21}, "list: `depth` should be less than or equal to 20."),
        (
            "shell",
            {"command": "ls", "timeout": 3601},
            "shell: `timeout` should be less than or equal to 3600.",
        ),
        (
            "plan",
            {"entries": [{"content": "x" * 1001}]},
            "should have at most 1000 characters",
        ),
        ("edit", {"path": "a", "edits": []}, "edit: `edits` is empty."),
    ],
    ids=["most", "seconds", "length", "items"],
)
async def test_exceeding_a_limit_outside_the_schema_is_reported(
    workspace: Workspace, tool: str, arguments: dict[str, JsonValue], said: str
) -> None:
    assert said in await complaint(workspace, tool, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (
            "edit",
            {"path": "a", "edits": [{"new_text": "x"}]},
            "edit: `edits.0.old_text` is missing.",
        ),
        (
            "read",
            {"path": "a", "file": "b"},
            "read: unknown argument `file` (it takes path, offset, limit).",
        ),
        (
            "read",
            {"offset": 0, "limit": "many"},
            (
                "read: `path` is missing; `offset` should be greater than or equal to 1; `limit` should be a valid "
                "integer, unable to parse string as an integer."
            ),
        ),
        ("write", {"path": "a", "content": "x\ud800"}, "contain an unpaired surrogate"),
    ],
    ids=["missing", "unknown", "all at once", "surrogate"],
)
async def test_every_invalid_argument_is_reported_by_name(
    workspace: Workspace, tool: str, arguments: dict[str, JsonValue], said: str
) -> None:
    assert said in await complaint(workspace, tool, **arguments)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    tool=st.sampled_from(TOOLS),
    arguments=st.dictionaries(
        st.sampled_from(
            [
                "path",
                "edits",
                "content",
                "command",
                "pattern",
                "entries",
                "cwd",
                "offset",
                "glob",
                "x",
            ]
        ),
        json_values,
        max_size=5,
    ),
)
async def test_any_arguments_are_prepared_or_refused_with_a_message(
    workspace: Workspace, tool: Tool, arguments: JsonObject
) -> None:
    view = tool.preview(arguments)
    assert view.title
    assert len(view.title.splitlines()) == 1
    try:
        prepared = await tool.prepare(arguments, workspace.environment)
    except ToolError as error:
        message = str(error)
    else:
        assert len(prepared.view.title.splitlines()) == 1
        assert prepared.view.kind == view.kind
        return
    message.encode()
    assert len(message) < 3000


@pytest.mark.parametrize(
    "edits",
    [
        '[{"old_text": "one", "new_text": "two"}]',
        ['{"old_text": "one", "new_text": "two"}'],
        [{"old_text": "one", "new_text": "two"}],
    ],
    ids=["list as text", "object as text", "as it should be"],
)
async def test_lists_and_objects_sent_as_json_strings_are_decoded(
    workspace: Workspace, edits: JsonValue
) -> None:
    (workspace.root / "a.txt").write_text("one\n")
    await workspace.call("read", path="a.txt")
    await workspace.call("edit", path="a.txt", edits=edits)
    assert (workspace.root / "a.txt").read_text() == "two\n"


async def test_a_string_that_is_not_json_is_refused_in_place_of_a_list(
    workspace: Workspace,
) -> None:
    assert (
        await complaint(workspace, "edit", path="a", edits="[one")
        == "edit: `edits` should be a valid list."
    )
    assert (
        await complaint(workspace, "edit", path="a", edits='"one"')
        == "edit: `edits` should be a valid list."
    )
