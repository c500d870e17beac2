"""`acp-agent chat`: a conversation in the terminal, over the same sessions as in an editor."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
from prompt_toolkit.utils import is_dumb_terminal

from acp_agent.cli.chat.completion import PromptCompleter, prompt_parts
from acp_agent.cli.chat.screen import Key, Screen, terminal_output
from acp_agent.cli.chat.view import ChatView
from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.cli.terminal.sessions import OpenedSession, add_options, opened_session
from acp_agent.config.home import ensure_private_dir, home_dir
from acp_agent.conversation.updates import Update, UsageUpdated, UserSaid
from acp_agent.errors import AgentError
from acp_agent.session.project.settings import MODE

_NO_TERMINAL = (
    "A conversation needs a terminal for both its input and its output, and one that can move its cursor. Without it, "
    'ask with `acp-agent run "…"`, and `acp-agent run --follow "…"` goes on.'
)
_HISTORY_FILE = "chat_history"
_NEXT_MODES = {"ask": "accept-edits", "accept-edits": "plan"}
"""The mode that shift-tab leads to, where it is not `ask`; `full-access` is too much for one key."""
_PROMPTS_AGAIN = 2
"""How many of the newest prompts are shown, with what came of them, where a conversation goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    add_options(parser)


async def run(arguments: argparse.Namespace) -> int:
    """Converse in a new session, or in one that is named or followed.

    :returns: 0.
    :raises AgentError: there is no terminal, or no such session.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or is_dumb_terminal(os.environ.get("TERM") or "dumb"):
        raise AgentError(_NO_TERMINAL)
    history = ensure_private_dir(home_dir(os.environ)) / _HISTORY_FILE
    history.touch(0o600)
    view = ChatView(Screen(PromptCompleter(), history, terminal_output()))
    client = TerminalClient(view)
    opened: OpenedSession | None = None
    try:
        async with opened_session(arguments, client) as opened:
            view.cwd = view.screen.completer.cwd = Path(opened.session.state.cwd)
            await _Conversation(opened, client, view).run()
    finally:
        if opened is not None and opened.is_kept:
            view.line("dim", f"`acp-agent chat -c {opened.session.session_id}` goes on with this conversation.")
    return 0


class _Conversation:
    """A session and the screen that it is shown on."""

    def __init__(self, opened: OpenedSession, client: TerminalClient, view: ChatView) -> None:
        self._opened, self._session = opened, opened.session
        self._client, self._view, self._screen = client, view, view.screen

    async def run(self) -> None:
        """Converse until the person leaves."""
        await self._show_again()
        await self._session.show_offers()
        self._session.prewarm()
        self._view.line("dim", "/help lists the commands, shift-tab changes the mode, ctrl-d leaves.")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_meter)
            async with anyio.create_task_group() as screen:
                screen.start_soon(self._screen.run)
                with self._screen.input:
                    await self._take_input()
                self._screen.leave()
            tasks.cancel_scope.cancel()

    async def _show_again(self) -> None:
        """Show the newest prompts with what came of them."""
        replayed: list[Update] = []
        self._client.replayed = replayed
        try:
            await self._session.replay()
        finally:
            self._client.replayed = None
        prompts = [0] * _PROMPTS_AGAIN + [at for at, update in enumerate(replayed) if isinstance(update, UserSaid)]
        for update in replayed[prompts[-_PROMPTS_AGAIN] :]:
            await self._client.show(update)
        self._view.end_stream()
        self._view.busy("")

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
            self._view.failed(error)
            return
        self._view.prompt(text)
        if waits:
            joins = self._session.state.settings.prompts_while_working == "steer"
            self._view.line("dim", f"  ({'joins the turn' if joins else 'comes next'})")

    async def _next_mode(self) -> None:
        try:
            await self._session.set_option(MODE, _NEXT_MODES.get(self._session.state.mode, "ask"))
        except AgentError as error:
            self._view.failed(error)

    async def _keep_meter(self) -> None:
        """Keep the meter up to date until cancelled."""
        while True:
            self._client.changed = changed = anyio.Event()
            model, threshold = "no model", None
            with suppress(AgentError):  # the next prompt says what is wrong
                model, threshold = await self._session.options.threshold()
            self._screen.show_meter(_meter(self._session.state.mode, self._client.usage, threshold, model))
            await changed.wait()


def _meter(mode: str, usage: UsageUpdated | None, threshold: int | None, model: str) -> str:
    """Return the mode, how full the window is, what the session has cost, and the model.

    :param threshold: tokens from which on it is compacted by itself; None where it is not.
    """
    if usage is None or not usage.used:
        return f"{mode} · context empty · {model}"
    size = f"{_short(usage.used)} of {_short(usage.size)} tokens ({usage.used / usage.size:.0%})"
    compacts = "no automatic compaction" if threshold is None else f"compacts at {_short(threshold)}"
    cost = "" if usage.cost is None else f"${usage.cost:.2f} · "
    return f"{mode} · {size}, {compacts} · {cost}{model}"


def _short(tokens: int) -> str:
    """Return three digits: `0.95k`, `12.3k`, `128k`, `1.05M`."""
    return f"{tokens / 1_000_000:.3g}M" if tokens >= 999_500 else f"{tokens / 1_000:.3g}k"
