"""A session whose model is asked for summaries beside its turns, and answers both as a
test says.

    summary, hold = held()                                  # stops in its middle until `hold` is set
    async with desk(tmp_path, summary) as it:
        await it.filled()                                   # from now on a summary is due to be prepared
        await it.prompt("Two?", Reply("Second answer."))
        hold.set()
        await it.ready()

The window is 20,000 tokens, of which 15,000 are usable: prepared from 10,500 on, put in
place from 12,000 on, waited for from 14,250 on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from support.client import AgentProcess, connected_agent
from support.compactions import is_summary_request, messages
from support.editors import ZED_BETA, Editor
from support.models import ModelServer, Reply, Usage, model_server
from support.stage import Connect

WINDOW = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
LONG = "The cart adds prices. " * 900
PREPARE = 11_000
THRESHOLD = 12_500
OUT_OF_ROOM = 14_400
SUMMARY = "# Goal\nA cart."


@dataclass(slots=True)
class Desk:
    """A session whose model has answers for turns and, apart from them, for summaries.

    :ivar env: what the agent was started with.
    :ivar answers: to the turns' requests, in order.
    :ivar summaries: to the requests for a summary, in order.
    """

    home: Path
    agent: AgentProcess = field(init=False)
    server: ModelServer = field(init=False)
    session: str = field(init=False)
    env: dict[str, str] = field(init=False)
    answers: list[Reply] = field(default_factory=list[Reply])
    summaries: list[Reply] = field(default_factory=list[Reply])

    def answer(self, body: Mapping[str, Any]) -> Reply:
        return (self.summaries if is_summary_request(body) else self.answers).pop(0)

    async def prompt(self, text: str, *answers: Reply) -> None:
        self.answers += answers
        assert await self.agent.prompt(self.session, text, 30) == {
            "stopReason": "end_turn"
        }
        assert self.answers == []

    async def filled(self, used: int = PREPARE) -> None:
        """One long answer, so that the next request begins with so many tokens."""
        await self.prompt("One?", Reply(LONG, usage=Usage(used - 400, 400)))

    async def ready(self) -> None:
        """Wait until a summary is ready, as the user may ask at any time."""
        with anyio.fail_after(5):
            while True:
                begun = len(self.agent.lines)
                await self.prompt("/compact status")
                if "a summary is ready" in self.agent.text(since=begun):
                    return

    @property
    def asked(self) -> int:
        return sum(is_summary_request(call.body) for call in self.server.calls)

    @property
    def last(self) -> list[dict[str, Any]]:
        return messages(
            [
                call.body
                for call in self.server.calls
                if not is_summary_request(call.body)
            ][-1]
        )

    def logged(self) -> list[str]:
        """The kinds of the events that are in the log."""
        with closing(
            sqlite3.connect(
                f"file:{self.home / 'state' / 'sessions.db'}?mode=ro", uri=True
            )
        ) as database:
            return [
                kind
                for (kind,) in database.execute(
                    "SELECT kind FROM events ORDER BY session, seq"
                )
            ]


@asynccontextmanager
async def desk(
    tmp_path: Path,
    *summaries: Reply,
    editor: Editor = ZED_BETA,
    env: Mapping[str, str] = WINDOW,
    config: Mapping[str, Any] | None = None,
    script: Callable[[Mapping[str, Any]], Reply] | None = None,
    connect: Connect = connected_agent,
) -> AsyncGenerator[Desk]:
    """Open a session.

    :param env: added to what sends the agent to the model, and to the other provider,
        Anthropic's.
    :param script: answers all requests, in place of `answers` and `summaries`.
    :param connect: starts the agent: a process, or as `support.memory` does.
    """
    it = Desk(tmp_path, summaries=list(summaries))
    async with model_server(script or it.answer, "openai") as it.server:
        if config is not None:
            it.server.write_config(tmp_path, config)
        it.env = it.server.env("anthropic") | it.server.env() | {**env}
        async with connect(home=tmp_path, env=it.env, capabilities=editor) as it.agent:
            it.session = await it.agent.new_session(tmp_path)
            yield it


def held() -> tuple[Reply, anyio.Event]:
    """A summary that stops in its middle until the event is set."""
    hold = anyio.Event()
    return Reply([SUMMARY[:3], SUMMARY[3:]], hold=hold, hold_after=1), hold
