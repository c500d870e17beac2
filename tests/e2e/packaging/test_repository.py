"""What may be in the repository: nothing that ties it to one machine, one registry or
one tool's taste.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.checkout import REPOSITORY

TOP_LEVEL = {
    *("acp_agent", "recipes", "tests", "docs", "editors", "benchmarks", ".ci"),
    *(
        "pyproject.toml",
        "Makefile",
        "LICENSE",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "AGENTS.md",
    ),
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file that git has or would take, relative to the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip(
            "This is not a git checkout, so there is no list of its files to look at."
        )
    return [
        Path(name)
        for name in listed.stdout.split("\0")
        if name and (REPOSITORY / name).is_file()
    ]


@pytest.mark.process
def test_nothing_that_is_made_is_kept_nor_a_path_of_the_machine(
    files: list[Path],
) -> None:
    entries = {file.parts[0] for file in files}
    assert {
        entry for entry in entries - TOP_LEVEL if not entry.startswith(".")
    } == set()
    made = {"__pycache__", "node_modules", ".venv", "dist", "build", "uv.lock"}
    assert [
        str(file)
        for file in files
        if made & set(file.parts) or file.suffix in {".pyc", ".whl", ".log"}
    ] == []

    # Paths that examples use too, such as /app or /home/user, say nothing about a
    # machine.
    places = [REPOSITORY, Path.home()]
    telling = [
        str(place)
        for place in places
        if len(place.parts) > 2 and place.name not in {"user", "you", "me"}
    ]
    if not telling:
        return
    path = re.compile(rf"(?<![\w.~/-])(?:{'|'.join(map(re.escape, telling))})(?![\w-])")

    found = [
        str(file)
        for file in files
        if path.search((REPOSITORY / file).read_text("utf-8", errors="replace"))
    ]

    assert found == []


def mapped() -> tuple[list[str], set[str]]:
    """The map of the modules in docs/architecture.md: names that stand for nothing, and
    the files that the others stand for. A name belongs to the folder below which it is
    indented; `*` stands for any letters.
    """
    text = (REPOSITORY / "docs" / "architecture.md").read_text()
    lines = text[text.index("```\nacp_agent/\n") :].splitlines()[2:]
    unknown: list[str] = []
    found: set[str] = set()
    folders: list[tuple[int, str]] = []
    for line in lines[: lines.index("```")]:
        indent = len(line) - len(line.lstrip())
        while folders and folders[-1][0] >= indent:
            folders.pop()
        if opened := re.match(r" *(\w+)/(?= )", line):
            folders.append(
                (indent, f"{folders[-1][1] if folders else 'acp_agent'}/{opened[1]}")
            )
        folder = folders[-1][1] if folders else "acp_agent"
        for name in re.findall(r"[\w*/]+\.py", line):
            files = {
                file.relative_to(REPOSITORY).as_posix()
                for file in (REPOSITORY / folder).glob(name)
            }
            found |= files
            if not files:
                unknown.append(f"{folder}/{name}")
    return unknown, found


def test_the_map_of_the_architecture_has_every_module_and_nothing_else() -> None:
    unknown, found = mapped()
    modules = {
        file.relative_to(REPOSITORY).as_posix()
        for file in (REPOSITORY / "acp_agent").rglob("*.py")
    }

    assert unknown == []
    assert {
        module for module in modules if not module.endswith("/__init__.py")
    } - found == set()


@pytest.mark.parametrize("contract", ["rooms", "session"])
def test_the_page_on_the_architecture_has_the_order_of_imports(contract: str) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == contract)
    enforced = " -> ".join(re.sub(r"[()]", "", layer) for layer in layers)

    page = (REPOSITORY / "docs" / "architecture.md").read_text()

    assert enforced in " ".join(page.split())


def test_npm_packages_are_locked_by_hash_and_not_by_address() -> None:
    lock = json.loads((REPOSITORY / "tests" / "npm" / "package-lock.json").read_text())
    package = json.loads((REPOSITORY / "tests" / "npm" / "package.json").read_text())
    wanted = {**package["devDependencies"], **package["optionalDependencies"]}

    packages = {
        path.removeprefix("node_modules/"): entry
        for path, entry in lock["packages"].items()
        if path
    }

    assert {name: packages[name]["version"] for name in wanted} == wanted
    assert [
        name
        for name, entry in packages.items()
        if "resolved" in entry or "integrity" not in entry
    ] == []
