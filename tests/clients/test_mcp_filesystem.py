"""The first example of docs/mcp.md as written, with the npm server that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from support.checkout import REPOSITORY
from support.mcp import ready
from support.memory import stage
from support.npm import node, npm_package
from support.replies import Reply, ToolCall
from support.stage import results

PACKAGE = "@modelcontextprotocol/server-filesystem"
NOTE = "Buy a lamp. " * 1000


def example() -> dict[str, Any]:
    """Return the server `notes` from the page's first example."""
    page = (REPOSITORY / "docs" / "mcp.md").read_text("utf-8")
    block = re.search(r"```yaml config\n(.*?)```", page, re.DOTALL)
    assert block is not None
    return yaml.safe_load(block[1])["mcp_servers"]["notes"]


async def test_the_first_example_of_the_page_reads_its_own_folder_and_says_each_file_once(
    tmp_path: Path,
) -> None:
    entry = example()
    assert entry["args"][:2] == ["-y", PACKAGE]
    home = tmp_path / "someone"
    notes = home / "notes"
    notes.mkdir(parents=True)
    (notes / "a.txt").write_text(NOTE)
    program = str(npm_package(PACKAGE) / "dist" / "index.js")
    entry |= {"command": str(node()), "args": [program, *entry["args"][2:]]}
    calls = [
        ToolCall("mcp__notes__read_text_file", {"path": str(notes / "a.txt")}),
        ToolCall("mcp__notes__list_allowed_directories"),
    ]
    replies = (Reply(tool_calls=calls), Reply("Done."))
    config = {"mcp_servers": {"notes": entry}}
    async with stage(
        tmp_path, *replies, config=config, env={"HOME": str(home)}, mode="full-access"
    ) as it:
        await ready(it, "notes")
        assert await it.prompt() == {"stopReason": "end_turn"}
        read, listed = results(it.server.calls[1].body)
        assert read.text == NOTE
        assert str(notes) in listed.text
        assert str(it.folder) not in listed.text
        names = [each["name"] for each in it.server.calls[0].body["tools"]]
        assert "mcp__notes__read_text_file" in names
        assert "outputSchema" not in json.dumps(it.server.calls[0].body["tools"])
