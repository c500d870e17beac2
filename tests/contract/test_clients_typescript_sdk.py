"""The agent with an editor made of the official TypeScript SDK, which validates all that it receives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from support.models import Reply, ToolCall, model_server
from support.npm import npm_package
from support.repo import BUG, FIX, make_repo
from support.typescript import kinds, said, statuses, talk

TOLD = " The total is the sum of price and quantity." * 100
SUMMARY = ["## Goal and requirements\n", "`Cart.total` was repaired; prices are whole cents."]


async def test_a_session_from_its_first_line_to_its_deletion_is_one_that_the_sdk_accepts(tmp_path: Path) -> None:
    npm_package("@agentclientprotocol/sdk")
    repo = make_repo(tmp_path / "shop")
    never = anyio.Event()
    options = [{"label": "Cents"}, {"label": "Euros", "description": "with a comma"}]
    ask = ToolCall("ask_user", {"questions": [{"question": "In what?", "options": options}]})
    script = [
        Reply("I look first.", thinking="Where?", tool_calls=[ToolCall("read", {"path": "shop/cart.py"}), ask]),
        Reply(tool_calls=[ToolCall("edit", {"path": "shop/cart.py", "edits": [{"old_text": BUG, "new_text": FIX}]})]),
        Reply(["Repaired it.", TOLD]),
        Reply(["Well, ", "..."], hold=never, hold_after=1),
        Reply(["Hm, ", "..."], hold=never, hold_after=1),
        Reply(SUMMARY),
        Reply("The total was repaired."),
        Reply("Nothing."),
    ]

    async with model_server(script) as server:
        facts = await talk("acp_client.mjs", repo.path, server.env(), tmp_path)
        after_form = json.dumps(server.calls[1].body["messages"], ensure_ascii=False)
        after_load, after_resume = (json.dumps(call.body["messages"]) for call in server.calls[-2:])

    assert facts["problems"] == []
    assert facts["exitCode"] == 0
    phases: dict[str, list[dict[str, Any]]] = facts["phases"]
    session = facts["opened"]["sessionId"]

    # the session is open before anything is said in it
    assert facts["labels"][:3] == ["response", "response", "available_commands_update"]
    assert "compact" in [command["name"] for command in phases["opening"][0]["availableCommands"]]

    # a prompt with tools that go through the editor
    assert facts["edit"] == {"stopReason": "end_turn"}
    assert repo.run_tests().returncode == 0
    assert set(facts["reads"]) == set(facts["writes"]) == {str(repo.program)}
    [asked] = facts["permissions"]
    assert (asked["sessionId"], asked["toolCall"]["kind"]) == (session, "edit")
    [form] = facts["forms"]
    assert (form["sessionId"], form["message"]) == (session, "In what?")
    assert "→ Euros" in after_form
    assert said(phases["edit"]) == f"I look first.\n\nRepaired it.{TOLD}"
    assert {"agent_thought_chunk", "session_info_update", "usage_update"} <= kinds(phases["edit"])
    assert statuses(phases["edit"]) == {"completed"}

    # both ways to stop a turn
    assert facts["cancel"] == {"stopReason": "cancelled"}
    assert facts["withdraw"] == {"code": -32800}

    # settings
    assert [option["currentValue"] for option in facts["option"]["configOptions"] if option["id"] == "mode"] == ["plan"]
    modes = [update["currentModeId"] for update in phases["settings"] if "currentModeId" in update]
    assert modes == ["accept-edits", "plan"]

    # compaction, and what is left of it in another process
    assert facts["compact"] == {"stopReason": "end_turn"}
    begun, done = (update for update in phases["compact"] if update["sessionUpdate"] == "compaction_update")
    assert (begun["status"], done["status"]) == ("in_progress", "completed")
    assert done["summary"][0]["text"] == "".join(SUMMARY)
    assert [listed["sessionId"] for listed in facts["listed"]["sessions"]] == [session]
    [replayed] = [update for update in phases["load"] if update["sessionUpdate"] == "compaction_update"]
    assert (replayed["compactionId"], replayed["summary"]) == (done["compactionId"], done["summary"])
    assert "I look first." in said(phases["load"])
    assert {"user_message_chunk", "tool_call"} <= kinds(phases["load"])
    assert statuses(phases["load"]) == {"completed"}
    assert facts["loaded"]["modes"]["currentModeId"] == "plan"
    assert said(phases["after load"]) == "The total was repaired."
    assert json.dumps("".join(SUMMARY))[1:-1] in after_load
    assert "I look first." not in after_load
    assert kinds(phases["resume"]) == {"available_commands_update", "session_info_update", "usage_update"}
    assert facts["resumed"]["modes"]["currentModeId"] == "plan"
    assert said(phases["after resume"]) == "Nothing."
    assert "The total was repaired." in after_resume

    # the end
    assert facts["left"] == {"sessions": []}
    assert facts["loadedAfterDelete"] == -32002
