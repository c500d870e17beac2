"""Prompts in version 2: answered when they are taken; updates tell how their turns go and end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.protocol.v1 import content as common
from acp_agent.server.bounds import MAX_TEXT
from acp_agent.server.v2.presenter import whole
from support.client import AgentError
from support.models import Reply, ToolCall, model_server
from support.pictures import encoded, png
from support.second import second_agent
from support.waiting import read_pipe

EMPTY = {"entries": []}


async def test_a_prompt_is_answered_when_it_is_taken_and_the_turn_is_told_in_updates(tmp_path: Path) -> None:
    hold = anyio.Event()
    replies = [Reply(["Hel", "lo."], thinking="Hm.", hold=hold, hold_after=2), Reply("Again.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        prompt = [
            {"type": "text", "text": "Look: "},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "icons": [{"src": "data:,"}]},
            {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "b"}},
            {"type": "image", "data": encoded(png()), "mimeType": "image/png"},
        ]
        message_id = await it.say(session, prompt)
        assert await it.agent.wait_update("agent_message_chunk")
        assert it.states(session) == ["running"]
        hold.set()
        assert dict(await it.idle(session)) == {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "end_turn",
        }
        # the message that it became is told once, as it was sent, under the id that was answered
        [whole] = it.agent.updates(session, "user_message")
        assert whole["messageId"] == message_id
        assert [block["type"] for block in whole["content"]] == ["text", "resource_link", "resource", "image"]
        assert (it.text("agent_message"), it.text("agent_thought")) == (["Hello."], ["Hm."])
        assert it.agent.updates(session, "usage_update")

        second = await it.answer(session, "And?")
        assert second["stopReason"] == "end_turn"
        assert it.states(session) == ["running", "idle", "running", "idle"]
        assert len({update["messageId"] for update in it.agent.updates(session, "user_message")}) == 2


async def test_prompts_are_taken_one_after_the_other(tmp_path: Path) -> None:
    hold = anyio.Event()
    replies = [Reply(["One", "."], hold=hold, hold_after=1), Reply("Two.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        first = await it.agent.start_prompt(session, "first")
        second = await it.agent.start_prompt(session, "second")
        await it.agent.wait_update("agent_message_chunk")
        assert (first.done, second.done) == (True, False)
        hold.set()
        since = len(it.agent.lines)
        taken = (await second.result())["messageId"]
        await it.idle(session, since=it.agent.lines[-1].index if taken else since)
        assert it.text("agent_message") == ["One.", "Two."]
        kinds = [line.update_kind for line in it.agent.lines if line.update_kind in ("user_message", "state_update")]
        assert kinds == ["state_update", "user_message", "state_update"] * 2


async def test_a_cancel_ends_the_running_turn_and_takes_back_what_waits(tmp_path: Path) -> None:
    never = anyio.Event()
    replies = [Reply(["One", "."], hold=never, hold_after=1), Reply("Three.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.say(session, "first")
        waiting = await it.agent.start_prompt(session, "second")
        withdrawn = await it.agent.start_prompt(session, "third")
        await it.agent.wait_update("agent_message_chunk")
        await withdrawn.cancel()
        await it.agent.notify("session/cancel", {"sessionId": session})
        assert (await it.idle(session))["stopReason"] == "cancelled"
        for prompt in (waiting, withdrawn):
            with pytest.raises(AgentError) as error:
                await prompt.result()
            assert error.value.code == -32800
        # which never were a part of the conversation
        assert len(it.agent.updates(session, "user_message")) == 1
        assert it.states(session) == ["running", "idle"]
        assert (await it.answer(session, "fourth"))["stopReason"] == "end_turn"
        assert "second" not in str(server.calls[-1].body)


async def test_a_failure_after_a_prompt_was_taken_is_told_where_the_turn_ends(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path) as it:  # without a key
        session = await it.open(tmp_path)
        message_id = await it.say(session, "Hello")
        assert message_id
        end = await it.idle(session)
        assert end["stopReason"] == "error"
        assert end["error"]["code"] == -32000
        assert end["error"]["message"] == end["error"]["data"]["details"]


async def test_a_prompt_that_cannot_be_taken_is_an_error_and_no_work(tmp_path: Path) -> None:
    prompts: list[list[Any]] = [[], [{"type": "text", "text": " \n"}], [{"type": "smell"}], [{"type": "text"}]]
    async with second_agent(home=tmp_path) as it:
        session = await it.open(tmp_path)
        for prompt in prompts:
            with pytest.raises(AgentError) as error:
                await it.say(session, prompt)
            assert error.value.code == -32602
        assert it.states(session) == []


async def test_commands_are_prompts_like_others(tmp_path: Path) -> None:
    summary = "## Goal\nThe greeting was said. The price of every article is counted in whole cents."
    replies = [Reply("A long answer. " * 400), Reply(summary)]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        # one that is no part of the conversation has its place on the screen all the same
        assert (await it.answer(session, "/help"))["stopReason"] == "end_turn"
        assert it.text("user_message") == ["/help"]
        await it.answer(session, "Hello")
        since = len(it.agent.lines)
        assert (await it.answer(session, "/compact keep the prices"))["stopReason"] == "end_turn"
        begun, done = it.agent.updates(session, "compaction_update", since=since)
        assert (begun["status"], done["status"]) == ("in_progress", "completed")
        assert done["summary"][0]["text"] == summary
        assert it.agent.updates(session, "compaction_summary_chunk", since=since)
        assert it.agent.updates(session, "usage_update", since=since)


async def test_the_settings_are_options_and_the_mode_is_one_of_them(tmp_path: Path) -> None:
    async with model_server([]) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        params = {"sessionId": session, "configId": "mode", "type": "id", "value": "plan"}
        answer = await it.agent.request("session/set_config_option", params)
        current = {option["configId"]: option["currentValue"] for option in answer["configOptions"]}
        assert current["mode"] == "plan"
        [told] = it.agent.updates(session, "config_option_update")
        assert told["configOptions"] == answer["configOptions"]
        # a switch is one
        [switch] = [option for option in answer["configOptions"] if option["type"] == "boolean"]
        flipped = {"configId": switch["configId"], "type": "boolean", "value": not switch["currentValue"]}
        answer = await it.agent.request("session/set_config_option", {**params, **flipped})
        assert switch | {"currentValue": flipped["value"]} in answer["configOptions"]
        wrong: list[dict[str, Any]] = [
            {"value": "no such mode"},
            {"type": "boolean", "value": True},
            {"configId": switch["configId"], "type": "boolean", "value": "true"},
            {"type": "id", "value": 5},
            {"type": "_other", "value": "plan"},
            {"configId": "no such option"},
        ]
        for over in wrong:
            with pytest.raises(AgentError) as error:
                await it.agent.request("session/set_config_option", {**params, **over})
            assert error.value.code == -32602


async def test_the_window_is_told_of_anew_where_another_model_may_have_been_chosen(tmp_path: Path) -> None:
    async with model_server([Reply("Yes.")]) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.answer(session, "Hello")
        since = len(it.agent.lines)
        option = {"sessionId": session, "configId": "mode", "type": "id", "value": "plan"}
        await it.agent.request("session/set_config_option", option)
        await it.agent.wait_update("usage_update", session, since=since)


async def test_a_plan_has_an_id_and_is_whole_in_every_update(tmp_path: Path) -> None:
    tasks = [{"content": "Look", "status": "in_progress"}, {"content": "Mend", "status": "cancelled"}]
    replies = [Reply(tool_calls=[ToolCall("plan", {"entries": tasks})]), Reply(tool_calls=[ToolCall("plan", EMPTY)])]
    replies.append(Reply("Planned."))
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.answer(session, "Plan it")
        update, emptied = it.agent.updates(session, "plan_update")
        assert (update["plan"]["type"], bool(update["plan"]["planId"])) == ("items", True)
        entries = [(entry["content"], entry["status"]) for entry in update["plan"]["entries"]]
        assert entries == [("Look", "in_progress"), ("Mend", "cancelled")]
        # `plan_removed` is unstable, and no client of version 2 can say that it knows it.
        assert emptied["plan"] == {**update["plan"], "entries": []}
        assert it.agent.updates(session, "plan_removed") == []


async def test_a_prompt_that_joins_the_running_turn_is_taken_there(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "config.yaml").write_text("prompts_while_working: steer\n")
    hold = anyio.Event()
    look = ToolCall("list", {"path": "."})
    replies = [Reply("I look.", tool_calls=[look], hold=hold, hold_after=1), Reply("Both.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.say(session, "first")
        await it.agent.wait_update("agent_message_chunk")
        second = await it.agent.start_prompt(session, "second")
        await it.agent.request("session/list", {})
        assert not second.done
        hold.set()
        message_id = (await second.result())["messageId"]
        await it.idle(session)
        assert it.states(session) == ["running", "idle"]
        assert [each["messageId"] for each in it.agent.updates(session, "user_message")][1:] == [message_id]
        assert "second" in str(server.calls[-1].body)


@pytest.mark.parametrize("by", ["session/cancel", "$/cancel_request"])
async def test_a_prompt_that_is_cancelled_before_it_is_taken_has_no_place_and_is_never_read(
    tmp_path: Path, by: str
) -> None:
    (tmp_path / "state").mkdir()
    hook = "hooks:\n  user_message_send:\n    - command: echo > asked; sleep 60\n"
    (tmp_path / "state" / "config.yaml").write_text(hook)
    os.mkfifo(tmp_path / "asked")
    async with model_server([]) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        prompt = await it.agent.start_prompt(session, "Hello")
        await it.agent.wait_update("state_update", session, state="running")
        await read_pipe(tmp_path / "asked")
        assert not prompt.done
        if by == "session/cancel":
            await it.agent.notify(by, {"sessionId": session})
        else:
            await prompt.cancel()
        with pytest.raises(AgentError) as error:
            await prompt.result()
        assert error.value.code == -32800
        assert (await it.idle(session))["stopReason"] == "cancelled"
        await it.resume(session, tmp_path, replay=True)
        assert it.messages() == {}
        assert server.calls == []


def test_a_message_that_does_not_fit_into_a_line_comes_in_several() -> None:
    blocks = [common.text_content(letter * (MAX_TEXT // 2)) for letter in "abc"]
    for kind in ("user", "agent", "thought"):
        first, *rest = whole(kind, "m", blocks)
        assert first["content"] == blocks[:1]
        assert [chunk["content"] for chunk in rest] == blocks[1:]
        kinds = {str(each["sessionUpdate"]).removesuffix("_chunk") for each in (first, *rest)}
        assert kinds == {str(first["sessionUpdate"])}
    short = [common.text_content("a"), common.text_content("b")]
    assert [update["content"] for update in whole("agent", "m", short)] == [short]
