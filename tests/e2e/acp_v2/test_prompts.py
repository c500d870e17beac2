"""Prompts in version 2: answered when they are taken; updates tell how their turns go
and end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.protocol.updates import text_content
from acp_agent.server.content import MAX_TEXT
from acp_agent.server.v2.presenter import _whole_message
from support.client import AgentError
from support.memory import second_agent
from support.models import Reply, model_server
from support.pictures import encoded, png


async def test_a_prompt_is_answered_when_it_is_taken_and_the_turn_is_told_in_updates(
    tmp_path: Path,
) -> None:
    hold = anyio.Event()
    replies = [
        Reply(["Hel", "lo."], thinking="Hm.", hold=hold, hold_after=2),
        Reply("Again."),
    ]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        prompt = [
            {"type": "text", "text": "Look: "},
            {
                "type": "resource_link",
                "uri": "file:///a.txt",
                "name": "a",
                "icons": [{"src": "data:,"}],
            },
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
        # the message that it became is told once, as it was sent, under the id that was
        # answered
        [whole] = it.agent.updates(session, "user_message")
        assert whole["messageId"] == message_id
        assert [block["type"] for block in whole["content"]] == [
            "text",
            "resource_link",
            "resource",
            "image",
        ]
        assert (it.text("agent_message"), it.text("agent_thought")) == (
            ["Hello."],
            ["Hm."],
        )
        assert it.agent.updates(session, "usage_update")

        second = await it.answer(session, "And?")
        assert second["stopReason"] == "end_turn"
        assert it.states(session) == ["running", "idle", "running", "idle"]
        assert (
            len(
                {
                    update["messageId"]
                    for update in it.agent.updates(session, "user_message")
                }
            )
            == 2
        )


async def test_a_cancel_ends_the_running_turn_and_takes_back_what_waits(
    tmp_path: Path,
) -> None:
    never = anyio.Event()
    replies = [Reply(["One", "."], hold=never, hold_after=1), Reply("Three.")]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
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


async def test_a_failure_after_a_prompt_was_taken_is_told_where_the_turn_ends(
    tmp_path: Path,
) -> None:
    async with second_agent(home=tmp_path) as it:  # without a key
        session = await it.open(tmp_path)
        message_id = await it.say(session, "Hello")
        assert message_id
        end = await it.idle(session)
        assert end["stopReason"] == "error"
        assert end["error"]["code"] == -32000
        assert "No model" in end["error"]["message"]
        assert "data" not in end["error"]


async def test_a_prompt_that_cannot_be_taken_is_an_error_and_no_work(
    tmp_path: Path,
) -> None:
    prompts: list[list[Any]] = [
        [],
        [{"type": "text", "text": " \n"}],
        [{"type": "smell"}],
        [{"type": "text"}],
    ]
    async with second_agent(home=tmp_path) as it:
        session = await it.open(tmp_path)
        for prompt in prompts:
            with pytest.raises(AgentError) as error:
                await it.say(session, prompt)
            assert error.value.code == -32602
        assert it.states(session) == []


async def test_the_settings_are_options_and_the_mode_is_one_of_them(
    tmp_path: Path,
) -> None:
    async with (
        model_server([]) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        params = {
            "sessionId": session,
            "configId": "mode",
            "type": "id",
            "value": "plan",
        }
        answer = await it.agent.request("session/set_config_option", params)
        current = {
            option["configId"]: option["currentValue"]
            for option in answer["configOptions"]
        }
        assert current["mode"] == "plan"
        [told] = it.agent.updates(session, "config_option_update")
        assert told["configOptions"] == answer["configOptions"]
        # a switch is one
        [switch] = [
            option for option in answer["configOptions"] if option["type"] == "boolean"
        ]
        flipped = {
            "configId": switch["configId"],
            "type": "boolean",
            "value": not switch["currentValue"],
        }
        answer = await it.agent.request(
            "session/set_config_option", {**params, **flipped}
        )
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


def test_a_message_that_does_not_fit_into_a_line_comes_in_several() -> None:
    blocks = [text_content(letter * (MAX_TEXT // 2)) for letter in "abc"]
    first, *rest = _whole_message("user_message", "m", blocks)
    assert (first["sessionUpdate"], first["content"]) == ("user_message", blocks[:1])
    assert [(chunk["sessionUpdate"], chunk["content"]) for chunk in rest] == [
        ("user_message_chunk", block) for block in blocks[1:]
    ]
    short = [text_content("a"), text_content("b")]
    assert [
        update["content"] for update in _whole_message("agent_message", "m", short)
    ] == [short]
