"""The tables in docs/protocol.md have everything that the SDK's schemas have, and what they say is used is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from acp_agent.protocol.v1 import methods as first
from acp_agent.protocol.v2 import methods as second
from support.checkout import REPOSITORY
from support.npm import npm_package
from support.schema import official_schema

SPOKEN = {1: first.METHODS.keys(), 2: second.METHODS.keys()}
_ROW = re.compile(r"^\| `(?P<name>[^`]+)` \| (?P<first>[^|]+) \| (?P<second>[^|]+) \| (?P<how>[^|]+) \|$", re.MULTILINE)

Names = dict[str, tuple[str, str]]


def written(heading: str) -> dict[str, tuple[str, str, str]]:
    """The rows of a section: where a name stands in each version, and what is said of it."""
    page = (REPOSITORY / "docs" / "protocol.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [(row["name"], (row["first"], row["second"], row["how"])) for row in _ROW.finditer(section)]
    assert len(rows) == len(dict(rows)), "a name stands there twice"
    return dict(rows)


def schema(version: int, part: str = "") -> dict[str, Any]:
    """The definitions of the schema that comes with the SDK."""
    folder = npm_package("@agentclientprotocol/sdk") / "schema" / f"v{version}"
    return json.loads((folder / f"schema{part}.json").read_text(encoding="utf-8"))["$defs"]


def methods(definitions: dict[str, Any]) -> set[str]:
    return {each["x-method"] for each in definitions.values() if isinstance(each, dict) and "x-method" in each}


def kinds(definitions: dict[str, Any]) -> set[str]:
    """The kinds of `session/update`."""
    union = definitions["SessionUpdate"]
    options = union.get("oneOf") or union["anyOf"]
    return {option["properties"]["sessionUpdate"]["const"] for option in options if "not" not in option}


def leaves(definitions: dict[str, Any], name: str, path: str = "") -> Iterator[str]:
    """The capabilities that a definition has, by their path; what a prompt's instructions can be is one."""
    for key, part in definitions[name].get("properties", {}).items():
        if key == "_meta":
            continue
        options = part.get("anyOf") or part.get("allOf") or [part]
        inner = [
            leaf
            for option in options
            if "$ref" in option and key != "systemPrompt"
            for leaf in leaves(definitions, option["$ref"].rpartition("/")[2], f"{path}{key}.")
        ]
        yield from inner or [f"{path}{key}"]


def capabilities(definitions: dict[str, Any]) -> set[str]:
    return {*leaves(definitions, "AgentCapabilities"), *leaves(definitions, "ClientCapabilities")}


@pytest.mark.parametrize(
    ("heading", "names"), [("Methods", methods), ("Updates", kinds), ("Capabilities", capabilities)]
)
def test_the_page_has_every_name_of_the_schemas_and_says_what_is_stable(heading: str, names: Any) -> None:
    found: dict[str, list[str]] = {}
    for index, version in enumerate((1, 2)):
        stable = names(schema(version))
        for name in names(schema(version, ".unstable")):
            found.setdefault(name, ["–", "–"])[index] = "stable" if name in stable else "unstable"
    rows = written(heading)
    assert {name: list(row[:2]) for name, row in rows.items()} == found


def test_what_the_page_says_is_used_is_and_the_rest_is_not() -> None:
    for name, (*parts, how) in written("Methods").items():
        for version, part in zip((1, 2), parts, strict=True):
            assert (name in SPOKEN[version]) is (part != "–" and how.startswith("yes")), (name, version)
    spoken = {version: kinds(official_schema(version)["$defs"]) for version in (1, 2)}
    for name, (*parts, how) in written("Updates").items():
        for version, part in zip((1, 2), parts, strict=True):
            used = part != "–" and how.startswith("yes") and f"no in version {version}" not in how
            assert used <= (name in spoken[version]), (name, version)
            if part == "unstable":
                assert used is (name in spoken[version]), (name, version)
