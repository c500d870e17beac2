"""That a message without its secrets is the same message otherwise."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.masking.messages import masked

SECRET = "hunter2"
NAMES = st.sampled_from(
    [
        "env",
        "headers",
        "args",
        "url",
        "command",
        "name",
        "value",
        "token",
        "auth",
        "properties",
        "action",
        "content",
        "a",
    ]
)
TEXTS = st.sampled_from(
    ["word", "src/a.py", f"TOKEN={SECRET}", f"https://me:{SECRET}@a.example/?key={SECRET}", "accept"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=4),
    max_leaves=15,
)


def shape(value: Any) -> Any:
    """What is left without what the texts and numbers say."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    return None if value is None or isinstance(value, bool) else "scalar"


@example({"args": []})
@given(JSON)
def test_a_masked_message_has_the_shape_it_had_and_no_secret(value: Any) -> None:
    left = masked(value, [])
    assert SECRET not in json.dumps(left)
    assert shape(left) == shape(value)


def test_a_calls_command_and_title_lose_what_is_given_to_an_option() -> None:
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_1",
        "title": f"deploy --token {SECRET} --dry",
        "rawInput": {"command": f"deploy --token {SECRET} --dry"},
    }
    assert masked(update, []) == update | {
        "title": "deploy --token *** --dry",
        "rawInput": {"command": "deploy --token *** --dry"},
    }
    assert masked({"title": "Say what --token means"}, []) == {"title": "Say what --token means"}
