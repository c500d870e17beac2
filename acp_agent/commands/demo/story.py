"""What happens in `acp-agent demo`, from the first prompt to the last, and whether it was as promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from acp_agent.commands.demo.client import Agent, Observed, objects
from acp_agent.commands.demo.scratch import TestRun, run_tests
from acp_agent.commands.view import View
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.protocol.v1 import methods

TASK = "The tests of this project fail. Find out why, mend it, and show me that they pass."
LATER = "Good. Later, when I say so, I also want a test for a night shift with a break."
COMPACT = "/compact keep the test that I still want"
NOW = "Now the test that I asked for."
METER_CELLS = 40


@dataclass(slots=True)
class Facts:
    """What was measured on the way.

    :ivar before: the tests before the agent did anything; `mended` after the first prompt, `after` at the end.
    :ivar full: tokens in the context before the compaction; `short` after it, `resumed` at the end.
    :ivar listed: whether the new agent listed the session.
    """

    before: TestRun
    mended: TestRun | None = None
    after: TestRun | None = None
    full: int = 0
    short: int = 0
    resumed: int = 0
    listed: bool = False


class Story:
    """Plays it with agents that are started one after the other.

    :param project: the scratch project.
    :param start: starts an agent, which ends with the block.
    """

    def __init__(
        self,
        project: Path,
        view: View,
        observed: Observed,
        start: Callable[[], AbstractAsyncContextManager[Agent]],
    ) -> None:
        self._project = project
        self._view = view
        self._observed = observed
        self._start = start

    async def play(self, facts: Facts) -> None:
        """Play it, and note what was measured.

        :raises AgentError: an agent failed.
        """
        view, folder = self._view, str(self._project)
        async with self._start() as agent:
            about = await agent.initialize()
            version = about.get("protocolVersion")
            view.line("", f"Agent       process {agent.pid}, ACP {version} over its stdin and stdout")
            session = await agent.request(methods.SESSION_NEW, cwd=folder, mcpServers=[])
            session_id = str(session.get("sessionId"))
            view.line("", f"Session     {session_id}")

            self._heading("A failing test")
            await self._prompt(agent, session_id, TASK)
            facts.mended = await anyio.to_thread.run_sync(run_tests, self._project)
            await self._prompt(agent, session_id, LATER)

            self._heading("Compaction")
            facts.full = self._meter("Before")
            await self._prompt(agent, session_id, COMPACT)
            facts.short = self._meter("After")

            self._heading("Kill, start again, resume")
            await agent.kill()
            view.line("", f"Killed the agent, process {agent.pid}, with SIGKILL: what it had in memory is lost.")
        async with self._start() as agent:
            await agent.initialize()
            listed = objects((await agent.request(methods.SESSION_LIST, cwd=folder)).get("sessions"))
            facts.listed = any(each.get("sessionId") == session_id for each in listed)
            view.line("", f"Started another one, process {agent.pid}. It lists the sessions of this folder:")
            view.lines([("dim", f"  {each.get('sessionId')}  {each.get('title')}")] for each in listed)
            await agent.request(methods.SESSION_RESUME, sessionId=session_id, cwd=folder, mcpServers=[])
            view.line("", "Resumed it. What “the test” is stands in what the compaction kept.")
            await self._prompt(agent, session_id, NOW)
            facts.resumed = self._meter("Context")
            facts.after = await anyio.to_thread.run_sync(run_tests, self._project)

    def _heading(self, text: str) -> None:
        self._view.lines([[], [("title", f"━━ {text} {'━' * (60 - len(text))}")]])

    async def _prompt(self, agent: Agent, session_id: str, text: str) -> None:
        self._view.prompt(text)
        stop = await agent.prompt(session_id, text)
        self._view.end_stream()
        if stop != "end_turn":
            self._view.line("warning", f"(The turn ended with {stop}.)")

    def _meter(self, label: str) -> int:
        """Show how full the window is, and return the tokens that are used."""
        if self._observed.usage is None:
            raise AgentError("The agent did not say how many tokens are used (no usage_update).")
        used, size = self._observed.usage
        share = used / size if size else 0.0
        filled = min(METER_CELLS, round(share * METER_CELLS))
        bar = [("code", "█" * filled), ("dim", "░" * (METER_CELLS - filled))]
        self._view.lines([[], [("", f"{label:8} ["), *bar, ("", f"] {used:,} / {size:,} tokens ({share:.0%})")]])
        return used


@frozen
class Check:
    """One thing that was promised, whether it was kept, and what happened."""

    name: str
    kept: bool
    text: str


def checks(facts: Facts, observed: Observed) -> Iterator[Check]:
    """Compare what happened with what was promised."""
    before, mended, after = facts.before, facts.mended, facts.after
    drop = 1 - facts.short / facts.full if facts.full else 0.0
    new_test = after is not None and not after.failed and after.total > before.total
    yield Check("Tests", bool(before.failed) and mended is not None and not mended.failed, f"{before} → {mended}")
    yield Check(
        "Compaction",
        observed.compactions[-1:] == ["completed"] and facts.short < facts.full,
        f"{facts.full:,} → {facts.short:,} tokens ({drop:.0%} less)",
    )
    yield Check(
        "Restart",
        facts.listed and new_test and facts.resumed < facts.full,
        f"killed, listed, resumed; it {'knew' if new_test else 'did not add'} the test that was meant: {after}, "
        f"{facts.resumed:,} tokens",
    )


def report(view: View, found: list[Check], *, strict: bool) -> int:
    """Say what happened.

    :param strict: whether it had to happen; a real model does as it sees fit.
    :returns: the exit status: 1 where something had to happen and did not.
    """
    view.lines([[]])
    for check in found:
        mark = ("added", "✓") if check.kept else ("error", "✗")
        view.lines([[mark, ("", f" {check.name:11} {check.text}")]])
    broken = [check.name for check in found if not check.kept]
    if broken:
        promise = "This is not as it should be" if strict else "The model did not do all of it"
        view.line("error", f"{promise}: {', '.join(broken)}.")
    return 1 if broken and strict else 0
