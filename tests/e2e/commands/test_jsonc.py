"""JSON with comments: what is put into it is there, and all that was there stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.cli.terminal.jsonc import parse_jsonc, with_member
from acp_agent.conversation.messages import JsonValue

TEXTS = st.text('ab"\\/*,:{}[] é\n', max_size=6)
KEYS = st.sampled_from(["a", "b", "agent_servers", "x.y", "//", "é"])
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)
GAPS = st.lists(
    st.sampled_from([" ", "\n", "\t", "\r\n", "// one, {two}\n", '/* three\n"} */']),
    max_size=2,
).map("".join)


@st.composite
def written(draw: st.DrawFn, value: JsonValue) -> str:
    """A value as a person may write it: with blanks, comments and trailing commas."""

    def gap() -> str:
        return draw(GAPS)

    match value:
        case dict():
            parts = [
                f"{gap()}{json.dumps(key)}{gap()}:{gap()}{draw(written(each))}{gap()}"
                for key, each in value.items()
            ]
            begin, end = "{}"
        case list():
            parts = [f"{gap()}{draw(written(each))}{gap()}" for each in value]
            begin, end = "[]"
        case _:
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
    last = draw(st.sampled_from(["", ","])) if parts else ""
    return f"{begin}{','.join(parts)}{last}{gap()}{end}"


@given(
    st.data(),
    st.dictionaries(KEYS, VALUES, max_size=3),
    st.lists(KEYS, min_size=1, max_size=3),
    VALUES,
)
def test_a_member_is_put_where_it_belongs_and_everything_else_stays(
    data: st.DataObject,
    settings: dict[str, JsonValue],
    path: list[str],
    value: JsonValue,
) -> None:
    text = data.draw(GAPS) + data.draw(written(settings)) + data.draw(GAPS)
    assert parse_jsonc(text) == settings
    inside: JsonValue = settings
    for key in path[:-1]:
        inside = inside.get(key, {}) if isinstance(inside, dict) else None
    if not isinstance(inside, dict):
        with pytest.raises(ValueError, match="not an object"):
            with_member(text, path, value)
        return
    made = with_member(text, path, value)
    found = parse_jsonc(made)
    for key in path:
        assert isinstance(found, dict)
        found = found[key]
    assert found == value
    if path[-1] not in inside:
        rest = iter(made)  # what was there is still there, in its order
        assert all(character in rest for character in text if not character.isspace())


@pytest.mark.parametrize(
    "text", ["{", "[1]", "{'a': 1}", '{"a" 1}', "nonsense", '{"a": 1} x']
)
def test_what_is_no_json_with_comments_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an object|JSON|[Ee]xpecting|Extra data"):
        with_member(text, ["b"], 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}\n", '{\n  "a": 1\n}\n'),
        ("", '{\n  "a": 1\n}\n'),
        ('{\n\t"b": 2, // two\n}\n', '{\n\t"a": 1,\n\t"b": 2, // two\n}\n'),
        ('{"b": 2}', '{\n  "a": 1,\n  "b": 2}'),
        ("{ // all\n}\n", '{\n  "a": 1 // all\n}\n'),
    ],
)
def test_a_member_is_written_in_the_form_of_the_file(before: str, after: str) -> None:
    assert with_member(before, ["a"], 1) == after
