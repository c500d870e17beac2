"""Settings with comments and trailing commas are read, and changed without touching the rest."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.commands.jsonc import JsonText, JsonTextError, JsonValue

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["agents", "theme", 'a "quoted" name', ""]), VALUES, max_size=4)
BLANKS = st.sampled_from(["", " ", "\n", "\r\n", "// a { comment\n", '/* "a": 1, */', "\t// x\n  "])


@st.composite
def written(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[str, Any]:
    """A value, and a text that people may have written for it."""

    def text(value: Any) -> str:
        def blank() -> str:
            return draw(BLANKS)

        def listed(parts: list[str], opening: str, closing: str) -> str:
            comma = draw(st.sampled_from(["", ","])) if parts else ""
            return opening + blank() + ",".join(parts) + comma + blank() + closing

        if isinstance(value, dict):
            members = [
                f"{blank()}{json.dumps(name)}{blank()}:{blank()}{text(inner)}{blank()}" for name, inner in value.items()
            ]
            return listed(members, "{", "}")
        if isinstance(value, list):
            return listed([f"{blank()}{text(inner)}{blank()}" for inner in value], "[", "]")
        return json.dumps(value)

    value = draw(values)
    return draw(BLANKS) + text(value) + draw(BLANKS), value


@given(written(OBJECTS))
def test_what_people_write_is_read(pair: tuple[str, Any]) -> None:
    text, value = pair
    settings = JsonText.read(text)
    assert settings.text == text
    assert settings.get() == value


@given(written(OBJECTS), st.lists(st.text(max_size=3) | st.just("agents"), min_size=1, max_size=3), VALUES)
@example(('{"agents": null}', {"agents": None}), ["agents", "x"], None)
def test_a_value_is_put_where_it_belongs_and_all_else_stays(
    pair: tuple[str, dict[str, Any]], path: list[str], new: JsonValue
) -> None:
    text, value = pair
    holder: Any = value
    nothing = ""
    for name in path[:-1]:
        if isinstance(holder, dict) and holder.get(name) is None:
            nothing = "null" if name in holder else nothing  # a section that is null becomes an object
            holder[name] = {}
        holder = holder[name] if isinstance(holder, dict) else None
    settings = JsonText.read(text)
    if not isinstance(holder, dict):
        with pytest.raises(JsonTextError, match="holds no object"):
            settings.put(path, new)
        return
    was_there = path[-1] in holder
    holder[path[-1]] = new
    put = settings.put(path, new)
    assert put.get(*path) == new
    assert put.get() == value == JsonText.read(put.text).get()
    if not was_there and text.strip("\ufeff \t\r\n"):
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, put.text, strict=False)))
        assert put.text.endswith(text[same:].removeprefix(nothing))


def test_an_entry_is_written_as_a_person_would() -> None:
    text = '// mine\n{\n  "theme": "One", // dark\n}\n'
    assert JsonText.read(text).put(("agents", "acp-agent"), {"args": []}).text == (
        '// mine\n{\n  "agents": {\n    "acp-agent": {\n      "args": []\n    }\n  },\n  "theme": "One", // dark\n}\n'
    )
    assert JsonText.read("").put(("a",), 1).text == '{\n  "a": 1\n}\n'
    assert JsonText.read("{}").put(("a",), 1).text == '{\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "no object"),
        ("{", "line 1"),
        ('{\n"a" 1}', "line 2: a colon"),
        ('{"a": 1 "b": 2}', "a comma"),
        ('{"a": yes}', "yes"),
        ("{a: 1}", "value"),
        ('{"a": 1} x', "behind"),
        ("{1: 2}", "double quotes"),
        ('{"a":' * 100_000, "deeply"),
    ],
)
def test_what_is_no_such_text_is_told_by_its_line(text: str, says: str) -> None:
    with pytest.raises(JsonTextError, match=says):
        JsonText.read(text)


def test_nothing_is_put_into_what_is_no_object() -> None:
    with pytest.raises(JsonTextError, match="line 2: `agents` holds no object"):
        JsonText.read('{\n"agents": []}').put(("agents", "acp-agent"), {})


@pytest.mark.parametrize(
    "text", ['{\r\n  "a": 1 // one\r\n}\r\n', "{\r\n}\r\n", '{"b": {"c": {\r\n}}}', '{"b": 1,\r\n}']
)
def test_lines_end_as_the_others_do(text: str) -> None:
    for path in (("b",), ("d", "c")):
        written = JsonText.read(text).put(path, {"x": [1, 2]})
        assert written.text.count("\n") == written.text.count("\r\n") > text.count("\n")
        assert written.get(*path) == {"x": [1, 2]}
