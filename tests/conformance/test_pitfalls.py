"""The list of pitfalls beside this file: every claim names tests which exist, or says why it needs none."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.checkout import REPOSITORY

MANIFEST = Path(__file__).with_name("pitfalls.yaml")
ENTRIES: list[dict[str, Any]] = yaml.safe_load(MANIFEST.read_text("utf-8"))
TOPICS = 29


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The test functions at the top level of a file."""
    functions = (node for node in ast.parse(path.read_text("utf-8")).body if hasattr(node, "name"))
    return frozenset(node.name for node in functions if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_a_claim_names_tests_that_exist_or_says_why_it_needs_none(entry: dict[str, Any]) -> None:
    assert entry.keys() <= {"id", "claim", "editors", "tests", "not_ours"}
    assert entry["claim"].strip().endswith(".")
    assert entry.get("editors") != []
    assert bool(entry.get("tests")) != bool(entry.get("not_ours")), "either tests or a reason"
    named = entry.get("tests", [])
    assert len(named) == len(set(named))
    for node in named:
        file, _, function = node.partition("::")
        assert function.startswith("test_"), node
        assert (REPOSITORY / file).is_file(), node
        assert function in functions_of(REPOSITORY / file), node


def test_ids_are_unique_and_stand_in_the_order_of_their_topics() -> None:
    ids = [entry["id"] for entry in ENTRIES]
    assert len(ids) == len(set(ids))
    topics = [int(id.partition(".")[0]) for id in ids]
    assert topics == sorted(topics)
    assert set(topics) == set(range(1, TOPICS + 1))
