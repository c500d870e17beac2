"""`Conversation`: what a person types becomes prompts of a session, and keys act on its turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from acp_agent.commands.chat.client import ChatClient
from acp_agent.commands.chat.completion import PromptCompleter, PromptHistory
from acp_agent.commands.chat.mentions import prompt_parts
from acp_agent.commands.chat.meter import Meter
from acp_agent.commands.chat.screen import Key, Screen
from acp_agent.commands.view import View, terminal_output
from acp_agent.errors import AgentError
from acp_agent.session.manager import SessionManager
from acp_agent.session.options import MODE
from acp_agent.session.session import Session
from acp_agent.tools.text import cut_middle
from acp_agent.turn.updates import AgentSaid, AgentThought, CallFinished, Update, UserSaid

HISTORY_FILE = "chat_history"
MODES = ("ask", "accept-edits", "plan")
"""Modes that shift-tab leads through; `full-access` is too much for one key."""
MAX_PROMPTS_AGAIN = 2
MAX_TEXT_AGAIN = 1_500
"""Prompts, and characters of an answer, that are shown where a conversation goes on."""


class Conversation:
    """A session and the screen that it is shown on.

    :param cwd: absolute path of the session's directory.
    :param home: the agent's home.
    :param env: environment variables.
    """

    def __init__(self, cwd: Path, home: Path, env: Mapping[str, str]) -> None:
        self._cwd = cwd
        completer = PromptCompleter(cwd)
        self._screen = Screen(completer, PromptHistory(home / HISTORY_FILE), terminal_output())
        self.view = View(self._screen, cwd, env)
        self.client = ChatClient(self._screen, self.view, completer)

    async def run(self, manager: SessionManager, session: Session, *, again: bool) -> bool:
        """Converse until the person leaves.

        :param again: whether the session was there before.
        :returns: False where not the person has left, but the terminal.
        """
        if again:
            await self._show_again(manager, session)
        await session.show_offers()
        manager.prewarm(session)
        self.view.line("dim", "/help lists the commands, shift-tab changes the mode, ctrl-d leaves.")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_meter, session)
            async with anyio.create_task_group() as screen:
                screen.start_soon(self._screen.run)
                with self._screen.input:
                    await self._take_input(session)
                self._screen.leave()
            tasks.cancel_scope.cancel()
        return not self._screen.gone

    async def _show_again(self, manager: SessionManager, session: Session) -> None:
        """Show the newest prompts with what came of them, in short."""
        replayed: list[Update] = []
        self.client.replayed = replayed
        try:
            await manager.replay(session)
        finally:
            self.client.replayed = None
        for update in _newest_in_short(replayed, self.view):
            self.client.print(update)
        self.view.end_stream()

    async def _take_input(self, session: Session) -> None:
        """Act on what is typed, in its order, until the person leaves."""
        leaving = False
        async for typed in self._screen.input:
            match typed:
                case Key.NEXT_MODE:
                    await self._next_mode(session)
                case Key.INTERRUPT if self.client.working and not self.client.cancelled:
                    self.client.cancelled = True
                    session.cancel()
                case Key.INTERRUPT if self.client.working or leaving:
                    return
                case Key.INTERRUPT:
                    leaving = True
                    self.view.line("dim", "Once more ctrl-c, or ctrl-d, leaves.")
                case str():
                    leaving = False
                    await self._send(session, typed)

    async def _send(self, session: Session, text: str) -> None:
        waits = self.client.working
        try:
            session.submit(await anyio.to_thread.run_sync(prompt_parts, text, self._cwd))
        except AgentError as error:
            self.client.failed(error)
            return
        self.view.prompt(text)
        if waits:
            joins = session.host.settings.prompts_while_working == "steer"
            self.view.line("dim", f"  ({'joins the turn' if joins else 'comes next'})")

    async def _next_mode(self, session: Session) -> None:
        mode = session.host.mode
        following = MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]
        try:
            await session.set_option(MODE, following)
        except AgentError as error:
            self.client.failed(error)

    async def _keep_meter(self, session: Session) -> None:
        """Keep the meter as it is by now, until this is cancelled."""
        meter = Meter()
        while True:
            self.client.changed = changed = anyio.Event()
            meter = await self._meter(session, meter)
            self._screen.show_meter(meter)
            await changed.wait()

    async def _meter(self, session: Session, before: Meter) -> Meter:
        host, usage = session.host, self.client.usage
        try:
            model = await host.models.name(host.model) or ""
            meter = replace(before, model=model, mode=host.mode)
            if usage is not None:
                settings = host.compaction_settings(model)
                budget = (await host.models.active(host.model)).budget
                threshold = int(budget.usable * settings.threshold) if settings.auto else None
                meter = replace(meter, used=usage.used, window=usage.size, cost=usage.cost, threshold=threshold)
        except AgentError:
            return before  # the next prompt says what is wrong
        return meter


def _newest_in_short(updates: Sequence[Update], view: View) -> Iterator[Update]:
    """Yield the updates of the newest prompts, without thoughts and changes of files, and with long texts cut."""
    prompts = list(dict.fromkeys(update.message_id for update in updates if isinstance(update, UserSaid)))
    newest = prompts[-MAX_PROMPTS_AGAIN:]
    starts = [at for at, each in enumerate(updates) if isinstance(each, UserSaid) and each.message_id in newest]
    for update in updates[starts[0] if starts else 0 :]:
        match update:
            case AgentThought():
                pass
            case AgentSaid():
                # Masked before it is cut: half a secret is not recognized.
                yield replace(update, text=cut_middle(view.safe(update.text), MAX_TEXT_AGAIN))
            case CallFinished():
                yield replace(update, view=replace(update.view, diffs=()))
            case _:
                yield update
