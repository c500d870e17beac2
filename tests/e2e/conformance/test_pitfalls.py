"""The list of pitfalls beside this file: every claim names tests which exist, or says why it needs none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.manifests import check_tests, read_manifest

ENTRIES: list[dict[str, Any]] = read_manifest(Path(__file__).with_name("pitfalls.yaml"))
TOPICS = 29


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_a_claim_names_tests_that_exist_or_says_why_it_needs_none(entry: dict[str, Any]) -> None:
    assert entry.keys() <= {"id", "claim", "editors", "tests", "not_ours"}
    assert entry["claim"].strip().endswith(".")
    assert entry.get("editors") != []
    check_tests(entry)


def test_ids_are_unique_and_stand_in_the_order_of_their_topics() -> None:
    ids = [entry["id"] for entry in ENTRIES]
    assert len(ids) == len(set(ids))
    topics = [int(id.partition(".")[0]) for id in ids]
    assert topics == sorted(topics)
    assert set(topics) == set(range(1, TOPICS + 1))
