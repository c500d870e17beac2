"""The page about security names a test for each line, and each of these exists."""

from __future__ import annotations

import re

from support.checkout import REPOSITORY
from support.pages import DOCS

PAGE = (DOCS / "security.md").read_text()
ROWS = [
    row
    for row in re.findall(r"^\| (.+) \|$", PAGE, re.MULTILINE)
    if not row.startswith(("-", "| ", "what "))
]


def test_every_line_of_the_threat_model_names_a_test_that_exists() -> None:
    sources = "\n".join(
        path.read_text() for path in (REPOSITORY / "tests").glob("[uec]*/**/test_*.py")
    )
    known = {*re.findall(r"^(?:async )?def (test_\w+)\(", sources, re.MULTILINE)}
    assert len(ROWS) > 30
    without = [
        row
        for row in ROWS
        if not re.findall(r"`test_\w+`", row) and not row.endswith("| no test")
    ]
    assert not without
    assert not {*re.findall(r"`(test_\w+)`", PAGE)} - known


def test_faults_are_reported_where_github_takes_them_in_private() -> None:
    page = (REPOSITORY / ".github" / "SECURITY.md").read_text()
    assert "Report a vulnerability" in page
    assert not re.search(r"\w@\w", page)  # no address that nobody reads
    for linked in ("docs/security.md", "docs/sandbox.md"):
        assert f"]({linked})" in (REPOSITORY / "README.md").read_text()
