"""The tables in docs/protocol.md have everything that the SDK's schemas have, and what
they say is used is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.npm import npm_package
from support.pages import DOCS, section
from support.schema import official_schema

_ROW = re.compile(
    r"^\| (?P<names>`[^|]+`) \| (?P<first>[^|]+) \| (?P<second>[^|]+) \| (?P<how>[^|]+) \|$",
    re.MULTILINE,
)


def written(heading: str) -> dict[str, tuple[str, str, str]]:
    """The rows of a section: where a name stands in each version, and what is said of
    it.
    """
    rows = [
        (name, (row["first"], row["second"], row["how"]))
        for row in _ROW.finditer(section("protocol.md", heading))
        for name in re.findall(r"`([^`]+)`", row["names"])
    ]
    assert len(rows) == len(dict(rows)), "a name stands there twice"
    return dict(rows)


def schema(version: int, part: str = "") -> dict[str, Any]:
    """The definitions of the schema that comes with the SDK."""
    folder = npm_package("@agentclientprotocol/sdk") / "schema" / f"v{version}"
    return json.loads((folder / f"schema{part}.json").read_text(encoding="utf-8"))[
        "$defs"
    ]


def methods(definitions: dict[str, Any]) -> set[str]:
    return {
        each["x-method"]
        for each in definitions.values()
        if isinstance(each, dict) and "x-method" in each
    }


def kinds(definitions: dict[str, Any]) -> set[str]:
    """The kinds of `session/update`."""
    union = definitions["SessionUpdate"]
    options = union.get("oneOf") or union["anyOf"]
    return {
        option["properties"]["sessionUpdate"]["const"]
        for option in options
        if "not" not in option
    }


def leaves(definitions: dict[str, Any], name: str, path: str = "") -> Iterator[str]:
    """The capabilities that a definition has, by their path; what a prompt's
    instructions can be is one.
    """
    for key, part in definitions[name].get("properties", {}).items():
        if key == "_meta":
            continue
        options = part.get("anyOf") or part.get("allOf") or [part]
        inner = [
            leaf
            for option in options
            if "$ref" in option and key != "systemPrompt"
            for leaf in leaves(
                definitions, option["$ref"].rpartition("/")[2], f"{path}{key}."
            )
        ]
        yield from inner or [f"{path}{key}"]


def capabilities(definitions: dict[str, Any]) -> set[str]:
    return {
        *leaves(definitions, "AgentCapabilities"),
        *leaves(definitions, "ClientCapabilities"),
    }


@pytest.mark.clients
@pytest.mark.parametrize(
    ("heading", "names"),
    [("Methods", methods), ("Updates", kinds), ("Capabilities", capabilities)],
)
def test_the_page_has_every_name_of_the_schemas_and_says_what_is_stable(
    heading: str, names: Any
) -> None:
    found: dict[str, list[str]] = {}
    for index, version in enumerate((1, 2)):
        stable = names(schema(version))
        for name in names(schema(version, ".unstable")):
            found.setdefault(name, ["–", "–"])[index] = (
                "stable" if name in stable else "unstable"
            )
    rows = written(heading)
    assert {name: list(row[:2]) for name, row in rows.items()} == found


def test_what_the_page_says_is_used_is_and_the_rest_is_not() -> None:
    named = {version: methods(official_schema(version)["$defs"]) for version in (1, 2)}
    for name, (*parts, how) in written("Methods").items():
        for version, part in zip((1, 2), parts, strict=True):
            assert (name in named[version]) is (
                part != "–" and how.startswith("yes")
            ), (name, version)
    spoken = {version: kinds(official_schema(version)["$defs"]) for version in (1, 2)}
    for name, (*parts, how) in written("Updates").items():
        for version, part in zip((1, 2), parts, strict=True):
            used = (
                part != "–"
                and how.startswith("yes")
                and f"no in version {version}" not in how
            )
            assert used <= (name in spoken[version]), (name, version)
            if part == "unstable":
                assert used is (name in spoken[version]), (name, version)


@pytest.mark.clients
def test_what_is_never_sent_of_the_stable_part_of_version_2_is_in_it() -> None:
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    rows = (
        page.partition("\n### Of the stable part of version 2\n")[2]
        .split("\n## ")[0]
        .splitlines()
    )
    named = [
        name
        for row in rows
        if row.startswith("| `")
        for name in re.findall(r"`([\w.=]+)`", row.split("|")[1])
    ]
    assert len(named) == len(set(named)) > 20
    stable = schema(2)
    for name in named:
        definition, separator, part = re.split(r"([.=])", name)
        found = stable[definition]
        assert (
            part in found["properties"]
            if separator == "."
            else f'"{part}"' in json.dumps(found)
        ), name
