"""Arguments that were cut off, and arguments that are malformed."""

from __future__ import annotations

import json

import pytest

from acp_agent.llm.adapters.cut_json import is_cut_object

WHOLE = (
    '{"a": [1, -2.5e+3, {"b\\u00e9\\n": null}, true, [], {}], "c": {"d": "x\\"y"},'
    ' "e": 0, "f": false}'
)


def test_every_beginning_of_a_json_object_is_cut_and_the_object_is_not() -> None:
    assert isinstance(json.loads(WHOLE), dict)
    whole = [at for at in range(len(WHOLE)) if not is_cut_object(WHOLE[:at])]
    assert whole == []
    assert not is_cut_object(WHOLE)
    assert not is_cut_object(f"{WHOLE}\n")


@pytest.mark.parametrize(
    "text",
    [
        "{'a': 1}",
        '{"a": x',
        '{"a": trie',
        '{"a": 01',
        '{"a": 1.e',
        '{"a": 1a',
        '{"a": -}',
        '{"a": "\n',
        '{"a": "\\q',
        '{"a": "\\u00g',
        '{"a": Infinity',
        '{"a" "b"',
        '{"a": 1 "b"',
        '{"a": 1,}',
        '{"a": [1,]',
        '{"a": [1}',
        '{"a": {}]',
        "{,",
        '{"a": 1} {',
        "[",
        "12",
        "null",
        '"a whole string"',
        "{\u00a0",
    ],
)
def test_a_text_that_no_more_text_could_make_an_object_is_not_cut(text: str) -> None:
    assert not is_cut_object(text)


@pytest.mark.parametrize("text", ["", " \n", '"', '"{\\"a', " {"])
def test_nothing_and_a_string_without_its_end_may_become_an_object(text: str) -> None:
    assert is_cut_object(text)


def test_arguments_of_any_depth_are_read_in_one_pass() -> None:
    assert is_cut_object('{"a":' * 200_000)
