"""What docs/serving.md says is what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from acp_agent.commands.tokens import MIN_CHARACTERS, VARIABLE
from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from acp_agent.server.web import answer, clients, endpoint, guests, listener, room, streams
from support.checkout import REPOSITORY
from support.remote import GREETING, serving

PAGE = (REPOSITORY / "docs" / "serving.md").read_text()
ROOM = REPOSITORY / "acp_agent" / "server" / "web"


def test_the_page_names_every_status_and_header_that_there_is() -> None:
    code = "".join(path.read_text() for path in ROOM.glob("*.py"))
    statuses = {int(found) for found in re.findall(r"\b(?:Refusal|answer\.\w+)\(\s*(\d{3}),?", code)}
    assert {200, 202, 400, 401, 404, 501} < statuses
    assert {status for status in statuses if not re.search(rf"\b{status}\b", PAGE)} == set()
    rows = {int(found) for found in re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)}
    assert rows == {status for status in statuses if status >= 400}
    for header in (endpoint.CONNECTION_ID, endpoint.SESSION_ID):
        assert f"`{header.title()}`" in PAGE
    assert f"`{endpoint.PATH}`" in PAGE


def test_the_numbers_on_the_page_are_those_that_count() -> None:
    said = {
        f"{MAX_LINE_BYTES >> 20} MiB": 2,
        f"{streams.MAX_WAITING_BYTES >> 20} MiB for a connection": 1,
        f"{clients.MAX_CLIENTS}": 2,
        f"{room.MAX_BYTES >> 20} MiB at a time": 1,
        f"The last {room.FOR_SMALL_ONES >> 20} MiB": 1,
        f"at most {room.SMALL_BYTES >> 20} MiB": 1,
        f"for {clients.PATIENCE_SECONDS:g} seconds": 1,
        f"after {answer.KEEP_ALIVE_SECONDS:g} seconds": 1,
        f"{guests.MAX_CONNECTIONS:,} connections": 1,
        f"for {answer.STALL_SECONDS:g} seconds": 1,
        f"within {listener.IDLE_SECONDS:g} seconds": 1,
        f"Every {listener.PING_SECONDS:g} seconds": 1,
        f"comes for {listener.SILENT_SECONDS:g} seconds": 1,
        f"TCP connection for {listener.SILENT_SECONDS:g} seconds": 1,
        f"not end {answer.LINGER_SECONDS:g} seconds later": 1,
        f"at least {MIN_CHARACTERS} characters": 1,
        f"`{VARIABLE}`": 1,
    }
    assert {text: PAGE.count(text) >= times for text, times in said.items()} == dict.fromkeys(said, True)


async def test_the_command_line_on_the_page_serves(tmp_path: Path) -> None:
    [line] = re.findall(r"^acp-agent serve .*$", PAGE, re.MULTILINE)
    words = shlex.split(line.replace(":8123", ":0"))[2:]
    async with serving(tmp_path, *words) as served:
        assert (await served.post(GREETING)).status_code == 200
