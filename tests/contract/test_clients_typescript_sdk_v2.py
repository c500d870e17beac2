"""The agent with an editor of version 2, made of the official TypeScript SDK, which validates all that it receives."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import anyio

from support.models import Reply, ToolCall, model_server
from support.npm import npm_package
from support.repo import BUG, FIX, make_repo
from support.typescript import kinds, of, said, statuses, talk

TOLD = " The total is the sum of price and quantity." * 100
SUMMARY = ["## Goal and requirements\n", "`Cart.total` was repaired; prices are whole cents."]


async def test_a_session_from_its_first_line_to_its_deletion_is_one_that_the_sdk_accepts(tmp_path: Path) -> None:
    npm_package("@agentclientprotocol/sdk")
    repo = make_repo(tmp_path / "shop")
    never = anyio.Event()
    script = [
        Reply("I look first.", thinking="Where?", tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]),
        Reply(tool_calls=[ToolCall("edit", {"path": "shop/cart.py", "edits": [{"old_text": BUG, "new_text": FIX}]})]),
        Reply(["Repaired it.", TOLD]),
        Reply(tool_calls=[ToolCall("shell", {"command": "cp shop/cart.py kept.py; echo begun; sleep 60"})]),
        Reply("You stopped it."),
        Reply(["Well, ", "..."], hold=never, hold_after=1),
        Reply(SUMMARY),
        Reply("The total was repaired."),
        Reply("Nothing."),
    ]

    async with model_server(script) as server:
        facts = await talk("acp_client_v2.mjs", repo.path, server.env("openai"), tmp_path)
        after_replay, after_resume = (json.dumps(call.body["input"]) for call in server.calls[-2:])

    assert facts["problems"] == []
    assert facts["exitCode"] == 0
    assert "set in the environment" in facts["loggedOut"]
    phases: dict[str, list[dict[str, Any]]] = facts["phases"]

    # version 2, and a session that is open before anything is said in it
    assert facts["initialized"]["protocolVersion"] == 2
    assert facts["labels"][:5] == ["response"] * 4 + ["available_commands_update"]
    assert "compact" in [command["name"] for command in phases["opening"][0]["availableCommands"]]

    # a prompt with a tool that is asked for: answered when it is taken, told from its beginning to its end
    assert repo.run_tests().returncode == 0
    assert facts["edited"] == f"I look first.Repaired it.{TOLD}"
    [taken] = of(phases["edit"], "user_message")
    assert facts["edit"] == {"messageId": taken["messageId"]}
    edit, run = facts["permissions"]
    assert (edit["subject"]["type"], run["subject"]["type"]) == ("tool_call", "command")
    assert edit["subject"]["toolCall"]["content"][0]["changes"][0]["operation"] == "modify"
    assert states(phases["edit"]) == ["running", "requires_action", "running", "idle"]
    assert {"agent_thought_chunk", "session_info_update", "usage_update"} <= kinds(phases["edit"])
    assert statuses(phases["edit"]) == {"completed"}

    # a command in a terminal of the agent's, which the client ends; the turn goes on
    assert (facts["cancellable"], facts["stillCancellable"]) == (True, False)
    printed = [b64decode(update["data"]) for update in of(phases["command"], "terminal_output_chunk")]
    assert b"".join(printed) == b"begun\n"
    assert of(phases["command"], "terminal_update")[-1]["exitStatus"] == {"signal": "SIGTERM"}
    [copied] = of(phases["command"], "tool_call_content_chunk")
    [change] = copied["content"]["changes"]
    assert (change["operation"], Path(change["oldPath"]).name, Path(change["path"]).name) == (
        "copy",
        "cart.py",
        "kept.py",
    )
    assert phases["command"][-1]["stopReason"] == "end_turn"

    # a cancel, and what waits behind it
    assert facts["withdrawn"] == facts["waiting"] == {"code": -32800}
    assert facts["cancel"]["stopReason"] == "cancelled"
    assert [update["messageId"] for update in of(phases["cancel"], "user_message")] == [facts["taken"]["messageId"]]

    # settings
    modes = [each["currentValue"] for each in facts["option"]["configOptions"] if each["configId"] == "mode"]
    assert modes == ["plan"]
    assert kinds(phases["settings"]) >= {"config_option_update"}

    # compaction, and what is left of it in another process
    assert facts["compact"]["stopReason"] == "end_turn"
    begun, done = of(phases["compact"], "compaction_update")
    assert (begun["status"], done["status"]) == ("in_progress", "completed")
    assert done["summary"][0]["text"] == "".join(SUMMARY)
    [replayed] = of(phases["replay"], "compaction_update")
    assert (replayed["compactionId"], replayed["summary"]) == (done["compactionId"], done["summary"])
    answers = ["".join(block["text"] for block in each["content"]) for each in of(phases["replay"], "agent_message")]
    assert "I look first." in answers
    assert of(phases["replay"], "user_message")[0]["messageId"] == facts["edit"]["messageId"]
    assert "_chunk" not in "".join(kinds(phases["replay"]))
    assert states(phases["replay"])[:1] == ["idle"]
    assert facts["cursor"] == {"code": -32602}
    assert said(phases["after replay"]) == "The total was repaired."
    assert json.dumps("".join(SUMMARY))[1:-1] in after_replay
    assert "I look first." not in after_replay
    assert kinds(phases["resume"]) == {
        "state_update",
        "available_commands_update",
        "session_info_update",
        "usage_update",
    }
    assert said(phases["after resume"]) == "Nothing."
    assert "The total was repaired." in after_resume

    # the end
    assert facts["left"] == {"sessions": []}
    assert facts["resumedAfterDelete"] == {"code": -32002}


def states(updates: list[dict[str, Any]]) -> list[str]:
    """The states of the session, one after the other."""
    return [update["state"] for update in of(updates, "state_update")]
