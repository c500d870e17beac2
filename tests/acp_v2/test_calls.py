"""Tool calls in version 2: upserts, structured diffs, terminals of the agent's own, and what is asked of the user."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError
from support.mcp import mcp_program, says, tool
from support.models import Reply, ToolCall, model_server
from support.repo import BUG, FIX, make_repo
from support.second import second_agent

SLOW = "printf 'begun\\n'; sleep 60"


async def test_a_change_is_asked_for_and_shown_as_a_structured_diff_with_a_patch(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    edit = ToolCall("edit", {"path": "shop/cart.py", "edits": [{"old_text": BUG, "new_text": FIX}]})
    write = ToolCall("write", {"path": "new.txt", "content": "one\ntwo"})
    read = ToolCall("read", {"path": "shop/cart.py"})
    replies = [Reply(tool_calls=[read]), Reply(tool_calls=[edit, write]), Reply("Done.")]
    before = repo.program.read_text()
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(repo.path)
        assert (await it.answer(session, "Repair it"))["stopReason"] == "end_turn"
        calls = {call["name"]: call for call in it.calls().values()}
        assert {name: call["status"] for name, call in calls.items()} == dict.fromkeys(calls, "completed")
        assert calls["read"]["locations"] == [{"path": str(repo.program), "line": 1}]

        [diff] = calls["edit"]["content"]
        kind = {"fileType": "text", "mimeType": "text/x-python"}
        assert diff["changes"] == [{"operation": "modify", "path": str(repo.program), **kind}]
        [added] = calls["write"]["content"]
        assert [(change["operation"], change["mimeType"]) for change in added["changes"]] == [("add", "text/plain")]

        # what was asked for is what was done, and while it was asked for the session waited
        asked = it.agent.desk.permissions
        assert [each["subject"]["type"] for each in asked] == ["tool_call"] * 2
        assert asked[0]["subject"]["toolCall"]["content"] == [diff]
        [place] = asked[0]["subject"]["toolCall"]["locations"]
        assert place == {"path": str(repo.program), "line": before[: before.index(BUG)].count("\n") + 1}
        assert asked[0]["title"] == "Edit shop/cart.py"
        assert [option["kind"] for option in asked[0]["options"]] == ["allow_once", "allow_always", "reject_once"]
        wait = ["requires_action", "running"]
        assert it.states(session) == ["running", *wait, *wait, "idle"]

    # the patches are ones that git applies, but for the place
    repo.program.write_text(before)
    (repo.path / "new.txt").unlink()
    for item in (diff, added):
        assert item["patch"]["format"] == "git_patch"
        patch = item["patch"]["text"].replace(f"{repo.path}/", "")
        subprocess.run(["git", "apply", "-p0", "-"], cwd=repo.path, input=patch, text=True, check=True)
    assert repo.run_tests().returncode == 0
    assert (repo.path / "new.txt").read_text() == "one\ntwo"


async def test_a_command_is_asked_for_as_such_and_runs_in_a_terminal_of_the_agents(tmp_path: Path) -> None:
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
        assert asked["subject"] == {"type": "command", "command": command, "cwd": place, "toolCallId": call_id}
        [(terminal_id, terminal)] = it.terminals().items()
        assert shown["content"] == [{"type": "terminal", "terminalId": terminal_id}]
        assert (terminal["command"], terminal["cwd"], terminal["exitStatus"]) == (command, place, {"exitCode": 3})
        assert sorted(terminal["bytes"].decode()) == sorted("hé\noops")
        assert (shown["status"], shown["rawOutput"]["exitCode"]) == ("failed", 3)
        # nothing that has ended can be cancelled
        assert "capabilities" not in shown
        assert "capabilities" not in terminal
        assert "terminal_output_chunk" in [update["sessionUpdate"] for update in it.agent.updates()]
        assert "exit status: 3" in str(server.calls[-1].body)


async def test_files_that_a_command_deletes_moves_and_copies_are_shown_beside_its_terminal(tmp_path: Path) -> None:
    for name in ("gone.txt", "old.py", "model"):
        (tmp_path / name).write_text(name)
    command = "rm gone.txt && mv old.py new.py && cp model other && echo done"
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": command})]), Reply("Tidied.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.answer(session, "Tidy up")
        [call] = it.calls().values()
        terminal, diff = call["content"]
        assert (terminal["type"], call["status"]) == ("terminal", "completed")
        names = [
            (each["operation"], *(Path(each[key]).name for key in ("oldPath", "path") if key in each))
            for each in diff["changes"]
        ]
        assert names == [("delete", "gone.txt"), ("move", "old.py", "new.py"), ("copy", "model", "other")]
        # The patch has what can be had without the text of what is gone; git takes it.
        for path in ("new.py", "other"):
            (tmp_path / path).unlink()
        (tmp_path / "old.py").write_text("old.py")
        patch = diff["patch"]["text"].replace(f"{tmp_path}/", "")
        subprocess.run(["git", "apply", "-p0", "-"], cwd=tmp_path, input=patch, text=True, check=True)
        assert ((tmp_path / "new.py").read_text(), (tmp_path / "other").read_text()) == ("old.py", "model")

        since = len(it.agent.lines)
        await it.resume(session, tmp_path, replay=True)
        [again] = it.calls(since=since).values()
        text, shown = again["content"]
        assert "done" in text["content"]["text"]
        assert shown == diff


@pytest.mark.parametrize("by", ["terminal", "tool_call"])
async def test_a_client_ends_one_command_and_the_turn_goes_on(tmp_path: Path, by: str) -> None:
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": SLOW})]), Reply("You stopped it.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.say(session, "Wait")
        chunk = await it.agent.wait_update("terminal_output_chunk", timeout=10)
        [(call_id, shown)] = it.calls().items()
        assert shown["capabilities"] == {"cancel": {}} == it.terminals()[chunk["terminalId"]]["capabilities"]
        which = {"terminalId": chunk["terminalId"]} if by == "terminal" else {"toolCallId": call_id}
        assert await it.agent.request(f"{by}/cancel", {"sessionId": session, **which}) == {}
        assert (await it.idle(session))["stopReason"] == "end_turn"
        terminal = it.terminals()[chunk["terminalId"]]
        assert (terminal["exitStatus"], terminal["bytes"]) == ({"signal": "SIGTERM"}, b"begun\n")
        assert it.calls()[call_id]["status"] == "cancelled"
        # the model knows what has become of it, and by whom
        for told in ("begun", "The user ended this command", "SIGTERM"):
            assert told in str(server.calls[-1].body)
        for method, params in (
            ("terminal/cancel", {"terminalId": "term_x"}),
            ("terminal/cancel", {"terminalId": chunk["terminalId"]}),
            ("tool_call/cancel", {"toolCallId": call_id}),
            ("tool_call/cancel", {"toolCallId": "x"}),
        ):
            with pytest.raises(AgentError) as error:
                await it.agent.request(method, {"sessionId": session, **params})
            assert error.value.code == -32602
        since = len(it.agent.lines)
        await it.resume(session, tmp_path, replay=True)
        assert it.calls(since=since)[call_id]["status"] == "cancelled"


async def test_a_terminal_shows_the_very_bytes_that_a_command_prints(tmp_path: Path) -> None:
    printing = ToolCall("shell", {"command": r"printf 'a\377\376b'; printf '\303' ; sleep 0.3; printf '\251\n\0' >&2"})
    async with (
        model_server([Reply(tool_calls=[printing]), Reply("Seen.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        await it.answer(session, "Print")
        [terminal] = it.terminals().values()
        assert terminal["bytes"] == b"a\xff\xfeb\xc3\xa9\n\0"


async def test_the_model_reads_what_a_command_that_was_ended_has_printed_also_where_a_letter_came_in_two(
    tmp_path: Path,
) -> None:
    command = r"printf '\303'; sleep 0.3; printf '\251 begun\n'; sleep 60"
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": command})]), Reply("You stopped it.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.say(session, "Wait")
        await it.agent.until(lambda: any(b"begun" in terminal["bytes"] for terminal in it.terminals().values()))
        [terminal_id] = it.terminals()
        await it.agent.request("terminal/cancel", {"sessionId": session, "terminalId": terminal_id})
        assert (await it.idle(session))["stopReason"] == "end_turn"
        [read] = [each["output"] for each in server.calls[-1].body["input"] if "output" in each]
        assert "\né begun" in read


@pytest.mark.parametrize(
    ("trap", "ended"), [("trap '' TERM", {"signal": "SIGKILL"}), ("trap 'exit 7' TERM", {"exitCode": 7})]
)
async def test_how_a_command_ended_that_was_asked_to_is_what_is_told(
    tmp_path: Path, trap: str, ended: dict[str, Any]
) -> None:
    command = f"{trap}; printf 'begun\\n'; while :; do sleep 0.01; done"
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": command})]), Reply("You stopped it.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.say(session, "Wait")
        chunk = await it.agent.wait_update("terminal_output_chunk", timeout=10)
        await it.agent.request("terminal/cancel", {"sessionId": session, "terminalId": chunk["terminalId"]})
        assert (await it.idle(session))["stopReason"] == "end_turn"
        assert it.terminals()[chunk["terminalId"]]["exitStatus"] == ended
        [call] = it.calls().values()
        assert call["rawOutput"]["exitCode"] == ended.get("exitCode")


async def test_a_recording_holds_no_secret_that_a_command_has_printed(tmp_path: Path) -> None:
    known, shaped = "the-Known-value-77", "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    (tmp_path / "dot").write_bytes(f"MINE={known}\nOTHER={shaped}\nplain ".encode() + b"\xff\n")
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": "cat dot"})]), Reply("Seen.")]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env={**server.env("openai"), "ACP_AGENT_WIRE": "1", "MY_TOKEN": known}) as it,
    ):
        session = await it.open(tmp_path)
        await it.answer(session, "Print")
        [terminal] = it.terminals().values()
        assert known.encode() in terminal["bytes"]
    written = "".join(path.read_text() for path in (tmp_path / "state" / "wire").iterdir())
    assert known not in written
    assert shaped not in written
    printed = b"".join(b64decode(found) for found in re.findall(r'"data":"([A-Za-z0-9+/=]+)"', written))
    assert printed == b"MINE=***\nOTHER=***\nplain \xff\n"


async def test_a_terminal_shows_all_that_is_printed_at_once_and_of_a_flood_the_newest(tmp_path: Path) -> None:
    many = "seq 20000; printf '\\n'"
    flood = "seq 1000000; printf 'THE END\\n'"
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": command})]) for command in (many, flood)]
    async with (
        model_server([*replies, Reply("Seen.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        await it.answer(session, "Print")
        whole, cut = it.terminals().values()
        assert whole["bytes"] == "".join(f"{number}\n" for number in range(1, 20_001)).encode() + b"\n"
        assert "output" not in whole
        # What was left out is left out before a snapshot, and nothing is put in its place.
        printed = "".join(f"{number}\n" for number in range(1, 1_000_001)).encode() + b"THE END\n"
        assert "output" in cut
        assert len(cut["bytes"]) < len(printed)
        assert printed.endswith(b"\n" + cut["bytes"])


async def test_a_session_waits_until_the_last_of_several_questions_is_answered(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    ask = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}}
    shop = mcp_program(
        tmp_path, "shop", tools=[tool("buy")], results={"buy": says() | {"asks": [ask, ask], "at_once": True}}
    )
    holds = [anyio.Event(), anyio.Event()]
    waiting = iter(holds)

    async def answer(params: Any) -> Any:
        await next(waiting).wait()
        return {"action": "decline"}

    replies = [Reply(tool_calls=[ToolCall("mcp__shop__buy", {})]), Reply("Bought.")]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai"), capabilities={"elicitation": {"form": {}}}) as it,
    ):
        it.agent.handlers["elicitation/create"] = answer
        session = await it.open(tmp_path, mcpServers=[{"type": "stdio", **shop.entry}])
        await it.agent.request(
            "session/set_config_option",
            {"sessionId": session, "configId": "mode", "type": "id", "value": "full-access"},
        )
        await it.say(session, "Buy")
        await it.agent.until(lambda: len([each for each in it.agent.lines if each.method == "elicitation/create"]) == 2)
        holds[0].set()
        await shop.noted(None)
        assert it.states(session)[-1] == "requires_action"
        holds[1].set()
        assert (await it.idle(session))["stopReason"] == "end_turn"
        assert it.states(session)[-2:] == ["running", "idle"]


async def test_a_session_works_again_where_who_asked_has_taken_it_back(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    ask = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}}
    shop = mcp_program(tmp_path, "shop", tools=[tool("buy")], results={"buy": says() | {"asks": [ask]}})
    hold = anyio.Event()
    replies = [Reply(tool_calls=[ToolCall("mcp__shop__buy", {})]), Reply(["No", " shop."], hold=hold, hold_after=0)]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai"), capabilities={"elicitation": {"form": {}}}) as it,
    ):
        it.agent.handlers["elicitation/create"] = _never
        session = await it.open(tmp_path, mcpServers=[{"type": "stdio", **shop.entry}])
        await it.agent.request(
            "session/set_config_option",
            {"sessionId": session, "configId": "mode", "type": "id", "value": "full-access"},
        )
        await it.say(session, "Buy")
        await it.agent.wait_for(lambda line: line.method == "elicitation/create", 10)
        assert it.states(session) == ["running", "requires_action"]
        os.kill(shop.pids()[0], signal.SIGKILL)
        # The model is asked, and has not said anything yet.
        await server.wait_held(1, 20)
        assert it.states(session) == ["running", "requires_action", "running"]
        status = await it.agent.request("session/status", {"sessionId": session})
        assert status["state"]["state"] == "running"
        hold.set()
        assert (await it.idle(session))["stopReason"] == "end_turn"


async def test_the_end_of_a_turn_ends_its_command_its_call_and_what_is_asked(tmp_path: Path) -> None:
    command, later = ToolCall("shell", {"command": SLOW}), ToolCall("write", {"path": "a", "content": "b"})
    asking = Reply(tool_calls=[ToolCall("shell", {"command": "true"})])
    replies = [Reply(tool_calls=[command, later]), asking]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
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
        assert {call["status"] for call in it.calls(since=since).values()} == {"cancelled"}

        since = len(it.agent.lines)
        it.agent.handlers["session/request_permission"] = _never
        await it.say(session, "Ask")
        question = await it.agent.wait_for(lambda line: line.method == "session/request_permission", since=since)
        assert it.states(session, since=since) == ["running", "requires_action"]
        await it.agent.notify("session/cancel", {"sessionId": session})
        taken_back = await it.agent.wait_for(lambda line: line.method == "$/cancel_request", since=since)
        assert taken_back.params == {"requestId": question.message["id"]}
        assert (await it.idle(session, since=since))["stopReason"] == "cancelled"
        # and what is told of the session from now on does not say that it works
        option = {"sessionId": session, "configId": "mode", "type": "id", "value": "plan"}
        await it.agent.request("session/set_config_option", option)
        await it.agent.wait_update("config_option_update", session, since=since)
        assert it.states(session, since=since) == ["running", "requires_action", "idle"]


async def test_only_an_option_that_was_offered_is_consent(tmp_path: Path) -> None:
    strange: list[Any] = [
        {"outcome": "_later", "optionId": "allow_once"},
        {"outcome": "selected", "optionId": "allow_everything"},
        {"outcome": "selected", "optionId": "reject_once"},
    ]
    answers = iter(strange)

    async def answer(params: Any) -> Any:
        return {"outcome": next(answers)}

    calls = [ToolCall("shell", {"command": f"touch {index}"}) for index in range(len(strange))]
    replies = [Reply(tool_calls=calls), Reply("None of it.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        it.agent.handlers["session/request_permission"] = answer
        session = await it.open(tmp_path)
        assert (await it.answer(session, "Do it"))["stopReason"] == "end_turn"
        assert [call["status"] for call in it.calls().values()] == ["failed"] * 3
        assert not list(tmp_path.glob("[0-9]"))


async def test_a_form_is_filled_in_while_the_session_waits(tmp_path: Path) -> None:
    question = {"question": "Which one?", "options": [{"label": "this"}, {"label": "that"}]}
    replies = [Reply(tool_calls=[ToolCall("ask_user", {"questions": [question]})]), Reply("That, then.")]
    elicitation = {"elicitation": {"form": {}}}

    async def answer(params: Any) -> Any:
        [name] = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": {name: "that"}}

    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai"), capabilities=elicitation) as it,
    ):
        it.agent.handlers["elicitation/create"] = answer
        session = await it.open(tmp_path)
        await it.answer(session, "Ask me")
        assert it.states(session) == ["running", "requires_action", "running", "idle"]
        assert "that" in str(server.calls[-1].body["input"][-1])


async def test_a_choice_is_asked_for_in_permission_dialogs_where_there_are_no_forms(tmp_path: Path) -> None:
    options = [{"label": label} for label in ("red", "green", "blue")]
    question = {"question": "Which colour?", "options": options}
    replies = [Reply(tool_calls=[ToolCall("ask_user", {"questions": [question]})]), Reply("Blue, then.")]

    async def answer(params: Any) -> Any:
        by_name = {each["name"]: each for each in params["options"]}
        chosen = by_name.get("blue") or by_name["More …"]
        return {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}

    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        it.agent.handlers["session/request_permission"] = answer
        session = await it.open(tmp_path)
        await it.answer(session, "Ask me")
        wait = ["requires_action", "running"]
        assert it.states(session) == ["running", *wait, *wait, "idle"]
        assert "blue" in str(server.calls[-1].body["input"][-1])


async def test_a_choice_that_was_not_offered_is_none(tmp_path: Path) -> None:
    options = [{"label": label} for label in ("red", "green")]
    question = {"question": "Which colour?", "options": options}
    replies = [Reply(tool_calls=[ToolCall("ask_user", {"questions": [question]})]), Reply("No colour.")]

    async def answer(params: Any) -> Any:
        return {"outcome": {"outcome": "selected", "optionId": "7"}}

    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        it.agent.handlers["session/request_permission"] = answer
        session = await it.open(tmp_path)
        assert (await it.answer(session, "Ask me"))["stopReason"] == "end_turn"
        [call] = it.calls().values()
        assert call["status"] == "failed"
        assert "not offered" in str(server.calls[-1].body["input"][-1])


async def test_a_project_is_asked_about_before_what_it_brings_runs(tmp_path: Path) -> None:
    recipes = tmp_path / "project" / ".acp-agent" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "shout.md").write_text("---\ndescription: Shout\n---\nShout it.\n")
    async with (
        model_server([Reply("HELLO.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path / "project")
        await it.answer(session, "/shout")
        [asked] = it.agent.desk.permissions
        assert (asked["subject"]["type"], bool(asked["description"])) == ("tool_call", True)
        assert asked["subject"]["toolCall"]["toolCallId"] in it.calls()
        assert it.states(session) == ["running", "requires_action", "running", "idle"]


@pytest.mark.parametrize("method", ["elicitation/create", "session/request_permission"])
async def test_a_session_goes_on_where_the_editor_could_not_ask(tmp_path: Path, method: str) -> None:
    async def fail(params: Any) -> Any:
        raise AgentError(-32603, "No window is open")

    asking = ToolCall("ask_user", {"questions": [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]})
    call = asking if method == "elicitation/create" else ToolCall("shell", {"command": "true"})
    async with (
        model_server([Reply(tool_calls=[call]), Reply("Not asked.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai"), capabilities={"elicitation": {"form": {}}}) as it,
    ):
        it.agent.handlers[method] = fail
        session = await it.open(tmp_path)
        assert (await it.answer(session, "Ask"))["stopReason"] == "end_turn"
        assert it.states(session) == ["running", "requires_action", "running", "idle"]
        assert "No window is open" in str(server.calls[-1].body)


@pytest.mark.parametrize(("chosen", "said"), [("allow_once", True), (None, False)])
async def test_a_project_is_asked_about_by_a_form_where_the_editor_has_those(
    tmp_path: Path, chosen: str | None, said: bool
) -> None:
    hooks = tmp_path / "project" / ".acp-agent" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "rule.yaml").write_text("on: user_message_send\nthen: {context: The rule holds.}\n")
    forms: list[Any] = []

    async def answer(params: Any) -> Any:
        forms.append(params)
        return {"action": "accept", "content": {"trust": chosen}} if chosen else {"action": "decline"}

    elicitation = {"elicitation": {"form": {}}}
    async with (
        model_server([Reply("Yes.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai"), capabilities=elicitation) as it,
    ):
        it.agent.handlers["elicitation/create"] = answer
        session = await it.open(tmp_path / "project")
        assert (await it.answer(session, "Go"))["stopReason"] == "end_turn"
        [form] = forms
        assert "hooks/rule.yaml" in form["message"]
        assert form["toolCallId"] in it.calls()
        assert it.states(session) == ["running", "requires_action", "running", "idle"]
        assert not it.agent.desk.permissions
        assert ("The rule holds." in str(server.calls[0].body)) is said


async def _never(params: Any) -> Any:
    import anyio

    await anyio.sleep_forever()
