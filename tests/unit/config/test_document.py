"""Small YAML files: every mistake is reported with its line, also in a hostile file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from yaml.scanner import Scanner

from acp_agent.config.document import (
    MAX_FILE_BYTES,
    MAX_TOKENS,
    DocumentError,
    parse_mapping,
    read_text,
)

KEYS = st.text("abcxyz_", min_size=1, max_size=5)
WORDS = st.text(
    st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("\n\t€😀"),
    max_size=10,
)


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
        ),
        max_leaves=8,
    )
    return st.dictionaries(KEYS, lists, max_size=5)


LEAVES = st.integers() | st.booleans() | st.none()
TREES = trees(
    LEAVES | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10)
)


@settings(deadline=None)
@given(TREES, st.integers(1, 50))
def test_dumped_yaml_is_parsed_with_the_line_of_every_key(
    tree: dict[str, Any], first_line: int
) -> None:
    text = yaml.safe_dump(tree, default_flow_style=False, sort_keys=False)
    document = parse_mapping(text, first_line)
    assert document.data == tree
    lines = text.split("\n")
    for place, line in document.lines.items() - {((), document.lines[()])}:
        here = lines[line - first_line].strip()
        assert isinstance(place[-1], int) or f"{place[-1]}" in here, (place, here)
    assert {place for place in document.lines if len(place) == 1} == {
        (key,) for key in tree
    }


@settings(deadline=None)
@given(st.text(max_size=100) | st.text("ab01.: -[]{},\n\t&*!|>'\"#%@?~<=", max_size=60))
def test_any_text_is_a_mapping_or_raises_an_error_with_a_message(text: str) -> None:
    try:
        outcome = str(parse_mapping(text).data)
    except DocumentError as error:
        outcome = error.message
    assert outcome


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1\nc: 2\n", 3, "not valid YAML"),
        ("a: 1\nb:\t- x\n", 2, "not valid YAML"),
        ("a: 1\n\nb: \x00\n", 3, "the character #x00 is not allowed"),
        ("a: 1\nb: 2\na: 3\n", 3, "is set twice, first in line 1"),
        ("a:\n  b: 1\n  b: 1\n", 3, "is set twice, first in line 2"),
        ("a: 1\n[x]: 2\n", 2, "a key should be text, not a list or a mapping"),
        (
            "a: &x 1\nb: *x\n",
            1,
            "anchors (&name) and aliases (*name) are not supported",
        ),
        ("a: &x [*x]\n", 1, "anchors (&name) and aliases (*name) are not supported"),
        ("- 1\n", 1, "should be a mapping: `key: value` lines"),
        ("just words\n", 1, "should be a mapping: `key: value` lines"),
        ("a: 1\n---\nb: 2\n", 2, "expected a single document"),
        (
            "a: !!python/object:os.system x\n",
            1,
            "tags (python/object:os.system) are not supported",
        ),
        ("a: !!binary x\n", 1, "tags (binary) are not supported"),
        ("a: " + "9" * 5000 + "\n", None, "not valid YAML"),
        ("a: " + "[" * 30 + "]" * 30, 1, "nested too deeply"),
        ("a: " + "[" * 20_000, 1, "nested too deeply"),
    ],
)
def test_a_mistake_is_named_with_its_line(
    text: str, line: int | None, words: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_mapping(text)
    assert words in caught.value.message
    assert caught.value.line == line


@settings(deadline=None)
@given(trees(LEAVES | WORDS), st.sampled_from(["\t", 4, None]))
def test_json_is_parsed_with_any_indentation(
    tree: dict[str, Any], indent: str | int | None
) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    assert parse_mapping(text).data == tree
    document = parse_mapping(f"mode: ask\nx: {text}\n")
    assert document.data == {"mode": "ask", "x": tree}
    lines = f"mode: ask\nx: {text}".split("\n")
    assert all(
        place[-1] in lines[line - 1]
        for place, line in document.lines.items()
        if place and isinstance(place[-1], str)
    )


def test_a_word_without_quotes_is_text_unless_it_is_a_json_literal() -> None:
    text = "on: off\nno: 12:30\n7: 007\nday: 2026-01-02\nnumbers: [1, -0.5, 1.0e+3, true, null, ~, '1', yes, .inf]\n"
    numbers = [1, -0.5, 1000.0, True, None, None, "1", "yes", ".inf"]
    expected = {
        "on": "off",
        "no": "12:30",
        "7": "007",
        "day": "2026-01-02",
        "numbers": numbers,
    }
    assert parse_mapping(text).data == expected
    assert parse_mapping(
        "a: 1.10\nb: 1.10\n", is_text=lambda place: place == ("a",)
    ).data == {"a": "1.10", "b": 1.1}


def test_a_text_is_parsed_once_and_a_changed_text_is_parsed_again() -> None:
    assert parse_mapping("description: a", 2) is parse_mapping("description: a", 2)
    assert parse_mapping("description: b", 2).data == {"description": "b"}


def test_a_file_of_comments_is_an_empty_mapping_and_a_missing_file_is_none(
    tmp_path: Path,
) -> None:
    assert parse_mapping("# a: 1\n\n").data == {}
    assert read_text(tmp_path / "none") is None
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_text(tmp_path / "file" / "none") is None
    assert read_text(tmp_path / "file") == "a: 1\n"  # without its byte order mark


def test_files_that_are_not_small_text_files_are_refused_without_waiting(
    tmp_path: Path,
) -> None:
    pipe, zero, large, latin, loop = (
        tmp_path / name for name in ("pipe", "zero", "large", "latin", "loop")
    )
    os.mkfifo(pipe)
    zero.symlink_to("/dev/zero")
    large.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    latin.write_bytes("a: 1\nb: größer\n".encode("latin-1"))
    loop.symlink_to(loop)
    for path, words in [
        (pipe, "is not a regular file"),
        (zero, "is not a regular file"),
        (tmp_path, "cannot be read"),
        (large, "is larger than 256 KiB"),
        (latin, "is not UTF-8 text"),
        (loop, "cannot be read"),
    ]:
        with pytest.raises(DocumentError, match=words) as caught:
            read_text(path)
        assert caught.value.line == (2 if path == latin else None)
    with pytest.raises(DocumentError, match="cannot be read"):
        read_text(loop, within=tmp_path)


def test_a_link_to_a_file_outside_the_given_folder_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("a: 1")
    (inside / "file").write_text("a: 1")
    (inside / "out").symlink_to(tmp_path / "secret")
    (inside / "in").symlink_to(inside / "file")
    assert read_text(inside / "in", within=inside) == "a: 1"
    assert read_text(inside / "out") == "a: 1"
    with pytest.raises(DocumentError, match="is a link to a file outside"):
        read_text(inside / "out", within=inside)


LONG = {
    "a list": ("a:\n" + "- 1\n" * 60_000, 4999),
    "a list in brackets": ("a: [" + "1," * 100_000 + "]", 1),
    "empty lists": ("a: [" + "[]," * 80_000 + "]", 1),
    "keys": ("\n".join(f"key{number}: 1" for number in range(20_000)), 2500),
    "aliases": ("a: &a 1\nb: [" + "*a," * 80_000 + "]", 2),
    "directives": ("%A\n" * 60_000, 10_000),
}


@pytest.mark.parametrize("name", LONG)
def test_a_file_with_too_many_tokens_is_refused_before_the_rest_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, line = LONG[name]
    fetched: list[None] = []
    original = Scanner.fetch_more_tokens

    def counted(scanner: Scanner) -> None:
        fetched.append(None)
        original(scanner)

    monkeypatch.setattr(Scanner, "fetch_more_tokens", counted)
    with pytest.raises(DocumentError) as caught:
        parse_mapping(text)
    assert (
        "is too long; the limit is about 2,500 keys with values" in caught.value.message
    )
    assert caught.value.line is not None
    assert abs(caught.value.line - line) <= 2
    assert len(fetched) <= MAX_TOKENS


def test_a_file_with_a_thousand_lists_and_a_long_text_is_read() -> None:
    text = "\n".join(f"key{number}: [{number}]" for number in range(1_200))
    text += "\nprompt: |\n" + "  Some words for the model.\n" * 8_000
    assert len(text) < MAX_FILE_BYTES
    assert len(parse_mapping(text).data) == 1_201
