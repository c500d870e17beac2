"""What the demo makes of what it measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from acp_agent.commands.demo.client import Observed
from acp_agent.commands.demo.scratch import TestRun as Outcome  # pytest would take the name for a test's
from acp_agent.commands.demo.story import Facts, checks, report
from acp_agent.commands.view import View
from support.paper import Paper

FACTS = Facts(Outcome(4, 1), Outcome(4, 0), Outcome(5, 0), full=4000, short=2000, resumed=2500, listed=True)
OBSERVED = Observed(compactions=["in_progress", "completed"])


@pytest.mark.parametrize(
    ("facts", "observed", "broken"),
    [
        ({}, {}, []),
        ({"before": Outcome(4, 0)}, {}, ["Tests"]),
        ({"mended": Outcome(4, 1)}, {}, ["Tests"]),
        ({"after": Outcome(4, 0)}, {}, ["Restart"]),
        ({"after": Outcome(5, 1)}, {}, ["Restart"]),
        ({"listed": False}, {}, ["Restart"]),
        ({"resumed": 4000}, {}, ["Restart"]),
        ({"short": 4000}, {}, ["Compaction"]),
        ({}, {"compactions": ["in_progress", "failed"]}, ["Compaction"]),
    ],
)
def test_a_demo_in_which_something_did_not_happen_fails_by_name(
    facts: dict[str, object], observed: dict[str, object], broken: list[str]
) -> None:
    found = [*checks(replace(FACTS, **facts), replace(OBSERVED, **observed))]
    assert [check.name for check in found if not check.kept] == broken
    for strict in (True, False):
        paper = Paper(100)
        assert report(View(paper, Path("/project"), {}), found, strict=strict) == (strict and bool(broken))
        assert all(name in paper.text.splitlines()[-1] for name in broken)
