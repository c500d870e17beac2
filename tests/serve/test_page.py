"""What docs/serving.md says is what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from websockets.asyncio.client import connect

from acp_agent.commands.tokens import MIN_CHARACTERS, VARIABLE
from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from acp_agent.server.web import listener, websocket
from support.checkout import REPOSITORY
from support.remote import GREETING, serving

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
        f"up to {websocket.MAX_CLIENTS}",
        f"more than {MAX_LINE_BYTES >> 20} MiB",
        f"Every {listener.PING_SECONDS} seconds",
        f"comes for {listener.SILENT_SECONDS} seconds",
        f"takes nothing for {listener.SILENT_SECONDS} seconds",
        f"within {listener.OPENING_SECONDS} seconds",
        f"{listener.MAX_CONNECTIONS} connections",
        f"at least {MIN_CHARACTERS} characters",
        f"`{VARIABLE}`",
    )
    assert [text for text in said if text not in PAGE] == []


async def test_the_command_line_on_the_page_serves(tmp_path: Path) -> None:
    [line] = re.findall(r"^acp-agent serve .*$", PAGE, re.MULTILINE)
    words = shlex.split(line.replace(":8123", ":0"))[2:]
    async with serving(tmp_path, *words) as served, connect(served.url()) as client:
        await client.send(json.dumps(GREETING))
        assert "result" in json.loads(await client.recv())
