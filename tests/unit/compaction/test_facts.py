"""Facts: paths, names, errors, options, URLs, numbers, versions and hashes in a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.facts import LONGEST, RUNS, facts_of_run, key_of


def found(text: str) -> set[tuple[str, str]]:
    return {
        (kind, key)
        for run in RUNS.findall(text)
        for key, _, _, kind in facts_of_run(run)
    }


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        ("see src/cart.py:316.", "path", "src/cart.py"),
        ("--- a/src/cart.py", "path", "src/cart.py"),
        ("in ./conftest.py,", "path", "conftest.py"),
        ("`Basic.__eq__` is", "name", "Basic.__eq__"),
        ("the shopCart fails", "name", "shopCart"),
        ("self.max_size = 1", "name", "max_size"),
        ("raised ZeroDivisionError: no", "error", "ZeroDivisionError"),
        ("with --no-cov", "option", "--no-cov"),
        ("at https://example.org/a?b=1.", "url", "https://example.org/a?b=1"),
        ("port 8347 is", "number", "8347"),
        ("pandas 2.0.1,", "version", "2.0.1"),
        ("commit deadbee1", "hash", "deadbee1"),
        ("修改foo_bar函数", "name", "foo_bar"),
    ],
)
def test_all_mentions_of_a_fact_have_the_same_key(
    text: str, kind: str, key: str
) -> None:
    assert (kind, key) in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "and/or",
        "read the file",
        "e.g. this",
        "42 apples",
        "...",
        "- / + ~ @",
        "",
        "a" * 500,
    ],
)
def test_plain_words_are_no_facts(text: str) -> None:
    assert not found(text)


def test_a_path_also_yields_the_names_in_it() -> None:
    assert {"sympy/core/test_basic.py", "test_basic"} <= {
        key for _, key in found("sympy/core/test_basic.py")
    }


def test_a_run_too_long_for_a_name_is_data() -> None:
    assert not found("x_" * LONGEST)


def test_keys_ignore_punctuation_and_the_prefixes_of_diffs() -> None:
    assert {
        key_of(said)
        for said in ("b/src/cart.py", "./src/cart.py", "src/cart.py.", "src/cart.py:")
    } == {"src/cart.py"}


@given(st.text(max_size=300))
def test_every_fact_is_at_its_stated_offsets(text: str) -> None:
    for run in RUNS.findall(text):
        for key, start, end, _ in facts_of_run(run):
            assert run[start:end] == key
