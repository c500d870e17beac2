"""What the rules of `support.laws` call a problem."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from support.editors import ACPX, ZED, ZED_BETA, Editor
from support.laws import Laws
from support.lines import Line, parse

PLANS = replace(ZED, more={**ZED.more, "plan": {}})
CALL = {
    "sessionUpdate": "tool_call",
    "toolCallId": "t1",
    "title": "Edit a.py",
    "kind": "edit",
    "status": "pending",
}
RUNNING = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "t1",
    "status": "in_progress",
}
TEXT = {"type": "text", "text": "s"}
CHUNK = {"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": TEXT}
LATE = {
    "sessionUpdate": "compaction_summary_chunk",
    "compactionId": "c",
    "content": TEXT,
}
ITEMS = {
    "sessionUpdate": "plan_update",
    "plan": {"type": "items", "planId": "p", "entries": []},
}
SWITCH = {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": True}
SWITCHES = {"sessionUpdate": "config_option_update", "configOptions": [SWITCH]}
COMMANDS = {
    "sessionUpdate": "available_commands_update",
    "availableCommands": [{"name": "/x", "description": "d"}],
}
DIFF = {"type": "diff", "path": "a.py", "oldText": None, "newText": ""}
ASKED = {
    "toolCallId": "t1",
    "title": "Edit a.py",
    "kind": "edit",
    "rawInput": {"path": "a.py"},
}


class Talk:
    """A connection with a prompt that is being answered."""

    def __init__(self, editor: Editor = ZED) -> None:
        self._laws = Laws(editor)
        self._methods: dict[Any, str] = {}
        self.ask(1, "initialize", {})
        self.ask(2, "session/new", {"sessionId": "s1"})
        self.line(
            False,
            id=3,
            method="session/prompt",
            params={"sessionId": "s1", "prompt": []},
        )

    def ask(
        self, id: int, method: str, result: dict[str, Any] | None, **params: Any
    ) -> list[str]:
        self.line(False, id=id, method=method, params=params)
        return self.line(
            True,
            id=id,
            **(
                {"error": {"code": 1, "message": ""}}
                if result is None
                else {"result": result}
            ),
        )

    def line(self, received: bool, **message: Any) -> list[str]:
        raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
        [(parsed, kind)] = parse(raw)
        method = message.get("method", "") or self._methods.get(message.get("id"), "")
        self._methods.setdefault(message.get("id"), method)
        return self._laws.judge(Line(received, 0, 0, raw, parsed, kind, method))

    def updates(self, *updates: dict[str, Any], session: str = "s1") -> list[str]:
        told = [{"sessionId": session, "update": update} for update in updates]
        return [
            found
            for params in told
            for found in self.line(True, method="session/update", params=params)
        ]


def compaction(status: str, **more: Any) -> dict[str, Any]:
    return {
        "sessionUpdate": "compaction_update",
        "compactionId": "c",
        "status": status,
        **more,
    }


BEGIN = compaction("in_progress")
END = compaction("completed", summary=[TEXT])
FAILED = compaction("failed")


@pytest.mark.parametrize(
    ("editor", "updates", "problem"),
    [
        (ZED, [CHUNK | {"messageId": None}], "without messageId"),
        (ZED, [RUNNING | {"toolCallId": "t9"}], "not announced"),
        (ZED, [BEGIN], "advertise"),
        (ZED, [CALL | {"title": "two\nlines"}], "more than one line"),
        (ZED, [CALL | {"locations": [{"path": "a.py"}]}], "not absolute"),
        (ZED, [CALL | {"content": [DIFF]}], "not absolute"),
        (
            ZED,
            [CALL | {"content": [{"type": "terminal", "terminalId": "x"}]}],
            "not in progress",
        ),
        (ZED, [COMMANDS], "has a slash"),
        (ZED, [ITEMS], "advertise plan"),
        (PLANS, [ITEMS], ""),
        (PLANS, [{"sessionUpdate": "plan", "entries": []}], "plan_update"),
        (ACPX, [SWITCHES], "did not advertise"),
        (ZED, [SWITCHES], ""),
        (ZED_BETA, [BEGIN, LATE, END], ""),
        (
            ZED_BETA,
            [BEGIN, END, LATE],
            "a summary chunk of a compaction that is completed",
        ),
        (ZED_BETA, [BEGIN, END, FAILED], "was completed gets failed"),
        (ZED_BETA, [END], "begins with completed"),
    ],
)
def test_what_breaks_editors_is_a_problem(
    editor: Editor, updates: list[dict[str, Any]], problem: str
) -> None:
    problems = Talk(editor).updates(*updates)
    assert len(problems) == bool(problem)
    assert problem in "".join(problems)


def test_a_chunk_is_shown_in_a_turn_of_a_session_that_is_open() -> None:
    talk = Talk()
    assert "does not know the session" in talk.updates(CHUNK, session="other")[0]
    talk.ask(4, "session/load", None, sessionId="gone")
    assert "does not know the session" in talk.updates(CHUNK, session="gone")[0]
    talk.line(False, id=5, method="session/load", params={"sessionId": "s7"})
    assert talk.updates(CHUNK, session="s7") == []
    talk.line(True, id=3, result={"stopReason": "end_turn"})
    assert "outside a turn" in talk.updates(CHUNK)[0]


def test_permission_is_asked_only_while_the_call_is_pending() -> None:
    ask = {
        "sessionId": "s1",
        "toolCall": ASKED,
        "options": [{"kind": "allow_once"}, {"kind": "reject_once"}],
    }
    talk = Talk()
    assert (
        talk.updates(CALL)
        == talk.line(True, id=1, method="session/request_permission", params=ask)
        == []
    )
    talk.updates(RUNNING)
    assert (
        "not pending"
        in talk.line(True, id=2, method="session/request_permission", params=ask)[0]
    )


def test_a_request_is_for_editors_that_know_it() -> None:
    form = {"sessionId": "s1", "mode": "form", "message": "Who?"}
    for editor, count in ((ACPX, 1), (ZED, 0)):
        assert (
            len(Talk(editor).line(True, id=1, method="elicitation/create", params=form))
            == count
        )
    for method, params in (
        ("mcp/message", {"serverId": "s"}),
        ("auth/status_update", {"state": "unknown"}),
    ):
        assert len(Talk().line(True, method=method, params=params)) == 1
