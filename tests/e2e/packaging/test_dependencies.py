"""What the package imports is what its metadata asks for: an environment of developers would hide what is missing."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain

from support.checkout import REPOSITORY


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level names of the modules that a file imports when it runs, also within functions."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                for other in node.orelse:
                    yield from imported(other)
            case ast.Import():
                yield from (alias.name.partition(".")[0] for alias in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.partition(".")[0]
            case _:
                yield from imported(node)


def third_party() -> set[str]:
    """The top-level modules that are neither Python's nor the project's own."""
    files = (REPOSITORY / "acp_agent").rglob("*.py")
    names = {name for file in files for name in imported(ast.parse(file.read_text("utf-8")))}
    return names - sys.stdlib_module_names - {"acp_agent"}


def canonical(distribution: str) -> str:
    """The name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_every_import_is_of_a_named_dependency_and_every_dependency_is_imported() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    required, optional = project["dependencies"], [*chain(*project["optional-dependencies"].values())]
    named, extra = (
        {canonical(re.split(r"[<>=!~\[ ;]", requirement)[0]) for requirement in requirements}
        for requirements in (required, optional)
    )
    providers = packages_distributions()
    provided = {name: {canonical(each) for each in providers.get(name, ())} for name in third_party()}

    assert {name: by for name, by in provided.items() if not by & (named | extra)} == {}
    assert named - set().union(*provided.values()) == set()
