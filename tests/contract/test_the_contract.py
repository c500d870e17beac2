"""The contract itself: it knows the agent from outside alone, and nobody changes it by the way."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "contract"
NOTED = TESTS.parent / ".ci" / "contract.sha256"


def files() -> list[Path]:
    """Every file of the contract."""
    return sorted(path for path in FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports wherever in it, and what it takes from them, which may be modules."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (str(node.module), *(f"{node.module}.{name.name}" for name in node.names))


def test_neither_the_contract_nor_its_helpers_import_the_agent() -> None:
    # What stands in the kept home is its user's, and a hook of theirs may import the agent.
    waiting = [*FOLDER.glob("*.py"), TESTS / "conftest.py"]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            names = {*imported(path)}
            assert [name for name in names if name.partition(".")[0] == "acp_agent"] == [], path
            places = (TESTS.joinpath(*name.split(".")) for name in names)
            found = (each for place in places for each in (place.with_suffix(".py"), place / "__init__.py"))
            waiting += [each for each in found if each.is_file()]
    assert TESTS / "support" / "client.py" in seen


def test_the_contract_is_as_it_was_noted() -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(TESTS.parent).as_posix()}"
        for path in files()
    ]
    noted = NOTED.read_text("utf-8").splitlines()
    changed = sorted({line.split("  ", 1)[1] for line in {*lines} ^ {*noted}})
    assert noted == sorted(noted, key=lambda line: line.split("  ", 1)[1]), f"{NOTED} is not sorted"
    assert changed == [], (
        "a changed file of tests/contract needs a commit of its own that cites the sentence which demands it; "
        "then run `make contract`"
    )
