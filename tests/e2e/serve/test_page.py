"""What docs/serving.md says is what there is."""

from __future__ import annotations

import re

from acp_agent.server import web
from support.checkout import REPOSITORY

PAGE = (REPOSITORY / "docs" / "serving.md").read_text()
CODE = REPOSITORY / "acp_agent" / "server" / "web.py"


def test_the_page_names_every_status_that_there_is() -> None:
    code = CODE.read_text()
    statuses = {
        int(found)
        for found in re.findall(r"\b4\d\d\b|\b503\b", code.replace("4096", ""))
    }
    rows = {int(found) for found in re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)}
    assert rows == statuses == {401, 403, 404, 421, 426, 503}
    assert f"`GET {web.PATH}`" in PAGE
    assert f"`GET {web.MARIMO_PATH}`" in PAGE
