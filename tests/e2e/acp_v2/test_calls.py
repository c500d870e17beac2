"""Tool calls in version 2: upserts, structured diffs, terminals of the agent's own, and
what is asked of the user.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from support.memory import second_agent
from support.models import Reply, ToolCall, model_server
from support.repo import BUG, FIX, make_repo

SLOW = "printf 'begun\\n'; sleep 60"


async def test_a_change_is_asked_for_and_shown_as_a_structured_diff_with_a_patch(
    tmp_path: Path,
) -> None:
    repo = make_repo(tmp_path / "shop")
    edit = ToolCall(
        "edit", {"path": "shop/cart.py", "edits": [{"old_text": BUG, "new_text": FIX}]}
    )
    write = ToolCall("write", {"path": "new.txt", "content": "one\ntwo"})
    read = ToolCall("read", {"path": "shop/cart.py"})
    replies = [
        Reply(tool_calls=[read]),
        Reply(tool_calls=[edit, write]),
        Reply("Done."),
    ]
    before = repo.program.read_text()
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(repo.path)
        assert (await it.answer(session, "Repair it"))["stopReason"] == "end_turn"
        calls = {call["name"]: call for call in it.calls().values()}
        assert {name: call["status"] for name, call in calls.items()} == dict.fromkeys(
            calls, "completed"
        )
        assert calls["read"]["locations"] == [{"path": str(repo.program), "line": 1}]

        [diff] = calls["edit"]["content"]
        assert diff["changes"] == [
            {"operation": "modify", "path": str(repo.program), "fileType": "text"}
        ]
        [added] = calls["write"]["content"]
        assert [change["operation"] for change in added["changes"]] == ["add"]

        # what was asked for is what was done, and while it was asked for the session
        # waited
        asked = it.agent.desk.permissions
        assert [each["subject"]["type"] for each in asked] == ["tool_call"] * 2
        assert asked[0]["subject"]["toolCall"]["content"] == [diff]
        [place] = asked[0]["subject"]["toolCall"]["locations"]
        assert place == {
            "path": str(repo.program),
            "line": before[: before.index(BUG)].count("\n") + 1,
        }
        assert asked[0]["title"] == "Edit shop/cart.py"
        assert [option["kind"] for option in asked[0]["options"]] == [
            "allow_once",
            "allow_always",
            "reject_once",
        ]
        wait = ["requires_action", "running"]
        assert it.states(session) == ["running", *wait, *wait, "idle"]

    # the patches are ones that git applies, but for the place
    repo.program.write_text(before)
    (repo.path / "new.txt").unlink()
    for item in (diff, added):
        assert item["patch"]["format"] == "git_patch"
        patch = item["patch"]["text"].replace(f"{repo.path}/", "")
        repo.git("apply", "-p0", "-", stdin=patch)
    assert repo.run_tests().returncode == 0
    assert (repo.path / "new.txt").read_text() == "one\ntwo"


async def test_a_command_is_asked_for_as_such_and_runs_in_a_terminal_of_the_agents(
    tmp_path: Path,
) -> None:
    (tmp_path / "below").mkdir()
    command = "printf 'h\\303\\251\\n'; printf oops >&2; exit 3"
    call = ToolCall("shell", {"command": command, "cwd": "./other/../below"})
    async with (
        model_server([Reply(tool_calls=[call]), Reply("Failed.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        await it.answer(session, "Run it")
        [(call_id, shown)] = it.calls().items()
        [asked] = it.agent.desk.permissions
        place = str(tmp_path / "below")
        assert asked["subject"] == {
            "type": "command",
            "command": command,
            "cwd": place,
            "toolCallId": call_id,
        }
        [(terminal_id, terminal)] = it.terminals().items()
        assert shown["content"] == [{"type": "terminal", "terminalId": terminal_id}]
        assert (terminal["command"], terminal["cwd"], terminal["exitStatus"]) == (
            command,
            place,
            {"exitCode": 3},
        )
        assert sorted(terminal["bytes"].decode()) == sorted("hé\noops")
        assert (shown["status"], shown["rawOutput"]["exitCode"]) == ("failed", 3)
        # nothing that has ended can be cancelled
        assert "capabilities" not in shown
        assert "capabilities" not in terminal
        assert "terminal_output_chunk" in [
            update["sessionUpdate"] for update in it.agent.updates()
        ]
        assert "exit status: 3" in str(server.calls[-1].body)


async def test_the_end_of_a_turn_ends_its_command_its_call_and_what_is_asked(
    tmp_path: Path,
) -> None:
    command = ToolCall("shell", {"command": SLOW})
    later = ToolCall("write", {"path": "a", "content": "b"})
    asking = Reply(tool_calls=[ToolCall("shell", {"command": "true"})])
    replies = [Reply(tool_calls=[command, later]), asking]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        await it.say(session, "Wait")
        await it.agent.wait_update("terminal_output_chunk", timeout=10)
        await it.agent.notify("session/cancel", {"sessionId": session})
        assert (await it.idle(session))["stopReason"] == "cancelled"
        assert {call["status"] for call in it.calls().values()} == {"cancelled"}
        [terminal] = it.terminals().values()
        assert terminal["exitStatus"] == {"signal": "SIGTERM"}
        since = len(it.agent.lines)
        await it.resume(session, tmp_path, replay=True)
        assert {call["status"] for call in it.calls(since=since).values()} == {
            "cancelled"
        }

        since = len(it.agent.lines)
        it.agent.handlers["session/request_permission"] = _never
        await it.say(session, "Ask")
        question = await it.agent.wait_for(
            lambda line: line.method == "session/request_permission", since=since
        )
        assert it.states(session, since=since) == ["running", "requires_action"]
        await it.agent.notify("session/cancel", {"sessionId": session})
        taken_back = await it.agent.wait_for(
            lambda line: line.method == "$/cancel_request", since=since
        )
        assert taken_back.params == {"requestId": question.message["id"]}
        assert (await it.idle(session, since=since))["stopReason"] == "cancelled"
        assert it.states(session, since=since) == [
            "running",
            "requires_action",
            "running",
            "idle",
        ]


async def test_only_an_option_that_allows_and_was_offered_is_consent(
    tmp_path: Path,
) -> None:
    outcomes = {
        "allow_once": "completed",
        "reject_once": "failed",
        "allow_everything": "failed",
    }
    touches = [ToolCall("shell", {"command": f"touch {option}"}) for option in outcomes]
    replies = [Reply(tool_calls=touches), Reply("Done.")]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        chosen = iter(outcomes)

        async def choose(params: Any) -> Any:
            return {"outcome": {"outcome": "selected", "optionId": next(chosen)}}

        session = await it.open(tmp_path)
        it.agent.handlers["session/request_permission"] = choose
        await it.answer(session, "Make them")
        assert [call["status"] for call in it.calls().values()] == list(
            outcomes.values()
        )
        assert [option for option in outcomes if (tmp_path / option).exists()] == [
            "allow_once"
        ]


async def test_a_question_of_the_model_is_a_form_for_which_the_session_waits(
    tmp_path: Path,
) -> None:
    options = [{"label": "Rewrite"}, {"label": "Mend"}]
    ask = ToolCall(
        "ask_user", {"questions": [{"question": "Which way?", "options": options}]}
    )
    has = {"elicitation": {"form": {}}}
    async with (
        model_server([Reply(tool_calls=[ask]), Reply("Done.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai"), capabilities=has) as it,
    ):
        session = await it.open(tmp_path)

        async def fill(params: Any) -> Any:
            assert params["message"] == "Which way?"
            return {"action": "accept", "content": {"answer_1": "Mend"}}

        it.agent.handlers["elicitation/create"] = fill
        await it.answer(session, "Ask")
        assert it.states(session) == ["running", "requires_action", "running", "idle"]
        assert "Mend" in str(server.calls[1].body["input"][-1])


async def _never(params: Any) -> Any:

    await anyio.sleep_forever()
