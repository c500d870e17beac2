"""Permission: which mode asks for what, how it is asked, and what counts as consent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError
from support.editors import CODECOMPANION, ZED, ZED_BETA, Editor
from support.replies import Reply, ToolCall
from support.stage import Stage, results, stage

OUTSIDE = "../outside.txt"
CALLS = {
    "read": ToolCall("read", {"path": "a.txt"}),
    "read outside": ToolCall("read", {"path": OUTSIDE}),
    "write": ToolCall("write", {"path": "b.txt", "content": "b\n"}),
    "write outside": ToolCall("write", {"path": "../made.txt", "content": "b\n"}),
    "shell": ToolCall("shell", {"command": "echo x > shell.txt"}),
    "plan": ToolCall("plan", {"entries": [{"content": "First", "status": "in_progress"}, {"content": "Then"}]}),
    "grep": ToolCall("grep", {"pattern": "one"}),
}
QUESTION = ToolCall("ask_user", {"questions": [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]})
NOT_RUN = "The user cancelled this call before it ran. It had no effect."
FREE, ASKED, DENIED = "free", "asked", "denied"
MATRIX = {
    "ask": [FREE, ASKED, ASKED, ASKED, ASKED, FREE, FREE],
    "accept-edits": [FREE, ASKED, FREE, ASKED, ASKED, FREE, FREE],
    "plan": [FREE, ASKED, DENIED, DENIED, DENIED, FREE, FREE],
    "full-access": [FREE] * 7,
}


def one_by_one(*calls: ToolCall) -> list[Reply]:
    return [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]


def asked_for(it: Stage) -> list[str]:
    return [params["toolCall"]["toolCallId"] for params in it.agent.desk.permissions]


@pytest.mark.parametrize("mode", MATRIX)
async def test_each_mode_asks_for_what_it_must_and_for_nothing_else(tmp_path: Path, mode: str) -> None:
    (tmp_path / "outside.txt").write_text("outside\n")
    without = {"sandbox": {"commands": "off"}}
    async with stage(tmp_path, *one_by_one(*CALLS.values()), mode=mode, config=without) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        asked = asked_for(it)
        # A plan is shown as a plan, and not as a call.
        [plan] = it.agent.updates(kind="plan")
        assert len(plan["entries"]) == 2
        calls = [name for name in CALLS if name != "plan"]
        found = {
            name: ASKED if call["toolCallId"] in asked else FREE if call["status"] == "completed" else DENIED
            for name, call in zip(calls, it.calls(), strict=True)
        }
        assert {**found, "plan": FREE} == dict(zip(CALLS, MATRIX[mode], strict=True))
        made = {name for name in ("b.txt", "shell.txt", "../made.txt") if (it.folder / name).exists()}
        assert made == (set() if mode == "plan" else {"b.txt", "shell.txt", "../made.txt"})
        # A call that was denied never looked as if it ran.
        for name, call in zip(calls, it.calls(), strict=True):
            expected = ["pending", "failed"] if found[name] == DENIED else ["pending", "in_progress", "completed"]
            assert it.statuses(call["toolCallId"]) == expected


async def test_a_link_that_leads_out_of_the_project_is_outside(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outside\n")
    calls = [ToolCall("read", {"path": "link.txt"}), ToolCall("read", {"path": "down/outside.txt"})]
    async with stage(tmp_path, *one_by_one(*calls)) as it:
        (it.folder / "link.txt").symlink_to(tmp_path / "outside.txt")
        (it.folder / "down").symlink_to(tmp_path)
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert len(asked_for(it)) == 2
        assert [call["status"] for call in it.calls()] == ["failed", "failed"]
        assert "outside\n" not in str([call.body for call in it.server.calls])
        real = tmp_path / "outside.txt"
        titles = [params["toolCall"]["title"] for params in it.agent.desk.permissions]
        assert titles == [f"Read link.txt (leads to {real})", f"Read down/outside.txt (leads to {real})"]


async def test_it_is_asked_while_the_call_is_pending_with_all_that_a_person_needs(tmp_path: Path) -> None:
    command = "echo " + "very long words and\ttabs " * 40 + "\necho second line"
    async with stage(tmp_path, *one_by_one(ToolCall("shell", {"command": command}))) as it:
        it.agent.permission_hold = hold = anyio.Event()
        handle = await it.agent.start_prompt(it.session, "Run it")
        line = await it.line("session/request_permission")
        assert it.statuses(line.params["toolCall"]["toolCallId"]) == ["pending"]
        assert line.params["sessionId"] == it.session
        call = line.params["toolCall"]
        assert call["kind"] == "execute"
        assert call["rawInput"] == {"command": command}
        assert call["title"].startswith("echo very long")
        assert "\n" not in call["title"]
        options = line.params["options"]
        assert [option["kind"] for option in options] == ["allow_once", "allow_always", "reject_once"]
        assert len({option["optionId"] for option in options}) == 3
        for option in options:
            assert len(option["name"]) < 70
            assert "\n" not in option["name"]
        hold.set()
        assert await handle.result() == {"stopReason": "end_turn"}
        assert it.statuses(call["toolCallId"]) == ["pending", "in_progress", "completed"]


async def test_once_holds_once(tmp_path: Path) -> None:
    call = ToolCall("shell", {"command": "echo 1"})
    async with stage(tmp_path, *one_by_one(call, call)) as it:
        await it.prompt()
        assert len(asked_for(it)) == 2


REPLY = Reply(tool_calls=[CALLS["shell"]])
NO_CONSENT: dict[str, Any] = {
    "reject": {"outcome": {"outcome": "selected", "optionId": "reject_once"}},
}
NOT_ASKED: dict[str, tuple[Any, str]] = {
    "unknown option": ({"outcome": {"outcome": "selected", "optionId": "ALLOW"}}, "'ALLOW', which it was not offered."),
    "option null": ({"outcome": {"outcome": "selected", "optionId": None}}, "outcome.optionId must be a string."),
    "unknown outcome": ({"outcome": {"outcome": "allowed"}}, "outcome.outcome is 'allowed'"),
    "no outcome": ({}, "outcome is missing."),
    "null": (None, "outcome is missing."),
    "text": ("allow_once", "the result must be an object."),
    "error": (AgentError(-32603, "Internal error"), "Internal error."),
    "unknown method": (AgentError(-32601, "Method not found"), "Method not found."),
}


async def test_only_a_selected_allow_option_is_consent_and_the_turn_goes_on_without(tmp_path: Path) -> None:
    async with stage(
        tmp_path, script=lambda body: Reply("Done.") if results(body) else REPLY, dialect="anthropic"
    ) as it:
        refused = {name: (answer, "did not allow") for name, answer in NO_CONSENT.items()}
        for name, (answer, said) in (refused | NOT_ASKED).items():

            async def handler(params: Mapping[str, Any], answer: Any = answer) -> Any:
                if isinstance(answer, AgentError):
                    raise answer
                return answer

            it.agent.handlers["session/request_permission"] = handler
            assert await it.prompt(name) == {"stopReason": "end_turn"}
            [result] = results(it.server.calls[-1].body)
            assert result.is_error, name
            assert said in result.text, name
            assert ("could not be asked, so nothing was done" in result.text) == (name in NOT_ASKED), name
            assert not (it.folder / "shell.txt").exists(), name
        assert {call["status"] for call in it.calls()} == {"failed"}
        assert it.agent.stderr == ""


@pytest.mark.parametrize("editor", [ZED, CODECOMPANION], ids=["zed", "codecompanion"])
async def test_the_outcome_cancelled_ends_the_turn_and_no_further_call_runs(tmp_path: Path, editor: Editor) -> None:
    replies = [Reply(tool_calls=[CALLS["shell"], CALLS["write"], CALLS["read"]]), Reply("Later.")]
    async with stage(tmp_path, *replies, editor=editor, dialect="anthropic") as it:
        it.agent.permission_answer = "cancelled"
        assert await it.prompt() == {"stopReason": "cancelled"}
        assert [call["status"] for call in it.calls()] == ["failed"] * 3
        assert len(asked_for(it)) == 1
        assert sorted(path.name for path in it.folder.iterdir()) == ["a.txt"]
        assert await it.prompt("Next") == {"stopReason": "end_turn"}
        returned = results(it.server.calls[1].body)
        assert [(result.is_error, result.text) for result in returned] == [(True, NOT_RUN)] * 3


async def test_a_cancel_while_it_is_asked_ends_the_turn_and_takes_the_question_back(tmp_path: Path) -> None:
    async with stage(tmp_path, REPLY, Reply("Later.")) as it:
        it.agent.permission_hold = anyio.Event()
        handle = await it.agent.start_prompt(it.session, "Work")
        question = await it.line("session/request_permission")
        # A client that does not answer the question either.
        await it.agent.notify("session/cancel", {"sessionId": it.session})
        assert await handle.result() == {"stopReason": "cancelled"}
        taken_back = await it.line("$/cancel_request")
        assert taken_back.params["requestId"] == question.message["id"]
        assert [call["status"] for call in it.calls()] == ["failed"]
        assert await it.prompt("Next") == {"stopReason": "end_turn"}
        assert [result.text for result in results(it.server.calls[1].body)] == [NOT_RUN]


@pytest.mark.process
@pytest.mark.parametrize("asks", [CALLS["write"], QUESTION], ids=["permission", "form"])
async def test_an_editor_that_goes_while_something_is_asked_has_cancelled_the_turn(
    tmp_path: Path, asks: ToolCall
) -> None:
    async with stage(tmp_path, Reply(tool_calls=[asks]), Reply("Later."), editor=ZED_BETA, laws=False) as it:
        it.agent.permission_hold = anyio.Event()

        async def never(params: Mapping[str, Any]) -> Any:
            await anyio.sleep_forever()

        it.agent.handlers["elicitation/create"] = never
        await it.agent.start_prompt(it.session, "Work")
        await it.line("session/request_permission" if asks is CALLS["write"] else "elicitation/create")
        await it.agent.close_stdin()
        assert await it.agent.wait_exit() == 0
        assert "Traceback" not in "".join(log.read_text() for log in tmp_path.rglob("*.log"))
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.agent.prompt(it.session, "Next") == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert "cancelled" in result.text


async def test_the_mode_that_is_set_while_it_is_asked_counts_for_that_call_as_well(tmp_path: Path) -> None:
    async with stage(tmp_path, *one_by_one(CALLS["shell"], CALLS["write"])) as it:
        it.agent.permission_hold = hold = anyio.Event()
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.line("session/request_permission")
        await it.agent.set_mode(it.session, "plan")
        hold.set()
        assert await handle.result() == {"stopReason": "end_turn"}
        assert [call["status"] for call in it.calls()] == ["failed", "failed"]
        assert len(asked_for(it)) == 1
        for call in it.server.calls[1:]:
            assert "may not run in plan mode" in results(call.body)[-1].text
        assert not (it.folder / "shell.txt").exists()
