"""The lists of duties and pitfalls beside this file: each entry names tests that exist,
or says why it needs none.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.checkout import REPOSITORY
from support.npm import npm_package

MANIFEST: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("duties.yaml").read_text("utf-8")
)
DUTIES: list[dict[str, Any]] = MANIFEST["duties"]
PITFALLS: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("pitfalls.yaml").read_text("utf-8")
)
DUTY = {"id", "duty", "level", "page", "section", "schema", "tests", "note", "not_ours"}
PITFALL = {"id", "claim", "editors", "tests", "not_ours"}
PAGES = {
    *(
        "agent-plan",
        "authentication",
        "cancellation",
        "content",
        "elicitation",
        "extensibility",
        "file-system",
    ),
    *(
        "initialization",
        "overview",
        "prompt-turn",
        "schema",
        "session-config-options",
        "session-delete",
    ),
    *("session-list", "session-setup", "terminals", "tool-calls", "transports"),
}
"""Those which say of an agent what it must or should do."""
TOPICS = 29
DEMAND = re.compile(r"\b(?:MUST|SHOULD|SHALL|REQUIRED)\b")
DOCUMENT = REPOSITORY / "docs" / "conformance.md"


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The functions at the top level of a file; none where there is no such file."""
    body = ast.parse(path.read_text("utf-8")).body if path.is_file() else []
    return frozenset(
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def missing(entry: dict[str, Any]) -> list[str]:
    """The tests that an entry names and that do not exist."""
    places = [(node, *node.split("::")) for node in entry.get("tests", [])]
    return [
        node
        for node, file, function in places
        if not function.startswith("test_")
        or function not in functions_of(REPOSITORY / file)
    ]


def demands(value: Any, place: str) -> Iterator[str]:
    """Where the descriptions of a schema demand something."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from demands(item, f"{place}[{index}]")
    if not isinstance(value, dict):
        return
    description = value.get("description")
    if isinstance(description, str) and DEMAND.search(description):
        yield (
            "_meta"
            if place.endswith("/_meta")
            else place.removeprefix("/").removeprefix("$defs/")
        )
    for key, below in value.items():
        yield from demands(below, f"{place}/{key}")


def test_each_entry_has_an_id_of_its_own_and_names_tests_that_exist_or_says_why_it_needs_none() -> (
    None
):
    entries = [*DUTIES, *PITFALLS]
    assert [
        id
        for id, count in Counter(entry["id"] for entry in entries).items()
        if count > 1
    ] == []
    assert [
        entry["id"]
        for entry in entries
        if bool(entry.get("tests")) == bool(entry.get("not_ours"))
    ] == []
    assert {entry["id"]: gone for entry in entries if (gone := missing(entry))} == {}
    assert [
        entry["id"]
        for entry in entries
        if len(named := entry.get("tests", [])) != len(set(named))
    ] == []


def test_each_duty_has_its_place_in_the_protocol_and_each_page_all_of_its_duties() -> (
    None
):
    for entry in DUTIES:
        assert entry.keys() <= DUTY
        assert entry["level"] in ("must", "should"), entry
        assert entry["duty"].endswith("."), entry
        assert re.fullmatch(r"[\w%-]*", entry["section"]), entry
        assert entry["id"].startswith(f"{entry['page']}."), entry
    assert sorted(
        page for page, _ in groupby(entry["page"] for entry in DUTIES)
    ) == sorted(PAGES)


def test_the_pitfalls_stand_in_the_order_of_their_topics() -> None:
    topics = [int(entry["id"].partition(".")[0]) for entry in PITFALLS]
    assert topics == sorted(topics)
    assert set(topics) == set(range(1, TOPICS + 1))
    assert all(
        entry.keys() <= PITFALL and entry["claim"].strip().endswith(".")
        for entry in PITFALLS
    )


@pytest.mark.clients
def test_whatever_the_schema_demands_is_a_duty_here_or_one_of_clients() -> None:
    schema = npm_package("@agentclientprotocol/sdk") / "schema" / "v1" / "schema.json"
    listed = {place for entry in DUTIES for place in entry.get("schema", [])}
    assert not listed & MANIFEST["of_clients"].keys()
    assert (
        set(demands(json.loads(schema.read_text("utf-8")), ""))
        == listed | MANIFEST["of_clients"].keys()
    )


def test_the_page_counts_the_duties_as_they_are() -> None:
    counted = Counter((entry["page"], entry["level"]) for entry in DUTIES)
    rows = re.findall(
        r"^\| \[([\w-]+)\]\((\S+)\) \| (\d+) \| (\d+) \|$",
        DOCUMENT.read_text("utf-8"),
        re.MULTILINE,
    )
    assert [page for page, *_ in rows] == [
        page for page, _ in groupby(entry["page"] for entry in DUTIES)
    ]
    for page, address, must, should in rows:
        assert address == f"https://agentclientprotocol.com/protocol/v1/{page}"
        assert (int(must), int(should)) == (
            counted[page, "must"],
            counted[page, "should"],
        ), page
