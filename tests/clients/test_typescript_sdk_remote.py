"""The agent, serving over WebSocket, with the client that the official TypeScript SDK
has for it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio

from support.models import Reply, ToolCall, model_server
from support.npm import NPM_FOLDER, newer_node, npm_package
from support.remote import serving

LONG = "The total is the sum of price and quantity. " * 200
TOKEN = "a-token-that-nobody-guesses"


async def test_the_sdks_client_works_through_a_session_and_goes_on_with_it_on_another_connection(
    tmp_path: Path,
) -> None:
    npm_package("@agentclientprotocol/sdk")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    edit = ToolCall(
        "edit", {"path": "a.txt", "edits": [{"old_text": "one", "new_text": "two"}]}
    )
    script = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]),
        Reply(tool_calls=[edit]),
        Reply(["Changed it. ", LONG]),
        Reply(["Well, ", "..."], hold=anyio.Event(), hold_after=1),
        Reply("## Goal\nThe file says two."),
        Reply("It says two."),
        Reply("Yes."),
    ]
    async with (
        model_server(script, "openai") as server,
        serving(tmp_path / "home", env=server.env(), token=TOKEN) as served,
    ):
        program = [newer_node(), NPM_FOLDER / "acp_client_remote.mjs"]
        with anyio.fail_after(50):
            done = await anyio.run_process(
                [*program, served.url(), str(folder)],
                env={"PATH": os.environ.get("PATH", os.defpath), "TOKEN": TOKEN},
                check=False,
            )
    assert done.returncode == 0, done.stderr.decode()
    facts = json.loads(done.stdout)
    assert facts["problems"] == []
    assert facts["initialized"]["protocolVersion"] == 1
    assert (facts["edit"], facts["permissions"]) == (
        {"stopReason": "end_turn"},
        ["edit"],
    )
    assert facts["said"] == f"Changed it. {LONG}"
    assert (folder / "a.txt").read_text() == "two\n"
    assert facts["cancel"] == {"stopReason": "cancelled"}
    assert (facts["compact"], facts["compaction"]) == (
        {"stopReason": "end_turn"},
        "completed",
    )
    assert facts["listed"] == [facts["session"]]
    assert "Changed it." in facts["replayed"]
    assert (facts["again"], facts["more"]) == (
        {"stopReason": "end_turn"},
        "It says two.",
    )
    assert facts["mistaken"] == {
        "session/load": -32002,
        "session/resume": -32002,
        "session/prompt": -32002,
    }
    assert facts["after"] == {"stopReason": "end_turn"}
