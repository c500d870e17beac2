"""What pyproject.toml asks for: what the package imports, pinned, bounded, and told to
those who install an extra.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest

from acp_agent.installing import Extra
from support.checkout import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
REQUIRED = PROJECT["project"]["dependencies"]
OPTIONAL = PROJECT["project"]["optional-dependencies"]
PINS = (
    REPOSITORY / ".ci" / "requirements.txt",
    REPOSITORY / ".ci" / "requirements-dev.txt",
)
SITE = REPOSITORY / ".ci" / "requirements-site.txt"
PAGES: dict[Extra, tuple[str, ...]] = {
    "images": ("docs/attachments.md",),
    "keyring": ("docs/login.md",),
    "serve": ("docs/serving.md", "editors/marimo/README.md"),
}


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level names of the modules that a file imports when it runs, also within
    functions.
    """
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
    names = {
        name for file in files for name in imported(ast.parse(file.read_text("utf-8")))
    }
    return names - sys.stdlib_module_names - {"acp_agent"}


def names(requirements: list[str]) -> set[str]:
    """The distributions that are required, as indexes compare them."""
    return {
        canonical(re.split(r"[<>=!~\[ ;]", requirement)[0])
        for requirement in requirements
    }


def canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def pins(file: Path) -> dict[str, list[str]]:
    """The pinned requirements of a file: name -> the lines after it, each one hash."""
    entries = re.split(
        r"^(?=\S)",
        re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE),
        flags=re.MULTILINE,
    )
    found: dict[str, list[str]] = {}
    for entry in filter(None, entries):
        first, *hashes = (line.rstrip(" \\") for line in entry.splitlines())
        name, version = first.split("==", 1)
        assert version
        found[name] = [line.strip() for line in hashes]
    return found


def test_every_import_is_of_a_named_dependency_and_every_dependency_is_imported() -> (
    None
):
    named = names(REQUIRED)
    extra = names([*chain(*OPTIONAL.values())])
    providers = packages_distributions()
    provided = {
        name: {canonical(each) for each in providers.get(name, ())}
        for name in third_party()
    }

    assert {name: by for name, by in provided.items() if not by & (named | extra)} == {}
    assert named - set().union(*provided.values()) == set()


def test_dependencies_have_a_lower_and_an_upper_bound() -> None:
    assert [
        each for each in REQUIRED if not re.fullmatch(r"[\w-]+>=[\d.]+,<\d+", each)
    ] == []


def test_every_requirement_of_the_project_is_pinned() -> None:
    assert (
        names([*REQUIRED, *PROJECT["build-system"]["requires"]]) - set(pins(PINS[0]))
        == set()
    )


@pytest.mark.parametrize("file", [*PINS, SITE], ids=lambda file: file.name)
def test_pins_are_exact_and_hashed_and_name_no_index_and_no_path(file: Path) -> None:
    requirements = pins(file)

    assert requirements
    assert all(
        hashes and all(line.startswith("--hash=sha256:") for line in hashes)
        for hashes in requirements.values()
    )
    assert (
        re.findall(
            r"://|^-\S+|--(?:index|extra|find|trusted)\S*|(?<=\s)/\S+",
            file.read_text(),
            re.MULTILINE,
        )
        == []
    )


def test_the_agent_is_pinned_the_same_for_its_users_and_its_developers() -> None:
    users, developers = (
        dict.fromkeys(re.findall(r"^\S+==\S+", file.read_text(), re.MULTILINE))
        for file in PINS
    )

    assert [pin for pin in users if pin not in developers] == []


def test_every_extra_of_the_package_is_one_that_can_be_named() -> None:
    assert set(OPTIONAL) == set(get_args(Extra)) == set(PAGES)


@pytest.mark.parametrize("extra", PAGES)
def test_a_page_says_how_an_extra_is_installed_as_the_agent_does(extra: Extra) -> None:
    for page in PAGES[extra]:
        text = " ".join((REPOSITORY / page).read_text().split())
        assert (
            f"`pipx install --force 'acp-agent-server[{extra}]'`, or `pip install '.[{extra}]'` in a checkout"
            in text
        ), page
