"""On a server that handles one request at a time, background summaries run only while
no turn needs the server.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.compactions import shown_compactions
from support.dialogues import asks_for_summary
from support.editors import ZED_BETA
from support.http_server import Exchange, http_server
from support.memory import AgentInMemory, agent_in_memory
from support.models import (
    DialectName,
    ModelServer,
    Reply,
    ToolCall,
    Usage,
    model_server,
)

LONG = "The cart adds prices. " * 900
PREPARE = 11_000
THRESHOLD = 12_500
SUMMARY = "# Goal\nA cart."


@dataclass(slots=True)
class Queue:
    """A session on a server that handles one request at a time and queues the others.

    :ivar answers: replies to the turns' requests, in order.
    :ivar summaries: replies to the summary requests, in order.
    :ivar queued: set when a request has to wait for another one.
    """

    agent: AgentInMemory = field(init=False)
    server: ModelServer = field(init=False)
    session: str = field(init=False)
    answers: list[Reply] = field(default_factory=list[Reply])
    summaries: list[Reply] = field(default_factory=list[Reply])
    queued: anyio.Event = field(default_factory=anyio.Event)

    def answer(self, body: Mapping[str, Any]) -> Reply:
        return (self.summaries if asks_for_summary(body) else self.answers).pop(0)

    async def prompt(self, text: str, *answers: Reply) -> None:
        self.answers += answers
        assert await self.agent.prompt(self.session, text, 20) == {
            "stopReason": "end_turn"
        }

    @property
    def asked(self) -> int:
        return sum(asks_for_summary(call.body) for call in self.server.calls)

    async def ready(self) -> None:
        """Wait until a summary is ready."""
        with anyio.fail_after(10):
            while True:
                begun = len(self.agent.lines)
                await self.prompt("/compact status")
                if "a summary is ready" in self.agent.text(since=begun):
                    return


@asynccontextmanager
async def queue(
    tmp_path: Path, dialect: DialectName, *summaries: Reply
) -> AsyncGenerator[Queue]:
    """Open a session on a server that handles one request at a time."""
    it = Queue(summaries=list(summaries))
    slot = anyio.Lock()

    async def app(exchange: Exchange) -> None:
        if exchange.request.method != "POST":
            await it.server.serve(exchange)
            return
        if slot.locked():
            it.queued.set()
        async with slot:
            await it.server.serve(exchange)

    async with model_server(it.answer, dialect) as it.server, http_server(app) as url:
        it.server.write_config(tmp_path)
        file = tmp_path / "state" / "config.yaml"
        config = json.loads(file.read_text().replace(it.server.base_url, url))
        file.write_text(json.dumps({**config, "context_window": 20_000}))
        async with agent_in_memory(
            home=tmp_path, env=it.server.env(), capabilities=ZED_BETA
        ) as it.agent:
            it.session = await it.agent.new_session(tmp_path)
            yield it


def held() -> tuple[Reply, anyio.Event]:
    """Return a summary that pauses after its beginning until the event is set, and the
    event.
    """
    hold = anyio.Event()
    return Reply([SUMMARY[:3], SUMMARY[3:]], hold=hold, hold_after=1), hold


async def test_on_a_local_server_a_summary_waits_for_turns_and_yields_to_them(
    tmp_path: Path,
) -> None:
    first, _ = held()
    async with queue(tmp_path, "ollama", first, Reply(SUMMARY)) as it:
        await it.prompt("One?", Reply(LONG, usage=Usage(PREPARE - 400, 400)))
        look = ToolCall("list", {"path": "."})
        steps = [Reply("Step.", tool_calls=[look], usage=Usage(PREPARE, 5))] * 3
        await it.prompt(
            "Two?", *steps, Reply("Second answer.", usage=Usage(PREPARE, 5))
        )
        # All steps of the turn were answered before the summary was requested.
        assert [asks_for_summary(call.body) for call in it.server.calls[:5]] == [
            False
        ] * 5
        await it.server.wait_held()
        assert it.asked == 1
        # The next turn gets the server at once, although the summary is unfinished.
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(PREPARE, 5)))
        await it.server.wait_aborted()
        await it.ready()
        assert it.asked == 2
        await it.prompt("Four?", Reply("Fourth answer."))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (
            ["in_progress", "completed"],
            SUMMARY,
        )
        assert not it.server.calls[-1].mentions(LONG)


async def test_a_full_turn_does_not_wait_for_a_delayed_summary(
    tmp_path: Path,
) -> None:
    first, _ = held()
    async with queue(tmp_path, "ollama", first) as it:
        await it.prompt("One?", Reply(LONG, usage=Usage(PREPARE - 400, 400)))
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(14_600, 5)))
        await it.server.wait_held()
        await it.prompt("Three?", Reply("Third answer."))
        [compaction] = shown_compactions(it.agent)
        assert "No summary was written." in compaction.text
        assert it.asked == 1


async def test_compact_uses_the_delayed_summary_and_waits_until_it_is_written(
    tmp_path: Path,
) -> None:
    first, _ = held()
    async with queue(tmp_path, "ollama", first, Reply(SUMMARY)) as it:
        await it.prompt("One?", Reply(LONG, usage=Usage(PREPARE - 400, 400)))
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE, 5)))
        await it.server.wait_held()
        third = Reply(["Third ", "answer."], hang=True)
        it.answers.append(third)
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.server.wait_held(2)
        await it.agent.cancel(it.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses[-1], compaction.text) == ("completed", SUMMARY)


async def test_a_server_makes_a_turn_wait_for_a_summary_only_once(
    tmp_path: Path,
) -> None:
    first, hold = held()
    async with queue(tmp_path, "chat", first, Reply(SUMMARY)) as it:
        await it.prompt("One?", Reply(LONG, usage=Usage(PREPARE - 400, 400)))
        it.answers += [Reply("Yes.", usage=Usage(PREPARE, 5))] * 2
        second = await it.agent.start_prompt(it.session, "Two?")
        await it.server.wait_held()
        third = await it.agent.start_prompt(it.session, "Three?")
        with anyio.fail_after(10):
            await it.queued.wait()
        hold.set()
        assert await second.result() == {"stopReason": "end_turn"}
        assert await third.result() == {"stopReason": "end_turn"}
        await it.prompt("Four?", Reply(LONG, usage=Usage(PREPARE - 400, 400)))
        assert len(shown_compactions(it.agent)) == 1
        # Another summary becomes due in the middle of this turn, but is not requested
        # until the turn has ended.
        before = len(it.server.calls)
        steps = [
            Reply(
                "Step.",
                tool_calls=[ToolCall("list", {"path": "."})],
                usage=Usage(PREPARE, 5),
            )
        ] * 2
        await it.prompt("Five?", *steps, Reply("Yes.", usage=Usage(PREPARE, 5)))
        await it.ready()
        assert [asks_for_summary(call.body) for call in it.server.calls[before:]] == [
            False,
            False,
            False,
            True,
        ]


@pytest.mark.parametrize(
    ("url", "key", "parallel"),
    [
        ("http://localhost:11434/v1", False, "one"),
        ("http://127.0.0.1:8080/v1", False, "one"),
        ("http://192.168.1.7:8080/v1", False, "one"),
        ("http://[::1]:8080/v1", False, "one"),
        ("http://gpu.local:8080/v1", False, "one"),
        ("http://127.0.0.1:4000/v1", True, "unknown"),
        ("https://api.deepseek.com/v1", True, "many"),
        ("https://llm.example.com/v1", False, "many"),
        ("http://8.8.8.8/v1", False, "many"),
    ],
)
def test_local_servers_are_recognised_by_their_address(
    url: str, key: bool, parallel: str
) -> None:
    from acp_agent.llm.places import Endpoint

    assert Endpoint("mine", "openai-chat", url, required=key).parallel == parallel
    assert Endpoint("anthropic", "anthropic", url, required=key).parallel == "many"
