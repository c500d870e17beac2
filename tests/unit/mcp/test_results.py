"""What MCP servers answer, as a model reads it: everything has words, and nothing is
larger than a request may be.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import CallToolResult, PromptMessage

from acp_agent.conversation.messages import Image, JsonObject, Resource, Text
from acp_agent.mcp.tools import (
    EMPTY,
    IMAGE_LIMIT,
    IMAGES,
    TEXT_LIMIT,
    prompt_parts,
    result_parts,
)
from support.pictures import BROKEN, encoded, png

BLOB = encoded(png())
LONG = "All of a long file. " * 20


def answer(*blocks: Any, structured: Any = None) -> CallToolResult:
    return CallToolResult.model_validate(
        {"content": blocks, "structuredContent": structured}
    )


def message(content: Any, role: str = "user") -> PromptMessage:
    return PromptMessage.model_validate({"role": role, "content": content})


BLOCKS: dict[str, tuple[dict[str, Any], Text | Image]] = {
    "text": ({"type": "text", "text": "a\x00b"}, Text("a\ufffdb")),
    "image": (
        {"type": "image", "data": BLOB, "mimeType": "image/png"},
        Image(BLOB, "image/png"),
    ),
    "large image": (
        {"type": "image", "data": "A" * (IMAGE_LIMIT + 1), "mimeType": "image/png"},
        Text("[an image (image/png) left out: larger than models take]"),
    ),
    "audio": (
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        Text("[a sound (audio/wav) left out: it cannot be passed on]"),
    ),
    "resource": (
        {"type": "resource", "resource": {"uri": "x://y", "text": "words"}},
        Text("x://y:\nwords"),
    ),
    "picture": (
        {
            "type": "resource",
            "resource": {"uri": "x://y", "blob": BLOB, "mimeType": "image/png"},
        },
        Image(BLOB, "image/png", "x://y"),
    ),
    "binary": (
        {"type": "resource", "resource": {"uri": "x://y", "blob": BLOB}},
        Text("[x://y left out: it is binary (of no known type)]"),
    ),
    "link": (
        {
            "type": "resource_link",
            "uri": "x://y",
            "name": "y",
            "title": "Why",
            "description": "because",
        },
        Text("[link: Why | y | x://y | because]"),
    ),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_every_kind_of_content_becomes_something_that_a_model_reads(kind: str) -> None:
    block, part = BLOCKS[kind]
    assert result_parts(answer(block)) == (part,)


@pytest.mark.parametrize(
    ("texts", "structured", "said"),
    [
        (["3"], {"result": 3}, ["3"]),
        (["three"], {"result": "three"}, ["three"]),
        (["a", "b"], {"result": ["a", "b"]}, ["a", "b"]),
        (['{"a": [1, "ä"]}'], {"a": [1, "ä"]}, ['{"a": [1, "ä"]}']),
        (["Found two."], {"found": ["ä", 2]}, ["Found two.", '{"found": ["ä", 2]}']),
        (["A text."], {"content": "A text."}, ["A text."]),
        (["A text.\n"], {"content": "A text."}, ["A text.\n"]),
        (['{"a": [1]}'], {"graph": {"a": [1]}}, ['{"a": [1]}']),
        (
            ['{\n  "a": [1],\n  "b": 2\n}'],
            {"a": [1], "b": 2},
            ['{\n  "a": [1],\n  "b": 2\n}'],
        ),
        (
            ['{"a": 1}', '{"a": 2}'],
            {"result": [{"a": 1}, {"a": 2}]},
            ['{"a": 1}', '{"a": 2}'],
        ),
        (["a", "b"], {"lines": "a\nb"}, ["a", "b"]),
        (
            ["It is:\n```json\n[1, 2]\n```"],
            {"numbers": [1, 2]},
            ["It is:\n```json\n[1, 2]\n```"],
        ),
        (["22.5"], {"temperature": 22.5}, ["22.5", '{"temperature": 22.5}']),
        ([LONG], {"content": LONG, "size": 3}, [LONG, '{"size": 3}']),
        (
            [f"The file says:\n{LONG}"],
            {"file": {"text": LONG, "lines": 1}},
            [f"The file says:\n{LONG}", '{"file": {"lines": 1}}'],
        ),
        ([LONG], {"content": LONG, "again": {"text": LONG}}, [LONG]),
        ([], {"found": ["ä", 2]}, ['{"found": ["ä", 2]}']),
        ([], None, [EMPTY]),
    ],
)
def test_a_structured_result_is_told_once(
    texts: list[str], structured: Any, said: list[str]
) -> None:
    parts = result_parts(
        answer(
            *({"type": "text", "text": text} for text in texts), structured=structured
        )
    )
    assert [part.text for part in parts if isinstance(part, Text)] == said


LINES = [f"Line {number} of the answer" for number in range(20)]
JOINED = "\n".join(LINES)
PAIR = [LONG, f"{LONG}More."]


@pytest.mark.parametrize(
    ("texts", "structured", "said"),
    [
        (["a\nb"], {"lines": ["a", "b"]}, ["a\nb"]),
        (["a\r\nb\r\n"], {"lines": ["a", "b"]}, ["a\r\nb\r\n"]),
        (["a\n\n  b\n"], {"result": ["a", "b"]}, ["a\n\n  b\n"]),
        (["- a\n- b"], {"names": ["a", "b"]}, ["- a\n- b"]),
        (["1. a\n2. b"], {"names": ["a", "b"]}, ["1. a\n2. b"]),
        (["1\n2.5"], {"numbers": [1.0, 2.5]}, ["1\n2.5"]),
        ([JOINED], {"lines": LINES, "count": 20}, [JOINED, '{"count": 20}']),
        (["a\nb", "c"], {"lines": ["a", "b", "c"]}, ["a\nb", "c"]),
        (['{"a": 1}\n{"a": 2}'], {"rows": [{"a": 1}, {"a": 2}]}, None),
        (["a", "b"], {"text": "a\n\nb"}, ["a", "b"]),
        (["a", "b"], {"text": "a b"}, ["a", "b"]),
        (["a", "b"], {"text": "a, b"}, ["a", "b"]),
        (PAIR, {"text": "\n\n".join(PAIR), "count": 2}, [*PAIR, '{"count": 2}']),
        (["a  \nb"], {"text": "a\nb\n"}, ["a  \nb"]),
        (["a\n    b"], {"text": "a b"}, ["a\n    b"]),
        (['"a text"'], {"text": "a text"}, ['"a text"']),
        (['{\n "b": 2.0,\n "a": [1e3]\n}'], {"a": [1000], "b": 2}, None),
        (['{"a": 1, "b": 2, "c": 3}'], {"c": 3, "a": 1.0}, None),
        (['{"a": 1, "b": 2}'], {"b": 2, "c": 3}, ['{"a": 1, "b": 2}', '{"c": 3}']),
        (
            ["[\n  1,\n  2\n]"],
            {"ids": [1, 2], "total": 9},
            ['{"ids": [1, 2], "total": 9}'],
        ),
        (['{"a": 1}'], {"row": {"a": 1}, "of": 9}, ['{"row": {"a": 1}, "of": 9}']),
    ],
)
def test_a_structured_result_in_another_shape_is_told_once(
    texts: list[str], structured: Any, said: list[str] | None
) -> None:
    blocks = [{"type": "text", "text": text} for text in texts]
    parts = result_parts(answer(*blocks, structured=structured))
    expected = texts if said is None else said
    assert [part.text for part in parts if isinstance(part, Text)] == expected


MORE = "More of a long file. " * 20
PAGES = [{"title": "One", "body": LONG}, {"title": "Two", "body": MORE}]
MARKDOWN = f"# One\n{LONG}\n\n# Two\n{MORE}"
TITLES = [{"title": "One"}, {"title": "Two"}]
SEE = "[see the text]"


@pytest.mark.parametrize(
    ("texts", "structured", "added"),
    [
        ([LONG], {"content": [{"type": "text", "text": LONG}]}, None),
        (["ok"], {"content": [{"type": "text", "text": "ok"}]}, None),
        (
            [LONG],
            {"content": [{"type": "text", "text": LONG}], "isError": False},
            {"isError": False},
        ),
        ([MARKDOWN], {"pages": PAGES}, {"pages": TITLES}),
        (
            [MARKDOWN],
            {"site": {"pages": PAGES, "of": 9}},
            {"site": {"pages": TITLES, "of": 9}},
        ),
        ([MARKDOWN], {"a": [[{"b": LONG}], [{"c": [MORE]}]]}, None),
        ([MARKDOWN], {"a": [LONG, 2, {"b": MORE}]}, {"a": [SEE, 2, SEE]}),
        (
            [f"| 1 | {LONG} |\n| 2 | b |"],
            {"rows": [{"id": 1, "t": LONG}, {"id": 2, "t": "b"}]},
            {"rows": [{"id": 1}, {"id": 2, "t": "b"}]},
        ),
        (
            [MARKDOWN],
            {"pages": [{"body": MORE}, {"body": LONG}]},
            {"pages": [SEE, {"body": LONG}]},
        ),
        ([LONG], {"pages": [LONG, LONG]}, {"pages": [SEE, LONG]}),
        ([LONG], {"pages": [{"body": MORE}]}, {"pages": [{"body": MORE}]}),
        (["a"], {"pages": [{"body": LONG}, {}]}, {"pages": [{"body": LONG}, {}]}),
        (
            [f"{LONG}\r\n{MORE}\r\n"],
            {"pages": [{"body": f"{LONG}\n{MORE}"}]},
            None,
        ),
    ],
)
def test_long_texts_in_a_list_are_left_out_if_the_texts_have_them_in_this_order(
    texts: list[str], structured: Any, added: Any
) -> None:
    blocks = [{"type": "text", "text": text} for text in texts]
    failed = answer(*blocks, structured=structured)
    failed.is_error = True
    for result in (answer(*blocks, structured=structured), failed):
        parts = [part.text for part in result_parts(result) if isinstance(part, Text)]
        assert parts[: len(texts)] == texts
        assert [json.loads(part) for part in parts[len(texts) :]] == (
            [] if added is None else [added]
        )


@pytest.mark.parametrize(
    ("text", "structured"),
    [
        ("a b", {"text": "a\n  b"}),
        ("ab", {"text": "a b"}),
        ("if x:\ny", {"code": "if x:\n    y"}),
        ("1", {"result": True}),
        ("[1]", {"result": [True]}),
        ("a\nb", {"names": ["a\nb", "c"]}),
        ("a\nb", {"names": ["b", "a"]}),
        ("a\nb\nc", {"names": ["a", "b"]}),
    ],
)
def test_a_structured_result_that_says_more_than_the_text_is_told_as_well(
    text: str, structured: Any
) -> None:
    parts = result_parts(answer({"type": "text", "text": text}, structured=structured))
    told = [part.text for part in parts if isinstance(part, Text)]
    assert told == [text, json.dumps(structured)]


def test_an_error_with_a_structured_part_tells_both_and_each_of_them_once() -> None:
    block = {"type": "text", "text": "No such row.\nTry 1 to 9."}
    structured = {"lines": ["No such row.", "Try 1 to 9."]}
    failed = answer(block, structured=structured)
    failed.is_error = True
    assert result_parts(failed) == (Text("No such row.\nTry 1 to 9."),)
    failed.structured_content = {"code": 404}
    assert result_parts(failed)[1:] == (Text('{"code": 404}'),)


TEXTS = st.sampled_from(["", "a", "b c", LONG, f"{LONG}!", '{"a": 1}', "3"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [leaf for each in value for leaf in leaves(each)]
        if isinstance(value, list)
        else [str(value)]
    )


@given(
    st.lists(TEXTS | VALUES.map(json.dumps), max_size=3),
    st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
)
def test_whatever_is_told_once_is_told(
    texts: list[str], structured: dict[str, Any]
) -> None:
    parts = result_parts(
        answer(
            *({"type": "text", "text": text} for text in texts), structured=structured
        )
    )
    told = "\n".join(part.text for part in parts if isinstance(part, Text))
    plain = told.replace('\\"', '"')
    for leaf in leaves(structured):
        word = {"True": "true", "False": "false", "None": "null"}.get(
            leaf, leaf
        ).strip()
        assert word in plain or not structured


@given(st.lists(st.none() | st.integers(1, 2 * TEXT_LIMIT), max_size=2 * IMAGES))
def test_an_answer_is_bounded_and_says_what_is_missing(sizes: list[int | None]) -> None:
    image: JsonObject = {"type": "image", "data": BLOB, "mimeType": "image/png"}
    blocks: list[Any] = [
        {"type": "text", "text": "x" * size} if size else image for size in sizes
    ]
    parts = result_parts(answer(*blocks))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    images = sum(isinstance(part, Image) for part in parts)
    assert len(text) <= TEXT_LIMIT + 200
    assert images == min(IMAGES, sum(block["type"] == "image" for block in blocks))
    whole = [block["text"] for block in blocks if block["type"] == "text"]
    if (
        sum(map(len, whole)) > TEXT_LIMIT
        or sum(block["type"] == "image" for block in blocks) > IMAGES
    ):
        assert "cut" in text or "left out" in text


@pytest.mark.parametrize("kind", ["no base64", "too short", "a page", "empty"])
def test_a_broken_image_is_a_line_that_says_so(kind: str) -> None:
    data, mime_type = BROKEN[kind]
    image: dict[str, Any] = {"type": "image", "data": data, "mimeType": mime_type}
    [part] = result_parts(answer(image))
    assert isinstance(part, Text)
    assert part.text.startswith(f"[an image ({mime_type}) left out: it")
    assert prompt_parts((message(image),)) == (part,)
    file: dict[str, Any] = {"uri": "x://y", "blob": data, "mimeType": mime_type}
    [part] = result_parts(answer({"type": "resource", "resource": file}))
    assert isinstance(part, Text)


def test_a_prompt_of_several_voices_says_who_speaks() -> None:
    one = message({"type": "text", "text": "Hello"})
    other = message({"type": "text", "text": "Hi"}, "assistant")
    file = message({"type": "resource", "resource": {"uri": "x://y", "text": "words"}})
    assert prompt_parts((one, file)) == (Text("Hello"), Resource("x://y", text="words"))
    assert prompt_parts((one, other)) == (
        Text("[user]"),
        Text("Hello"),
        Text("[assistant]"),
        Text("Hi"),
    )
