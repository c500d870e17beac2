"""Prompts that come while a turn runs and join it at its next step, where the user
wants that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from support.client import AgentError, Pending
from support.memory import stage
from support.pictures import encoded, png
from support.replies import Reply, ToolCall
from support.stage import Stage, conversation

STEER = {"prompts_while_working": "steer"}
CALL = Reply("Look.", tool_calls=[ToolCall("shell", {"command": "echo one"}, id="t1")])
KEEPS_SECRETS = {
    "UserPromptSubmit": [
        {"command": "! grep -q secret || { echo It is secret. >&2; exit 2; }"}
    ]
}


@asynccontextmanager
async def working(it: Stage, *prompts: Any) -> AsyncGenerator[list[Pending], None]:
    """Send prompts in the middle of a turn, whose call then runs."""
    it.agent.permission_hold = hold = anyio.Event()
    handles = [await it.agent.start_prompt(it.session, "first")]
    await it.line("session/request_permission")
    handles += [await it.agent.start_prompt(it.session, prompt) for prompt in prompts]
    yield handles
    hold.set()


def said(it: Stage, number: int) -> list[str]:
    """What the user's messages of a request say, those of tools left out."""
    return [
        text
        for role, text in conversation(it.server.calls[number].body)
        if role == "user" and text
    ]


async def test_a_prompt_joins_the_turn_at_its_next_step_and_is_answered_with_it(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, CALL, Reply("Both."), Reply("After."), config=STEER
    ) as it:
        async with working(it, "second", "third") as handles:
            pass
        for handle in handles:
            assert await handle.result() == {"stopReason": "end_turn"}
        order = [
            line.message.get("id")
            for line in it.agent.lines
            if line.label == "response session/prompt"
        ]
        assert order == [handle.id for handle in handles]
        assert len(it.server.calls) == 2
        last = conversation(it.server.calls[1].body)
        assert [role for role, _ in last[:3]] == ["user", "assistant", "user"]
        assert last[-1][0] == "user"
        assert "second\nthird" in "\n".join(said(it, 1))
        assert await it.prompt("fourth") == {"stopReason": "end_turn"}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            shown = [
                update["content"]["text"]
                for update in later.agent.updates(kind="user_message_chunk")
            ]
            assert shown == ["first", "second", "third", "fourth"]


async def test_a_command_has_a_turn_of_its_own_and_so_has_what_stands_behind_it(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, CALL, Reply("One."), Reply("Three."), config=STEER
    ) as it:
        async with working(it, "/context", "third") as handles:
            pass
        for handle in handles:
            assert await handle.result() == {"stopReason": "end_turn"}
        assert "third" not in "".join(said(it, 1))
        assert "third" in said(it, 2)[-1]


async def test_a_cancel_ends_all_that_has_joined_and_the_next_request_is_whole(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, CALL, Reply(hang=True), Reply("Again."), config=STEER
    ) as it:
        async with working(it, "second") as handles:
            pass
        await it.server.wait_calls(2)
        await it.agent.cancel(it.session)
        assert [await handle.result() for handle in handles] == [
            {"stopReason": "cancelled"}
        ] * 2
        assert await it.prompt("again") == {"stopReason": "end_turn"}
        assert "second" in "\n".join(said(it, 2))


async def test_a_prompt_that_is_refused_leaves_the_turn_that_it_had_joined(
    tmp_path: Path,
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        text = "\n".join(text for _, text in conversation(body))
        if "unspeakable" in text:
            return Reply(http_status=400)
        return CALL if "again" not in text and "one\n" not in text else Reply("Yes.")

    async with stage(tmp_path, script=answer, config=STEER) as it:
        async with working(it, "unspeakable") as handles:
            pass
        for handle in handles:
            with pytest.raises(
                AgentError, match="The prompt was left out of the conversation"
            ):
                await handle.result()
        assert await it.prompt("again") == {"stopReason": "end_turn"}
        told = str(it.server.calls[-1].body["input"])
        assert [
            part in told for part in ("first", "echo one", "unspeakable", "again")
        ] == [True, True, False, True]


async def test_a_prompt_that_is_too_large_fails_alone_and_the_turn_that_it_came_into_goes_on(
    tmp_path: Path,
) -> None:
    image = {
        "type": "image",
        "data": encoded(png(900, 900, seed=7)),
        "mimeType": "image/png",
    }
    async with stage(
        tmp_path, CALL, Reply("One."), config=STEER, dialect="google"
    ) as it:
        async with working(it, [image] * 6) as [first, second]:
            pass
        with pytest.raises(AgentError, match="Nothing was sent or stored"):
            await second.result()
        assert await first.result() == {"stopReason": "end_turn"}


async def test_a_hook_keeps_what_joins_from_the_model_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, CALL, Reply("One."), config={**STEER, "hooks": KEEPS_SECRETS}
    ) as it:
        async with working(it, "a secret") as handles:
            pass
        assert [await handle.result() for handle in handles] == [
            {"stopReason": "end_turn"}
        ] * 2
        assert "secret" not in str(it.server.calls[1].body["input"])
        assert "It is secret." in "".join(it.agent.texts().values())
