"""`acp-agent chat`: a conversation in the terminal, over the same sessions as in an editor."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from prompt_toolkit.utils import is_dumb_terminal

from acp_agent.cli.chat.client import ChatClient
from acp_agent.cli.chat.completion import prompt_parts
from acp_agent.cli.chat.screen import Key, Meter
from acp_agent.cli.terminal.sessions import OpenedSession, add_options, add_session_choice, opened_session, set_options
from acp_agent.config import home_dir
from acp_agent.conversation.updates import Update, UserSaid
from acp_agent.errors import AgentError
from acp_agent.session.project.settings import MODE

_NO_TERMINAL = (
    "A conversation needs a terminal for both its input and its output, and one that can move its cursor. Without it, "
    'ask with `acp-agent run "…"`, and `acp-agent run --follow "…"` goes on.'
)
_MODES = ("ask", "accept-edits", "plan")
"""Modes that shift-tab leads through; `full-access` is too much for one key."""
_PROMPTS_AGAIN = 2
"""How many of the newest prompts are shown, with what came of them, where a conversation goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    add_session_choice(parser, required=False)
    add_options(parser)


async def run(arguments: argparse.Namespace) -> int:
    """Converse in a new session, or in one that is named or followed.

    :returns: 0; 1 where the terminal has gone.
    :raises AgentError: there is no terminal, or no such session.
    """
    env = os.environ
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or is_dumb_terminal(env.get("TERM") or "dumb"):
        raise AgentError(_NO_TERMINAL)
    opened: OpenedSession[ChatClient] | None = None
    stayed = False
    try:
        async with opened_session(arguments, partial(ChatClient, home_dir(env), env)) as opened:
            await set_options(opened.session, model=arguments.model, mode=arguments.mode)
            stayed = await _Conversation(opened).run()
    finally:
        if opened is not None and opened.is_kept:
            text = f"`acp-agent chat -c {opened.session.session_id}` goes on with this conversation."
            opened.client.view.line("dim", text)
    return 0 if stayed else 1


class _Conversation:
    """A session and the screen that it is shown on."""

    def __init__(self, opened: OpenedSession[ChatClient]) -> None:
        self._opened = opened
        self._session, self._client, self._view = opened.session, opened.client, opened.client.view
        self._screen = opened.client.screen

    async def run(self) -> bool:
        """Converse until the person leaves.

        :returns: False where not the person has left, but the terminal.
        """
        if not self._opened.is_new:
            await self._show_again()
        await self._session.show_offers()
        self._opened.manager.prewarm(self._session)
        self._view.line("dim", "/help lists the commands, shift-tab changes the mode, ctrl-d leaves.")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_meter)
            async with anyio.create_task_group() as screen:
                screen.start_soon(self._screen.run)
                with self._screen.input:
                    await self._take_input()
                self._screen.leave()
            tasks.cancel_scope.cancel()
        return not self._screen.gone

    async def _show_again(self) -> None:
        """Show the newest prompts with what came of them."""
        replayed: list[Update] = []
        self._client.replayed = replayed
        try:
            await self._session.replay()
        finally:
            self._client.replayed = None
        prompts = [at for at, update in enumerate(replayed) if isinstance(update, UserSaid)]
        for update in replayed[prompts[-min(_PROMPTS_AGAIN, len(prompts))] if prompts else 0 :]:
            self._client.print(update)
        self._view.end_stream()

    async def _take_input(self) -> None:
        """Act on what is typed, in its order, until the person leaves."""
        leaving = False
        async for typed in self._screen.input:
            match typed:
                case Key.NEXT_MODE:
                    await self._next_mode()
                case Key.INTERRUPT if self._client.working and not self._client.cancelled:
                    self._client.cancelled = True
                    self._session.cancel()
                case Key.INTERRUPT if self._client.working or leaving:
                    return
                case Key.INTERRUPT:
                    leaving = True
                    self._view.line("dim", "Once more ctrl-c, or ctrl-d, leaves.")
                case str():
                    leaving = False
                    await self._send(typed)

    async def _send(self, text: str) -> None:
        waits = self._client.working
        try:
            cwd = Path(self._session.state.cwd)
            self._session.submit(await anyio.to_thread.run_sync(prompt_parts, text, cwd))
        except AgentError as error:
            self._client.failed(error)
            return
        self._view.prompt(text)
        if waits:
            joins = self._session.state.settings.prompts_while_working == "steer"
            self._view.line("dim", f"  ({'joins the turn' if joins else 'comes next'})")

    async def _next_mode(self) -> None:
        mode = self._session.state.mode
        following = _MODES[(_MODES.index(mode) + 1) % len(_MODES)] if mode in _MODES else _MODES[0]
        try:
            await self._session.set_option(MODE, following)
        except AgentError as error:
            self._client.failed(error)

    async def _keep_meter(self) -> None:
        """Keep the meter up to date until cancelled."""
        meter = Meter()
        while True:
            self._client.changed = changed = anyio.Event()
            meter = await self._meter(meter)
            self._screen.show_meter(meter)
            await changed.wait()

    async def _meter(self, before: Meter) -> Meter:
        usage = self._client.usage
        try:
            model, threshold = await self._session.options.threshold()
            meter = replace(before, model=model, mode=self._session.state.mode)
            if usage is not None:
                meter = replace(meter, used=usage.used, window=usage.size, cost=usage.cost, threshold=threshold)
        except AgentError:
            return before  # the next prompt says what is wrong
        return meter
