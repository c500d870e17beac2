"""The list of duties beside this file: each has its page and its tests, and none of the schema's is forgotten."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from support.checkout import REPOSITORY
from support.manifests import check_tests, read_manifest
from support.npm import npm_package

MANIFEST: dict[str, Any] = read_manifest(Path(__file__).with_name("duties.yaml"))
DUTIES: list[dict[str, Any]] = MANIFEST["duties"]
KEYS = {"id", "duty", "level", "page", "section", "schema", "tests", "note", "not_ours"}
PAGES = {
    "agent-plan",
    "authentication",
    "cancellation",
    "content",
    "elicitation",
    "extensibility",
    "file-system",
    "initialization",
    "overview",
    "prompt-turn",
    "schema",
    "session-config-options",
    "session-delete",
    "session-list",
    "session-setup",
    "terminals",
    "tool-calls",
    "transports",
}
"""Those which say of an agent what it must or should do."""
DEMAND = re.compile(r"\b(?:MUST|SHOULD|SHALL|REQUIRED)\b")
DOCUMENT = REPOSITORY / "docs" / "conformance.md"


def demands(value: Any, place: str) -> Iterator[str]:
    """Where the descriptions of a schema demand something."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from demands(item, f"{place}[{index}]")
    if not isinstance(value, dict):
        return
    description = value.get("description")
    if isinstance(description, str) and DEMAND.search(description):
        yield "_meta" if place.endswith("/_meta") else place.removeprefix("/").removeprefix("$defs/")
    for key, below in value.items():
        yield from demands(below, f"{place}/{key}")


@pytest.mark.parametrize("entry", DUTIES, ids=lambda entry: entry["id"])
def test_a_duty_has_its_place_in_the_protocol_and_tests_that_exist(entry: dict[str, Any]) -> None:
    assert entry.keys() <= KEYS
    assert entry["duty"].endswith(".")
    assert entry["level"] in ("must", "should")
    assert entry["page"] in PAGES
    assert re.fullmatch(r"[\w%-]*", entry["section"])
    assert entry["id"].startswith(f"{entry['page']}.")
    check_tests(entry)


def test_every_page_that_asks_something_of_an_agent_has_its_duties_in_one_place() -> None:
    ids = [entry["id"] for entry in DUTIES]
    assert len(ids) == len(set(ids))
    pages = [page for page, _ in groupby(entry["page"] for entry in DUTIES)]
    assert sorted(pages) == sorted(PAGES)


def test_whatever_the_schema_demands_is_a_duty_here_or_one_of_clients() -> None:
    schema = npm_package("@agentclientprotocol/sdk") / "schema" / "v1" / "schema.json"
    listed = {place for entry in DUTIES for place in entry.get("schema", [])}
    assert not listed & MANIFEST["of_clients"].keys()
    assert set(demands(json.loads(schema.read_text("utf-8")), "")) == listed | MANIFEST["of_clients"].keys()


def test_the_page_counts_the_duties_as_they_are() -> None:
    counted = Counter((entry["page"], entry["level"]) for entry in DUTIES)
    rows = re.findall(r"^\| \[([\w-]+)\]\((\S+)\) \| (\d+) \| (\d+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert [page for page, *_ in rows] == [page for page, _ in groupby(entry["page"] for entry in DUTIES)]
    for page, address, must, should in rows:
        assert address == f"https://agentclientprotocol.com/protocol/v1/{page}"
        assert (int(must), int(should)) == (counted[page, "must"], counted[page, "should"]), page
