"""Lists of claims in YAML, each of which names the tests that prove it.

    entries = read_manifest(Path(__file__).with_name("pitfalls.yaml"))
    check_tests(entries[0])

Owns what such lists have in common: an entry names tests that exist, or says why it needs none. Knows no list.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from support.checkout import REPOSITORY

_SKIPPING = ("skip", "skipif", "skipIf", "importorskip", "xfail")


def read_manifest(path: Path) -> Any:
    """What a list holds."""
    return yaml.safe_load(path.read_text("utf-8"))


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The test functions at the top level of a file."""
    functions = (node for node in ast.parse(path.read_text("utf-8")).body if hasattr(node, "name"))
    return frozenset(node.name for node in functions if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def skipping_in(path: Path) -> frozenset[str]:
    """What at the top level of a file may be left out of a run: by a mark of its own or of the file, or by a call in it
    or in what it names. A whole file that may be is every name in it.

    What a helper of another file leaves out where somebody has not installed everything, CI does not.
    """
    body = ast.parse(path.read_text("utf-8")).body
    named = {name: node for node in body for name in _names(node)}
    found = {name for name, node in named.items() if _uses(node, frozenset())}
    if "pytestmark" in found:
        return frozenset(named)
    while more := {name for name, node in named.items() if name not in found and _uses(node, found)}:
        found |= more
    return frozenset(found)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []


def _uses(node: ast.stmt, names: Collection[str]) -> bool:
    return any(
        (isinstance(each, ast.Attribute) and each.attr in _SKIPPING)
        or (isinstance(each, ast.Name) and each.id in names)
        for each in ast.walk(node)
    )


def check_tests(entry: Mapping[str, Any]) -> None:
    """An entry has either `tests`, each once, each there and run wherever the suite is, or `not_ours`.

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
        assert function not in skipping_in(REPOSITORY / file), f"{node} proves nothing where it is skipped"
