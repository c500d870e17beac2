"""A SIGKILL at every write to the store: what the editor was told is there afterwards,
and the session goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentGoneError, AgentProcess, connected_agent, start_agent
from support.compactions import (
    asked_last,
    is_summary_request,
    messages,
    shown_compactions,
)
from support.editors import ZED_BETA
from support.models import ModelServer, model_server
from support.replies import Reply, ToolCall
from support.wire import Pending

EDITOR = replace(ZED_BETA, files=False, terminal=False)
PARTS = 4
LONG = "The cart adds prices. " * 60
KINDS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


ENDED = ("completed", "failed")


def answer(body: Mapping[str, Any]) -> Reply:
    if is_summary_request(body):
        return Reply(["# Goal\n", "The summary."])
    if asked_last(body) == "Write":
        writes = [
            ToolCall("write", {"path": f"{name}.txt", "content": LONG}) for name in "ab"
        ]
        return Reply(
            "I write.",
            thinking="Two.",
            tool_calls=[*writes, ToolCall("shell", {"command": "echo done"})],
        )
    return Reply([LONG, "Over", "."], delay=0.002)


@dataclass
class Told:
    """What the editor was told: prompts that were answered, what became of sessions,
    and of which that was asked.
    """

    prompts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    states: dict[str, str] = field(default_factory=dict[str, str])
    begun: set[str] = field(default_factory=set[str])


async def work(agent: AgentProcess, folder: Path, told: Told) -> None:
    """Say everything that writes, and note what was answered."""

    async def opened(method: str, **params: Any) -> str:
        result = await agent.request(
            method, {"cwd": str(folder), "mcpServers": [], **params}, 30
        )
        told.prompts[id := result["sessionId"]] = []
        return id

    async def end(id: str, prompt: str, turn: Pending) -> None:
        assert await turn.result(30) == {"stopReason": "end_turn"}
        told.prompts[id].append(prompt)

    async def manage(id: str, state: str, method: str, **params: Any) -> None:
        told.begun.add(id)
        await agent.request(method, {"sessionId": id, **params})
        told.states[id] = state

    await agent.initialize()
    one = await opened("session/new")
    other = await opened("session/new")
    await agent.set_mode(one, "full-access")
    for prompt in ("One", "Write"):
        await end(one, prompt, await agent.start_prompt(one, prompt))
    turns = [
        (prompt, await agent.start_prompt(one, prompt))
        for prompt in ("Two", "Queued", "Queued too")
    ]
    for prompt, turn in turns:
        await end(one, prompt, turn)
    await end(other, "Briefly", await agent.start_prompt(other, "Briefly"))
    for prompt in ("/compact", "Write", "/compact undo", "/pin Mind the cart", "Three"):
        await end(one, prompt, await agent.start_prompt(one, prompt))
    await manage(one, "A title", "session/set_title", title="A title")
    fork = await opened("session/fork", sessionId=one)
    await end(fork, "Elsewhere", await agent.start_prompt(fork, "Elsewhere"))
    await manage(fork, "archived", "session/archive")
    await manage(other, "deleted", "session/delete")
    await agent.request("session/close", {"sessionId": one})
    await agent.resume(one, folder)
    await end(one, "Four", await agent.start_prompt(one, "Four"))


async def look(
    before: AgentProcess,
    folder: Path,
    told: Told,
    agent: AgentProcess,
    server: ModelServer,
) -> None:
    """Look for all of it in another process, and go on with each session."""
    listed = (
        await agent.request(
            "session/list", {"_meta": {"acp-agent": {"archived": "include"}}}
        )
    )["sessions"]
    titles = {each["sessionId"]: each.get("title") for each in listed}
    for id, prompts in told.prompts.items():
        state = told.states.get(id, "")
        if state == "deleted" or (
            id in told.begun and id not in told.states and id not in titles
        ):
            assert id not in titles
            continue
        await agent.load(id, folder)
        if state and state != "archived":
            assert titles[id] == state
        shown = iter(
            [update["content"]["text"] for update in agent.updates(id, KINDS[0])]
        )
        assert all(prompt in shown for prompt in prompts)  # in this order
        for kind in KINDS[1:]:
            texts = agent.texts(kind, id)
            for message, text in before.texts(kind, id).items():
                assert texts.get(message, "").startswith(text), (kind, message)
        for update in before.updates(id, "tool_call"):
            status = before.tool(update["toolCallId"])["status"]
            assert agent.tool(update["toolCallId"])["status"] in (
                (status,) if status in ENDED else ENDED
            )
        asked = len(server.calls)
        assert await agent.prompt(id, "Go on", 30) == {"stopReason": "end_turn"}
        said = [
            block
            for message in messages(server.calls[asked].body)
            for block in message["content"]
        ]
        calls = [block["id"] for block in said if block["type"] == "tool_use"]
        assert calls == [
            block["tool_use_id"] for block in said if block["type"] == "tool_result"
        ]
        # The summary: of a compaction that was not answered any more.
        if prompts and not prompts[-1].startswith("/"):
            known = (prompts[-1], "The summary.")
            assert any(
                text in block.get("text", "") for block in said for text in known
            )
    done = {
        each.id: each.text
        for each in shown_compactions(before)
        if "completed" in each.statuses
    }
    again = {each.id: each.text for each in shown_compactions(agent)}
    assert done.items() <= again.items()


@pytest.mark.parametrize("part", range(1, PARTS + 1))
async def test_nothing_that_was_told_is_lost_by_a_kill_at_any_write(
    tmp_path: Path, part: int
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    number = part
    ended = False
    async with model_server(answer, "openai") as server:
        while not ended:
            home = tmp_path / str(number)
            told = Told()
            options = {"home": home, "env": server.env(), "capabilities": EDITOR}
            async with start_agent(
                module=("tests.soak.killing", str(number)), **options
            ) as before:
                try:
                    await work(before, folder, told)
                    ended = True
                except AgentGoneError:
                    assert await before.wait_exit() == -9
                    before.problems.clear()
            async with connected_agent(**options) as agent:
                await look(before, folder, told, agent, server)
            number += PARTS
            server.calls.clear()
            server.requests.clear()
    points = number // PARTS - 1
    print(f"killed at {points} points", flush=True)
    assert points > 50
