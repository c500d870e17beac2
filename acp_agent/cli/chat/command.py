"""`acp-agent chat`: a conversation in the terminal, over the same sessions as in an
editor.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread
from prompt_toolkit.utils import is_dumb_terminal

from acp_agent import __version__
from acp_agent.cli.chat.commands import ALIASES, COMMANDS, SHELL, help_text
from acp_agent.cli.chat.completion import PromptCompleter
from acp_agent.cli.chat.screen import Key, Screen, terminal_output
from acp_agent.cli.chat.shell import PersonalShell
from acp_agent.cli.chat.view import ChatView
from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.cli.terminal.commands import bare_command, check_command, command_name
from acp_agent.cli.terminal.mentions import missing_files, prompt_parts
from acp_agent.cli.terminal.sessions import (
    OpenedSession,
    add_options,
    chosen_session,
    day_of,
    opened_session,
    row_of,
)
from acp_agent.config.home import ensure_private_dir, home_dir
from acp_agent.conversation.messages import Resource
from acp_agent.conversation.updates import Update, UsageUpdated, UserSaid
from acp_agent.errors import AgentError, InvalidParamsError
from acp_agent.frozen import frozen
from acp_agent.session.actor import Session
from acp_agent.session.commands import command_words
from acp_agent.session.mailbox import Ticket
from acp_agent.session.options import MODE, MODEL, MODES, NO_MODEL
from acp_agent.storage.store import SessionRecord
from acp_agent.tools.forms import FieldChoice, Form, FormField
from acp_agent.tools.text import counted
from acp_agent.visible import on_one_line

_NO_TERMINAL = (
    "`chat` needs a terminal that can move its cursor, for both input and output. Without one, "
    'use `acp-agent run "…"`, and `acp-agent run --follow "…"` to continue.'
)
_HISTORY_FILE = "chat_history"
_NEXT_MODES = {"ask": "accept-edits", "accept-edits": "plan"}
"""The mode to which shift-tab switches, by the current mode; `ask` if the current mode
is not listed. `full-access` is left out, since one key should not enable it.
"""
_PROMPTS_AGAIN = 2
"""Number of earlier prompts that are shown with their answers when a conversation is
continued.
"""
_LISTED = 20
"""Sessions in a list."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    add_options(parser)


async def run(arguments: argparse.Namespace) -> int:
    """Converse in a new session, or in one that is named or followed.

    :returns: 0.
    :raises AgentError: if there is no terminal, or no such session.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or is_dumb_terminal(
        os.environ.get("TERM") or "dumb"
    ):
        raise AgentError(_NO_TERMINAL)
    history = ensure_private_dir(home_dir(os.environ)) / _HISTORY_FILE
    history.touch(0o600)
    view = ChatView(Screen(PromptCompleter(), history, terminal_output()))
    client = TerminalClient(view)
    opened: OpenedSession | None = None
    try:
        async with opened_session(arguments, client) as opened:
            await _Conversation(opened, client, view).run()
    finally:
        if opened is not None and opened.is_kept:
            view.line(
                "dim",
                f"`acp-agent chat -c {opened.session.session_id}` continues this conversation.",
            )
    return 0


@frozen
class _Sent:
    """A prompt that was sent.

    :ivar text: the prompt as it was typed.
    :ivar printed: the outputs of the user's own commands that were sent with the
        prompt.
    """

    ticket: Ticket
    text: str
    printed: tuple[Resource, ...]


class _Conversation:
    """The open session, and the screen on which it is shown."""

    def __init__(
        self, opened: OpenedSession, client: TerminalClient, view: ChatView
    ) -> None:
        self._opened = opened
        self._client = client
        self._view = view
        self._screen = view.screen
        self._shell = PersonalShell(client.commands, view)
        self._sent: list[_Sent] = []
        self._tasks = anyio.create_task_group()
        self._aside: anyio.CancelScope | None = None
        self._one_aside = anyio.Lock()

    @property
    def _session(self) -> Session:
        return self._opened.session

    async def run(self) -> None:
        """Converse until the user leaves."""
        await self._begin()
        async with self._tasks:
            self._tasks.start_soon(self._keep_meter)
            async with anyio.create_task_group() as screen:
                screen.start_soon(self._screen.run)
                with self._screen.input:
                    await self._take_input()
                self._screen.leave()
            self._tasks.cancel_scope.cancel()

    async def _begin(self) -> None:
        """Show which session this is, and the newest prompts with their answers."""
        session = self._session
        self._view.cwd = self._screen.completer.cwd = session.state.cwd
        named = await self._model_name()
        self._view.line(
            "dim",
            f"acp-agent {__version__} · {on_one_line(session.state.cwd)} · {session.session_id} · {named}",
        )
        self._view.line(
            "dim",
            "/help lists commands, ! runs a shell command, shift-tab changes the mode, ctrl-d quits.",
        )
        await self._show_again()
        await session.show_offers()
        session.prewarm()
        self._client.changed.set()

    async def _model_name(self) -> str:
        model = next(
            option for option in await self._session.options.all() if option.id == MODEL
        )
        chosen = next(
            choice for choice in model.choices if choice.value == model.current
        )
        return chosen.name if chosen.value == NO_MODEL else chosen.value

    async def _show_again(self) -> None:
        """Show the newest prompts with their answers."""
        replayed: list[Update] = []
        self._client.replayed = replayed
        try:
            await self._session.replay()
        finally:
            self._client.replayed = None
        parts = [
            (at, update.message_id)
            for at, update in enumerate(replayed)
            if isinstance(update, UserSaid)
        ]
        prompts = sorted(
            {message_id: at for at, message_id in reversed(parts)}.values()
        )
        begin = 0
        earlier = len(prompts) - _PROMPTS_AGAIN
        if earlier > 0:
            begin = prompts[earlier]
            self._view.line(
                "dim",
                f"({counted(earlier, 'earlier prompt')} not shown; `/export` writes the whole conversation.)",
            )
        for update in replayed[begin:]:
            await self._client.show(update)
        self._view.end_stream()
        self._view.busy("")

    async def _take_input(self) -> None:
        """Act on each input in order until the user leaves."""
        leaving = False
        async for typed in self._screen.input:
            match typed:
                case Key.NEXT_MODE:
                    mode = _NEXT_MODES.get(self._session.state.mode, "ask")
                    await self._attempt(self._session.set_option(MODE, mode))
                case Key.UNFOLD:
                    self._view.unfold()
                case Key.INTERRUPT if self._aside is not None:
                    self._aside.cancel()
                case Key.INTERRUPT if (
                    self._client.working and not self._client.cancelled
                ):
                    self._client.cancelled = True
                    self._take_back()
                    self._session.cancel()
                case Key.INTERRUPT if self._client.working or leaving:
                    return
                case Key.INTERRUPT:
                    leaving = True
                    self._view.line("dim", "Press ctrl-c again, or ctrl-d, to quit.")
                case str():
                    leaving = False
                    self._view.prompt(typed)
                    await self._attempt(self._take(typed))

    async def _attempt(self, work: Awaitable[object]) -> None:
        """Await `work`, and show the error if it fails."""
        try:
            await work
        except AgentError as error:
            self._view.failed(error)

    async def _do_aside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do some work while the user can continue to type. Only one such work runs at
        a time, and ctrl-c ends it.
        """
        if self._one_aside.locked():
            self._view.line("dim", "  (queued; ctrl-c ends the running command)")
        async with self._one_aside:
            with anyio.CancelScope() as self._aside:
                await self._attempt(work())
            self._aside = None

    async def _take(self, text: str) -> None:
        """Run a command of the user's own or of the terminal, or send a prompt.

        :raises AgentError: if this fails.
        """
        others = {command.name for command in COMMANDS}
        text = await self._in_our_words(text)
        name = command_name(text)
        if text.startswith(SHELL) and (line := text.removeprefix(SHELL).strip()):
            self._tasks.start_soon(
                self._do_aside, partial(self._shell.run, line, self._session.state.cwd)
            )
        elif name in others and name not in {
            command.name for command in await self._session.offer.commands()
        }:
            await self._run_command(name, *text.strip().split(maxsplit=1)[1:])
        else:
            await check_command(self._session, text, others)
            if name == "help":
                self._view.markdown(help_text())
            await self._send(text)

    async def _in_our_words(self, text: str) -> str:
        """Return a text with another agent's name for a command replaced by our name.

        The text is unchanged if a recipe or a prompt of an MCP server has that name.
        """
        if word := bare_command(text):
            return f"/{word}"
        name = command_name(text)
        ours = ALIASES.get(name.lower())
        if ours is None or name in {
            command.name for command in await self._session.offer.commands()
        }:
            return text
        return text.replace(f"/{name}", f"/{ours}", 1)

    async def _send(self, text: str) -> None:
        waits = self._client.working
        cwd = self._session.state.cwd
        parts = await anyio.to_thread.run_sync(prompt_parts, text, cwd)
        for name in missing_files(text, cwd):
            self._view.line(
                "warning", f"There is no file {name}: `@{name}` is sent as text."
            )
        is_prose = command_words(parts) is None
        printed = tuple(self._shell.printed) if is_prose else ()
        ticket = self._session.submit((*parts, *printed))
        self._sent = [each for each in self._sent if not each.ticket.done.is_set()]
        self._sent.append(_Sent(ticket, text, printed))
        if is_prose:
            self._shell.printed.clear()
        if waits:
            joins = self._session.state.settings.prompts_while_working == "steer"
            self._view.line("dim", f"  ({'joins the turn' if joins else 'queued'})")

    def _take_back(self) -> None:
        """Put the waiting prompts back into the input line, since a user who cancels a
        turn may want to change them.
        """
        waiting = [each for each in self._sent if self._session.withdraw(each.ticket)]
        self._sent.clear()
        if waiting:
            self._shell.printed[:0] = [
                output for each in waiting for output in each.printed
            ]
            self._screen.put_back("\n".join(each.text for each in waiting))
            self._view.line(
                "dim",
                "  (waiting prompts were not sent, and are back in the input line)",
            )

    async def _run_command(self, name: str, words: str = "") -> None:
        match name:
            case "new":
                await self._switch(None, self._session.state.context.model)
            case "exit" | "quit":
                self._screen.leave()
            case "resume" if words:
                await self._switch(await chosen_session(self._opened.store, words))
            case "resume":
                self._tasks.start_soon(self._do_aside, self._choose_session)
            case "sessions":
                records = (
                    await self._opened.store.list(limit=_LISTED, include_unused=())
                ).sessions
                self._list(
                    (record.session_id == self._session.session_id, row_of(record))
                    for record in records
                )
            case "status":
                await self._show_status()
            case "mode" if words:
                await self._session.set_option(MODE, words)
            case "mode":
                mode = self._session.state.mode
                self._list(
                    (each.value == mode, f"{each.value}: {each.description}")
                    for each in MODES
                )
            case _:
                cost = self._session.state.context.cost
                self._view.line(
                    "",
                    f"This session has cost ${cost:.4f} so far."
                    if cost
                    else "No cost is known yet.",
                )

    async def _show_status(self) -> None:
        """Show the version, the session, its directory, model and mode, and how full
        the context is.
        """
        state = self._session.state
        rows = {
            "version": f"acp-agent {__version__}",
            "session": f"{state.id} ({state.context.title or 'untitled'})",
            "directory": str(state.cwd),
            "model": await self._model_name(),
            "mode": f"{state.mode}; `/mode` lists the modes",
            "context": _fill(
                self._client.usage, (await self._model_and_threshold())[1]
            ),
        }
        for name, value in rows.items():
            self._view.line("", f"{name:<11}{value}")

    def _list(self, rows: Iterable[tuple[bool, str]]) -> None:
        """Show rows, with a mark at the current one."""
        for is_current, row in rows:
            self._view.line("", f"{'▸' if is_current else ' '} {row}")

    async def _switch(self, record: SessionRecord | None, model: str = "") -> None:
        """Continue with another session. The turn of the current session ends, and the
        input line is kept.

        :param record: the other session's record; None to make a new session.
        :param model: model of a new session; empty for the default.
        """
        if record is not None and record.session_id == self._session.session_id:
            raise InvalidParamsError("You are in this session already.")
        self._take_back()
        left = await self._opened.switch(record)
        self._shell.printed.clear()
        if left is not None:
            self._view.line(
                "dim", f"`/resume {left}` returns to the conversation above."
            )
        if model:
            with suppress(AgentError):
                await self._session.set_option(MODEL, model)
        await self._begin()

    async def _choose_session(self) -> None:
        """Ask for another session of this directory."""
        cwd = str(self._session.state.cwd)
        current = self._session.session_id
        page = await self._opened.store.list(cwd, limit=_LISTED, include_unused=())
        others = [record for record in page.sessions if record.session_id != current]
        if not others:
            raise InvalidParamsError(
                f"{cwd} has no other session. `/sessions` lists the sessions of all directories."
            )
        choices = tuple(
            FieldChoice(
                each.session_id, f"{day_of(each)}  {each.title or '(untitled)'}"
            )
            for each in others
        )
        field = FormField("session", "choice", choices=choices, required=False)
        answer = await self._client.questions.fill(Form("Which session?", (field,)))
        if isinstance(answer, dict) and answer.get("session"):
            self._screen.submit(f"/resume {answer['session']}")

    async def _keep_meter(self) -> None:
        """Keep the meter up to date until cancelled."""
        while True:
            self._client.changed = changed = anyio.Event()
            model, threshold = await self._model_and_threshold()
            self._screen.show_meter(
                _meter(self._session.state.mode, self._client.usage, threshold, model)
            )
            await changed.wait()

    async def _model_and_threshold(self) -> tuple[str, int | None]:
        with suppress(AgentError):  # the next prompt reports the error
            return await self._session.options.threshold()
        return "no model", None


def _meter(
    mode: str, usage: UsageUpdated | None, threshold: int | None, model: str
) -> str:
    """Return the mode, how full the window is, what the session has cost, and the
    model.

    :param threshold: tokens above which the context is compacted automatically; None
        if it is not.
    """
    cost = "" if usage is None or usage.cost is None else f"${usage.cost:.2f} · "
    return f"{mode} · {_fill(usage, threshold)} · {cost}{model}"


def _fill(usage: UsageUpdated | None, threshold: int | None) -> str:
    """Return how full the window is, and when the context is compacted."""
    if usage is None or not usage.used:
        return "context empty"
    size = f"{_short(usage.used)} of {_short(usage.size)} tokens ({usage.used / usage.size:.0%})"
    compacts = (
        "no automatic compaction"
        if threshold is None
        else f"compacts at {_short(threshold)}"
    )
    return f"{size}, {compacts}"


def _short(tokens: int) -> str:
    """Return a number with three digits, such as `12.3k`, `128k` or `1.05M`."""
    return (
        f"{tokens / 1_000_000:.3g}M" if tokens >= 999_500 else f"{tokens / 1_000:.3g}k"
    )
