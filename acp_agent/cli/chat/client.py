"""`ChatClient`: a session's updates as lines above what a person types, and the questions that they answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import anyio

from acp_agent.cli.chat.completion import PromptCompleter, PromptHistory
from acp_agent.cli.chat.screen import Screen
from acp_agent.cli.chat.view import View, terminal_output
from acp_agent.cli.terminal.client import LocalClient
from acp_agent.cli.terminal.sessions import REFUSED
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import Text
from acp_agent.conversation.updates import (
    AgentSaid,
    AgentThought,
    CallFinished,
    CallStarted,
    CommandsUpdated,
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    ModeUpdated,
    Notice,
    OptionsUpdated,
    PlanUpdated,
    TurnBegan,
    TurnOver,
    Update,
    UsageUpdated,
    UserSaid,
)
from acp_agent.errors import AgentError
from acp_agent.logfile import log_failure
from acp_agent.tools.text import one_line

_HISTORY_FILE = "chat_history"
_MAX_REASON = 300
_STOPS = {
    "refusal": REFUSED,
    "cancelled": "Cancelled.",
    "max_tokens": "The answer was cut off: it has reached the model's limit.",
    "max_turn_requests": "The turn has reached its limit of requests to the model. Send a prompt to go on.",
}

_log = logging.getLogger(__name__)


class ChatClient(LocalClient):
    """`SessionClient` of a conversation.

    :ivar usage: how full the window is; None before the first answer.
    :ivar changed: set when the usage, the model or the mode has changed; put a new event here before waiting for it.
    :ivar working: a turn runs.
    :ivar cancelled: that turn was cancelled, and is not over yet.
    :ivar replayed: takes updates in place of the terminal, as long as it is set.
    :ivar screen: takes what is typed.
    :ivar view: prints above it.

    :param home: the agent's, in which what was typed is kept.
    :param env: environment variables.
    :param cwd: absolute path of the session's directory.
    """

    def __init__(self, home: Path, env: Mapping[str, str], cwd: Path) -> None:
        super().__init__()
        self._completer = PromptCompleter(cwd)
        self.screen = Screen(self._completer, PromptHistory(home / _HISTORY_FILE), terminal_output())
        self.view = View(self.screen, cwd, env)
        self._changes_shown: set[str] = set()
        self.usage: UsageUpdated | None = None
        self.changed = anyio.Event()
        self.working = self.cancelled = False
        self.replayed: list[Update] | None = None

    async def show(self, update: Update) -> None:
        """Print an update, and refresh the rows below."""
        if self.replayed is not None:
            self.replayed.append(update)
            return
        match update:
            case TurnBegan():
                self.working, self.cancelled = True, False
            case UsageUpdated():
                self.usage = update
            case CommandsUpdated():
                self._completer.commands = update.commands
            case TurnOver():
                self.working = False
            case _:
                pass
        await super().show(update)
        if isinstance(update, UsageUpdated | OptionsUpdated | ModeUpdated | TurnOver):
            self.changed.set()

    def print(self, update: Update) -> None:
        """Print what stays of an update."""
        view = self.view
        match update:
            case AgentSaid():
                view.stream(update.message_id, "", update.text)
            case AgentThought():
                view.stream(f"{update.message_id} thought", "thought", update.text)
            case CompactionChunk():
                view.stream(update.compaction_id, "thought", update.text)
            case UserSaid():
                view.prompt(update.part.text if isinstance(update.part, Text) else f"[{update.part.type}]")
            case CallStarted():
                view.end_stream()
            case CallFinished():
                self._call(update)
            case PlanUpdated():
                view.plan((entry.status, entry.content) for entry in update.entries)
            case CompactionStarted():
                view.line("dim", "Compacting …")
            case CompactionFinished(status="completed"):
                view.line("dim", update.receipt)
            case CompactionFinished(status="cancelled"):
                view.line("warning", "The compaction was cancelled.")
            case CompactionFinished():
                self.say_failed_compaction(update)
            case Notice():
                view.line("dim" if update.severity == "info" else update.severity, update.text)
            case TurnOver():
                self._turn_over(update)
            case _:
                pass

    def say(self, style: str, text: str) -> None:
        """Print a text."""
        self.view.line(style, text)

    def failed(self, error: Exception) -> None:
        """Print what could not be done."""
        known = isinstance(error, AgentError)
        self.say("error", str(error) if known else log_failure(_log, "The turn failed inside", error))

    async def ask(self, question: str) -> str | None:
        """Return what the person types behind a question; None for ctrl-d."""
        self.view.end_stream()
        return await self.screen.ask(question)

    def busy(self, what: str) -> None:
        """Show what the session is waiting for."""
        self.screen.busy(self.view.safe(what))

    def show_call(self, call_id: str, view: CallView, command: str) -> None:
        """Show what a call would change or run."""
        self._changes_shown.add(call_id)
        self.view.question(view, command)

    def _call(self, update: CallFinished) -> None:
        text = next((part.text for part in update.parts if isinstance(part, Text)), "")
        failed = update.status != "completed"
        reason = [one_line(self.view.safe(text).strip().partition("\n")[0], _MAX_REASON)] if failed and text else []
        self.view.call(update.view, failed=failed, details=reason, changes=update.call_id not in self._changes_shown)

    def _turn_over(self, update: TurnOver) -> None:
        self.view.end_stream()
        self._changes_shown.clear()
        if update.error is not None:
            self.failed(update.error)
        elif stop := _STOPS.get(update.stop or ""):
            self.say("warning", stop)
