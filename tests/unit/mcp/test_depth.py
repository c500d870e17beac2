"""Messages of MCP servers that are nested more deeply than the SDK's parser reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from acp_agent.mcp.depth import MAX_LEVELS, TOO_DEEP, without_depths

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(levels: int, inside: str) -> str:
    half = levels // 2
    start = '[{"a":' * half + "[" * (levels % 2)
    return start + inside + "]" * (levels % 2) + "}]" * half


@given(value=JSON, is_ascii=st.booleans())
def test_a_text_that_is_not_deep_stays_as_it_is(value: object, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    assert without_depths(text) is text


def cut(value: object, most: int) -> object:
    if isinstance(value, list):
        return [cut(each, most - 1) for each in value] if most else TOO_DEEP
    if isinstance(value, dict):
        if not most:
            return TOO_DEEP
        return {key: cut(each, most - 1) for key, each in value.items()}
    return value


@given(value=JSON, most=st.integers(0, 4), indent=st.sampled_from([None, 1]))
def test_only_what_is_too_deep_is_cut_and_the_rest_stays(
    value: object, most: int, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)
    assert json.loads(without_depths(text, most)) == cut(value, most)


@pytest.mark.parametrize("levels", [MAX_LEVELS, 200, 1_000, 100_000])
def test_the_parser_of_the_sdk_reads_a_message_of_any_depth(levels: int) -> None:
    text = f'{{"jsonrpc": "2.0", "id": 1, "result": {{"a": {nested(levels, "0")}}}}}'
    read = types.jsonrpc_message_adapter.validate_json(without_depths(text))
    assert isinstance(read, types.JSONRPCResponse)


@given(text=st.text(alphabet='{}[]",\\ a'))
def test_a_text_that_is_no_json_is_no_error(text: str) -> None:
    without_depths(text)
