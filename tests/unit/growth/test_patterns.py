"""Every regular expression of the package takes a time that is linear in the text,
however hostile the text is.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import acp_agent
from support.growth import grows_too_fast, hostile_inputs

_SIZE = 8_000
_INPUTS = 60
BOUNDED = {
    "acp_agent.compaction.evaluation.facts._LEFT": "reads 30 characters",
    "acp_agent.compaction.evaluation.facts._DOCUMENT": "`compact-eval` reads the first 4,000 characters of a command",
}
"""Patterns whose texts are short for another reason, which is given."""
INLINE = {
    "acp_agent.cli.demo": "reads what its own tests print",
    "acp_agent.cli.doctor.report": "a class of characters",
    "acp_agent.cli.terminal.jsonc": "the indentation of one line",
    "acp_agent.compaction.excerpts.rules": "a lookahead over the blanks of one line; see the functions",
    "acp_agent.compaction.verify": "reads one run of characters",
    "acp_agent.config.forms": "reads single settings, in files of at most 256 KiB",
    "acp_agent.conversation.markdown": "runs of one character",
    "acp_agent.hooks.contract": "a class of characters",
    "acp_agent.hooks.executables": "a class of characters",
    "acp_agent.hooks.rules": "a number and a unit, with bounded repeats",
    "acp_agent.llm.adapters.encoding": "a class of characters",
    "acp_agent.llm.errors": "see the functions: `classify` reads errors that providers send",
    "acp_agent.llm.refusals": "see the functions: reads errors of at most 64 KiB",
    "acp_agent.llm.refused_tools": "looks for the name of a tool",
    "acp_agent.llm.scripted": "reads the script of a test provider",
    "acp_agent.mcp.addresses": "a class of characters",
    "acp_agent.mcp.tools": "a class of characters",
    "acp_agent.mcp.variables": "a class of characters",
    "acp_agent.module_path": "a class of characters",
    "acp_agent.recipes.arguments": "one escaped character",
    "acp_agent.sandbox.excludes": "a class of characters",
    "acp_agent.sandbox.placeholders": "a class of characters",
    "acp_agent.secrets.names": "reads at most 200 characters",
    "acp_agent.server.v1.presenter": "see the functions: splits the first sentence from a text",
    "acp_agent.tools.asked": "runs of one character",
    "acp_agent.tools.matching.line_ends": "a class of characters",
    "acp_agent.tools.shell.allow": "reads one word",
    "acp_agent.tools.shell.syntax": "reads a line of at most 8,000 characters",
    "acp_agent.visible": "runs of a class of characters; measured by its own tests",
}
"""Modules that match patterns which they do not keep, and why the time of these is
linear as well.
"""


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(acp_agent.__path__, "acp_agent."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


@cache
def _patterns() -> dict[str, re.Pattern[Any]]:
    """The patterns that modules and their classes keep, by where they are first."""
    found: dict[int, tuple[str, re.Pattern[Any]]] = {}

    def look(name: str, value: object, depth: int) -> None:
        if isinstance(value, re.Pattern):
            found.setdefault(id(value), (name, value))
        elif isinstance(value, tuple | list) and depth:
            for index, each in enumerate(value):
                look(f"{name}[{index}]", each, depth - 1)
        elif isinstance(value, dict) and depth:
            for key, each in value.items():
                look(f"{name}[{key!r}]", each, depth - 1)

    for module in _modules():
        for name, value in [*vars(module).items()]:
            look(f"{module.__name__}.{name}", value, 3)
            if isinstance(value, type) and value.__module__ == module.__name__:
                for member, inner in [*vars(value).items()]:
                    look(f"{module.__name__}.{name}.{member}", inner, 1)
    return dict(found.values())


def _ways(name: str, pattern: re.Pattern[Any]) -> list[Callable[[Any], object]]:
    """How the package matches a pattern; everywhere in a text if that cannot be told."""
    modules = (each for each in _modules() if name.startswith(f"{each.__name__}."))
    module = max(modules, key=lambda each: len(each.__name__))
    variable = re.escape(name.rpartition(".")[2])
    methods = "match|fullmatch|search|sub|split|findall|finditer"
    used = set(re.findall(rf"\b{variable}\.({methods})\b", inspect.getsource(module)))
    at_start = {"match": pattern.match, "fullmatch": pattern.fullmatch}
    ways: list[Callable[[Any], object]] = [
        at_start[way] for way in sorted(used & at_start.keys())
    ]
    if not used <= at_start.keys() or not used:
        ways.append(pattern.findall)
    return ways


def test_every_pattern_takes_a_time_that_is_linear_in_hostile_texts_of_its_own_parts() -> (
    None
):
    slow: list[str] = []
    for name, pattern in _patterns().items():
        if name in BOUNDED:
            continue
        for way in _ways(name, pattern):
            for make in hostile_inputs(pattern, _INPUTS):
                if told := grows_too_fast(way, make, _SIZE):
                    slow.append(f"{name}, {way.__name__}: {told} with {make(60)!r}")
                    break
    assert not slow, "\n".join(slow)


def test_a_pattern_that_is_quadratic_is_found() -> None:
    for pattern in (
        r"eyJ[A-Za-z0-9_-]{8,}\.",
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.",
        r"<!--.*?-->",
    ):
        compiled = re.compile(pattern)
        assert any(
            grows_too_fast(compiled.findall, make, _SIZE)
            for make in hostile_inputs(compiled, _INPUTS)
        ), pattern


def test_who_matches_a_pattern_without_keeping_it_says_why_that_takes_little_time() -> (
    None
):
    matching = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer"}
    found: set[str] = set()
    for module in _modules():
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=name)) if (
                    name in matching
                ):
                    found.add(module.__name__)
                case _:
                    pass
    assert found - INLINE.keys() == set()
    assert INLINE.keys() - found == set()


@pytest.mark.parametrize("name", BOUNDED)
def test_an_exception_names_a_pattern_that_there_is(name: str) -> None:
    assert name in _patterns()
