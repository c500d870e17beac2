"""Lists of claims in YAML, each of which names the tests that prove it.

    entries = read_manifest(Path(__file__).with_name("pitfalls.yaml"))
    check_tests(entries[0])

Owns what such lists have in common: an entry names tests that exist, or says why it needs none. Knows no list.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from support.checkout import REPOSITORY


def read_manifest(path: Path) -> Any:
    """What a list holds."""
    return yaml.safe_load(path.read_text("utf-8"))


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The test functions at the top level of a file."""
    functions = (node for node in ast.parse(path.read_text("utf-8")).body if hasattr(node, "name"))
    return frozenset(node.name for node in functions if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def check_tests(entry: Mapping[str, Any]) -> None:
    """An entry has either `tests`, each once and each there, or `not_ours`.

    :raises AssertionError: it has not.
    """
    assert bool(entry.get("tests")) != bool(entry.get("not_ours")), "either tests or a reason"
    named = entry.get("tests", [])
    assert len(named) == len(set(named))
    for node in named:
        file, _, function = node.partition("::")
        assert function.startswith("test_"), node
        assert (REPOSITORY / file).is_file(), node
        assert function in functions_of(REPOSITORY / file), node
