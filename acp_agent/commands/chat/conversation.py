"""`Conversation`: a session and a desk. What is typed becomes prompts, keys act on the turn, and the meter is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from prompt_toolkit.utils import get_cwidth

from acp_agent.commands.chat.client import ChatClient
from acp_agent.commands.chat.completing import Candidate, commands_for, path_begun, paths_for
from acp_agent.commands.chat.desk import AtInterrupt, Desk, Typing
from acp_agent.commands.chat.history import HistoryFile
from acp_agent.commands.chat.mentions import MENTION, parts_of
from acp_agent.commands.chat.meter import Meter, meter_text
from acp_agent.commands.chat.plain import PlainDesk
from acp_agent.commands.chat.screen import ScreenDesk
from acp_agent.commands.safe import Safe, safe_for
from acp_agent.conversation.messages import Text, UserPart
from acp_agent.errors import AgentError
from acp_agent.session.manager import SessionManager
from acp_agent.session.options import MODE
from acp_agent.session.session import Session
from acp_agent.tools.text import counted, cut_middle
from acp_agent.turn.updates import AgentSaid, AgentThought, CallFinished, Notice, Update, UsageUpdated

CYCLE = ("ask", "accept-edits", "plan")
"""Modes that shift-tab leads through; `full-access` is too much for one key."""
CANNOT_MOVE = ("", "dumb", "unknown")
"""Kinds of terminals that cannot move their cursor."""
SHOWN_AGAIN = 2
"""Prompts that are shown with their answers where a conversation is gone on with."""
CALLS_SHOWN_AGAIN = 5
TEXT_SHOWN_AGAIN = 1_500
"""Characters of an answer."""
_LEAVE = "Once more ctrl-c, or ctrl-d, leaves."


class Conversation:
    """:param cwd: absolute path of the session's directory.
    :param home: the agent's home.
    :param env: environment variables.
    :param tasks: for what is done beside everything else.
    """

    def __init__(self, cwd: Path, home: Path, env: Mapping[str, str], tasks: TaskGroup) -> None:
        self._cwd = cwd
        self._meter = Meter()
        self._session: Session | None = None
        self._leaving = False
        self._tasks = tasks
        self._unsent: deque[str] = deque()
        self._reading = anyio.Lock()
        self._history = HistoryFile(home)
        typing, self._safe = Typing(self._entered, self._interrupted), safe_for(env)
        self._desk: Desk = (
            PlainDesk(typing, self._history.add, self._safe)
            if env.get("TERM", "").lower() in CANNOT_MOVE
            else ScreenDesk(
                typing,
                next_mode=lambda: tasks.start_soon(self._next_mode),
                candidates=self._candidates,
                meter=lambda columns: meter_text(self._meter, columns, get_cwidth),
                history=self._history,
                safe=self._safe,
            )
        )
        self.client = ChatClient(self._desk, str(cwd), env, lambda usage: tasks.start_soon(self._measure, usage))

    async def run(self, manager: SessionManager, session: Session, *, again: bool) -> bool:
        """Have the person converse until they leave.

        :param again: whether the session was there before.
        :returns: False where not the person has left, but the terminal.
        """
        self._session = session
        if again:
            await self._show_again(manager, session)
        await self._measure(None)
        await session.show_offers()
        manager.prewarm(session)
        if trouble := self._history.trouble():
            self.client.print(Notice("warning", trouble))
        keys = "ctrl-d leaves" if self._desk.keeps_typed else "shift-tab changes the mode, ctrl-d leaves"
        self.say(f"/help lists the commands, {keys}.")
        stayed = await self._desk.run()
        await self._read()
        return stayed

    def say(self, text: str) -> None:
        """Print a line of ours."""
        self._desk.lines([[("dim", text)]])

    async def _show_again(self, manager: SessionManager, session: Session) -> None:
        """The newest prompts with what came of them, in short."""
        newest: deque[list[Update]] = deque([[]], SHOWN_AGAIN)
        self.client.recording = newest
        try:
            await manager.replay(session)
        finally:
            self.client.recording = None
        for part in newest:
            for update in in_short(part, self._safe):
                self.client.print(update)
        self.client.end_stream()

    # --- what is typed ---

    def _entered(self, text: str) -> None:
        self._leaving = False
        if self._unsent or MENTION.search(text):
            self._unsent.append(text)
            self._tasks.start_soon(self._read)
        else:
            self._send(text, (Text(text),))

    async def _read(self) -> None:
        """Send what mentions files, which may be large and are read beside everything else, in the order of prompts."""
        async with self._reading:
            while self._unsent:
                text = self._unsent[0]
                parts = await anyio.to_thread.run_sync(parts_of, text, self._cwd)
                self._unsent.popleft()
                self._send(text, parts)

    def _send(self, text: str, parts: tuple[UserPart, ...]) -> None:
        assert self._session is not None
        waits = self.client.working
        try:
            self._session.submit(parts)
        except AgentError as error:
            self.client.failed(error)
            return
        joins = self._session.host.settings.prompts_while_working == "steer"
        if not self._desk.keeps_typed:
            self.client.said(text)
        if waits:
            self.client.noted("joins the turn" if joins else "comes next")

    def _interrupted(self, typed: bool) -> AtInterrupt:
        assert self._session is not None
        leaving, self._leaving = self._leaving, False
        if self.client.working:
            if self.client.cancelling:
                return "leave"
            self.client.cancelling = True
            self._session.cancel()
            return "stay"
        if typed:
            return "clear"
        if leaving:
            return "leave"
        self._leaving = True
        self.say(_LEAVE)
        self._desk.prompt()
        return "stay"

    async def _candidates(self, before: str, asked: bool) -> Sequence[Candidate]:
        commands = commands_for(before, self.client.commands_on_offer)
        if commands:
            return commands
        begun = path_begun(before, asked=asked)
        if begun is None:
            return ()
        return await anyio.to_thread.run_sync(paths_for, begun, self._cwd, abandon_on_cancel=True)

    # --- what stays below ---

    async def _next_mode(self) -> None:
        assert self._session is not None
        mode = self._session.host.mode
        following = CYCLE[(CYCLE.index(mode) + 1) % len(CYCLE)] if mode in CYCLE else CYCLE[0]
        try:
            await self._session.set_option(MODE, following)
        except AgentError as error:
            self.client.failed(error)

    async def _measure(self, usage: UsageUpdated | None) -> None:
        """Take what the meter shows as it is now."""
        assert self._session is not None
        host = self._session.host
        try:
            model = await host.models.name(host.model) or ""
            meter = replace(self._meter, model=model, mode=host.mode)
            if usage is not None:
                meter = replace(meter, used=usage.used, window=usage.size, cost=usage.cost)
            settings = host.compaction_settings(model)
            if meter.used is not None:
                budget = (await host.models.active(host.model)).budget
                threshold = int(budget.usable * settings.threshold) if settings.auto else None
                meter = replace(meter, threshold=threshold)
        except AgentError:
            return  # the next prompt says what is wrong
        self._meter = meter
        self._desk.renew()


def in_short(updates: Sequence[Update], safe: Safe) -> list[Update]:
    """What is worth showing again of a prompt: no thoughts, the newest calls without what they changed, and of long
    texts the beginning and the end.

    :param safe: makes a text safe to be shown, before it is cut.
    """
    calls = [update for update in updates if isinstance(update, CallFinished)]
    left_out = calls[: max(0, len(calls) - CALLS_SHOWN_AGAIN)]
    shown: list[Update] = []
    for update in updates:
        match update:
            case AgentThought():
                continue
            case AgentSaid():
                shown.append(replace(update, text=cut_middle(safe(update.text), TEXT_SHOWN_AGAIN)))
            case CallFinished() if update in left_out:
                if update is left_out[-1]:
                    shown.append(Notice("info", f"({counted(len(left_out), 'call')} before these)"))
            case CallFinished():
                shown.append(replace(update, view=replace(update.view, diffs=())))
            case _:
                shown.append(update)
    return shown
