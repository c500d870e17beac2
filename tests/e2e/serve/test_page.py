"""What docs/serving.md says is what there is."""

from __future__ import annotations

import re

from acp_agent.cli.serve import MIN_CHARACTERS, VARIABLE
from acp_agent.jsonrpc.transport import MAX_LINE_BYTES
from acp_agent.server.web import listener, websocket
from support.checkout import REPOSITORY

PAGE = (REPOSITORY / "docs" / "serving.md").read_text()
ROOM = REPOSITORY / "acp_agent" / "server" / "web"


def test_the_page_names_every_status_that_there_is() -> None:
    code = "".join(path.read_text() for path in ROOM.glob("*.py"))
    statuses = {int(found) for found in re.findall(r"\b4\d\d\b|\b503\b", code.replace("4096", ""))}
    rows = {int(found) for found in re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)}
    assert rows == statuses == {401, 403, 404, 421, 426, 503}
    assert f"`GET {websocket.PATH}`" in PAGE
    assert f"`GET {websocket.MARIMO_PATH}`" in PAGE


def test_the_numbers_on_the_page_are_those_that_count() -> None:
    said = (
        f"Up to {websocket.MAX_CLIENTS} clients",
        f"more than {MAX_LINE_BYTES >> 20} MiB",
        f"a ping every {listener.PING_SECONDS}",
        f"has come for {listener.SILENT_SECONDS} seconds",
        f"within {listener.OPENING_SECONDS} seconds",
        f"{listener.MAX_CONNECTIONS} connections",
        f"at least {MIN_CHARACTERS} characters",
        f"`{VARIABLE}`",
    )
    assert [text for text in said if text not in PAGE] == []
