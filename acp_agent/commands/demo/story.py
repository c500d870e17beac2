"""What happens in the demo, from the first prompt to the last, and what was measured on the way.

Knows the agent and the editor by what they offer; neither processes nor the wire. What to think of it is `verdict`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import anyio.to_thread

from acp_agent.commands.demo.agent import AgentProcess
from acp_agent.commands.demo.editor import Editor
from acp_agent.commands.demo.scratch import Scratch, TestRun
from acp_agent.commands.demo.screen import INDENT, Screen
from acp_agent.commands.demo.view import View
from acp_agent.errors import AgentError

TASK = "The tests of this project fail. Find out why, mend it, and show me that they pass."
LATER = "Good. Later, when I say so, I also want a test for a night shift with a break."
COMPACT = "/compact keep the test that I still want"
NOW = "Now the test that I asked for."


@dataclass(slots=True)
class Facts:
    """What was measured on the way.

    :ivar before: the tests before the agent did anything; `mended` after the first prompt, `after` at the end.
    :ivar full: tokens in the context before the compaction; `short` after it, `resumed` at the end.
    :ivar stops: the stop reason of each prompt.
    :ivar listed: whether the new agent listed the session.
    """

    before: TestRun
    mended: TestRun | None = None
    after: TestRun | None = None
    full: int = 0
    short: int = 0
    resumed: int = 0
    stops: list[str] = field(default_factory=list[str])
    listed: bool = False


class Story:
    """Tells it.

    :param start: starts an agent, which ends with the block.
    """

    def __init__(
        self,
        scratch: Scratch,
        screen: Screen,
        view: View,
        editor: Editor,
        start: Callable[[], AbstractAsyncContextManager[AgentProcess]],
    ) -> None:
        self._scratch = scratch
        self._screen = screen
        self._view = view
        self._editor = editor
        self._start = start

    async def tell(self, before: TestRun) -> Facts:
        """Play all of it.

        :param before: what the tests say at the beginning.
        :raises AgentError: the agent failed.
        """
        facts = Facts(before)
        async with self._start() as agent:
            session_id = await self._open(agent)
            await self._work(agent, session_id, facts)
            await self._compact(agent, session_id, facts)
            self._screen.heading("Kill, start again, resume")
            await agent.kill()
            self._screen.line(
                f"{INDENT}Killed the agent, process {agent.pid}, with SIGKILL: what it had in memory is lost."
            )
        async with self._start() as agent:
            await self._resume(agent, session_id, facts)
        return facts

    async def _open(self, agent: AgentProcess) -> str:
        answer = await agent.initialize()
        info = answer.agent_info
        name = f"{info.name} {info.version}" if info else "agent"
        self._screen.line(
            f"{INDENT}Agent       {name}, process {agent.pid}, ACP {answer.protocol_version} over its stdin and stdout"
        )
        session_id = await agent.new_session(self._scratch.repository)
        self._screen.line(f"{INDENT}Session     {session_id}")
        return session_id

    async def _work(self, agent: AgentProcess, session_id: str, facts: Facts) -> None:
        self._screen.heading("A failing test")
        await self._prompt(agent, session_id, TASK, facts)
        facts.mended = await anyio.to_thread.run_sync(self._scratch.run_tests)
        await self._prompt(agent, session_id, LATER, facts)

    async def _compact(self, agent: AgentProcess, session_id: str, facts: Facts) -> None:
        self._screen.heading("Compaction")
        facts.full = self._used()
        self._view.meter(self._editor.usage, "Before")
        await self._prompt(agent, session_id, COMPACT, facts)
        facts.short = self._used()
        self._view.meter(self._editor.usage, "After")

    async def _resume(self, agent: AgentProcess, session_id: str, facts: Facts) -> None:
        await agent.initialize()
        self._screen.line(f"{INDENT}Started another one, process {agent.pid}. It lists the sessions of this folder:")
        for session in await agent.sessions(self._scratch.repository):
            facts.listed = facts.listed or session.session_id == session_id
            self._screen.line(f"{INDENT * 2}{session.session_id}  {session.title or '(untitled)'}", "dim")
        await agent.resume(session_id, self._scratch.repository)
        where = (
            " What “the test” is stands in what the compaction kept: your own words, and the summary."
            if facts.short < facts.full
            else ""
        )
        self._screen.line(f"{INDENT}Resumed it.{where}")
        await self._prompt(agent, session_id, NOW, facts)
        facts.resumed = self._used()
        facts.after = await anyio.to_thread.run_sync(self._scratch.run_tests)
        self._screen.line()
        self._view.meter(self._editor.usage)

    async def _prompt(self, agent: AgentProcess, session_id: str, text: str, facts: Facts) -> None:
        self._view.prompt(text)
        stop = await agent.prompt(session_id, text)
        self._screen.end()
        facts.stops.append(stop)
        if stop != "end_turn":
            self._screen.line(f"{INDENT}(The turn ended with {stop}.)", "yellow")

    def _used(self) -> int:
        if self._editor.usage is None:
            raise AgentError("The agent did not say how many tokens are used (no usage_update).")
        return self._editor.usage[0]
