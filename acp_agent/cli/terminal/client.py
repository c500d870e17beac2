"""Clients of a session at a terminal: `LocalClient`, the base of all of them, and `TerminalClient` for one turn."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping

from acp_agent.cli.terminal.progress import Activity
from acp_agent.cli.terminal.prompts import TerminalQuestions, typed
from acp_agent.cli.terminal.safe import SafeStream, safe_for
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.conversation.updates import (
    AgentSaid,
    CallFinished,
    CallStarted,
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    Notice,
    PlanUpdated,
    TurnBegan,
    TurnOver,
    Update,
)
from acp_agent.errors import ToolError
from acp_agent.server.questions import permission_options
from acp_agent.session.client import Answer, TrustQuestion
from acp_agent.session.project.trust import advice
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.tools.files.local import LocalFiles
from acp_agent.tools.forms import Questions
from acp_agent.tools.shell.run import LocalCommands

_PLAN_MARKS = {"completed": "✓", "in_progress": "▸", "cancelled": "✗"}
_WORDS = {"y": "yes", "a": "always", "s": "session", "n": "no"}
_TRUST_CHOICES: Mapping[str, tuple[str, Answer]] = {
    "a": ("Trust it until something in it changes", "allow_always"),
    "s": ("For this session", "allow_once"),
    "n": ("Not now", "reject_once"),
}
_PERMISSIONS: Mapping[str, Answer] = {"y": "allow_once", "a": "allow_always", "n": "reject_once"}


def plan_line(status: str, text: str) -> str:
    """Return an entry of a plan with a mark of how far it is."""
    return f"{_PLAN_MARKS.get(status, '·')} {text}"


class LocalClient(ABC):
    """Base of every `SessionClient` at a terminal: uses the local disk and processes, and asks the user there.

    :ivar done: the last turn neither failed nor was cancelled.
    """

    def __init__(self) -> None:
        self._files = LocalFiles()
        self._commands = LocalCommands()
        self._questions = TerminalQuestions(lambda text: self.say("question", text), self.ask)
        self._running: dict[str, str] = {}
        self.done = False
        self._by_hand = False
        """The compaction that runs was asked for."""

    @property
    def files(self) -> FileAccess:
        """The disk."""
        return self._files

    @property
    def commands(self) -> CommandRunner:
        """Local processes."""
        return self._commands

    @property
    def questions(self) -> Questions:
        """What a person types."""
        return self._questions

    @property
    def shows_notices(self) -> bool:
        """It prints them."""
        return True

    @property
    def mcp_channel(self) -> None:
        """It is no MCP server."""
        return None

    @abstractmethod
    def say(self, style: str, text: str) -> None:
        """Print a text."""

    @abstractmethod
    async def ask(self, question: str) -> str | None:
        """Return what the person types behind a question; None for ctrl-d, or without a terminal."""

    @abstractmethod
    def print(self, update: Update) -> None:
        """Print what stays of an update."""

    @abstractmethod
    def busy(self, what: str) -> None:
        """Show what the session is waiting for; "" for nothing."""

    @abstractmethod
    def show_call(self, call_id: str, view: CallView, command: str) -> None:
        """Show what a call would do.

        :param command: the whole of a command that is to run; "" for none.
        """

    async def show(self, update: Update) -> None:
        """Print an update, and show what the session is waiting for from now on."""
        self.print(update)
        match update:
            case CallStarted():
                self._running[update.call_id] = update.view.title
                self.busy(update.view.title)
            case CallFinished():
                self._running.pop(update.call_id, None)
                self.busy(next(reversed(self._running.values()), "Waiting for the model"))
            case CompactionStarted():
                self._by_hand = update.trigger == "manual"
                self.busy("Compacting")
            case TurnBegan() | CompactionFinished():
                self.busy("Waiting for the model")
            case TurnOver():
                self.done = update.error is None and update.stop != "cancelled"
                self._running.clear()
                self.busy("")
            case _:
                pass

    def say_failed_compaction(self, update: CompactionFinished) -> None:
        """Print that a compaction failed, and why; of one that was asked for, the turn itself says why."""
        reason = f" {update.error}" if update.error and not self._by_hand else ""
        self.say("warning", f"The compaction failed.{reason}")

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Show what would be done, and ask."""
        return await self._permission(call_id, view, arguments, subject, reason) or "reject_once"

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Show what a project brings, and ask."""
        return await self._trust(question) or "reject_once"

    async def _permission(
        self, call_id: str, view: CallView, arguments: JsonObject, subject: str, reason: str
    ) -> Answer | None:
        command = arguments.get("command")
        self.show_call(call_id, view, command if isinstance(command, str) else "")
        for line in reason.splitlines():
            self.say("", f"  {line}")
        names = [str(option["name"]) for option in permission_options(subject)]
        choices = dict(zip(_PERMISSIONS, zip(names, _PERMISSIONS.values(), strict=True), strict=True))
        return await self._choose("Allow?", choices)

    async def _trust(self, question: TrustQuestion) -> Answer | None:
        self.say("question", f"? {question.view.title}")
        for project in question.projects:
            self.say("", f"  {project}")
        self.say("dim", question.text)
        return await self._choose("Trust it?", _TRUST_CHOICES)

    async def _choose(self, question: str, choices: Mapping[str, tuple[str, Answer]]) -> Answer | None:
        """Ask until the answer is one of the choices, so that a half-typed prompt allows nothing by accident.

        :param choices: what each letter stands for.
        :returns: None without an answer.
        """
        self.say("dim", f"  {'  '.join(f'[{letter}] {name}' for letter, (name, _) in choices.items())}")
        while (typed := await self.ask(f"  {question} ")) is not None:
            for letter, (_, answer) in choices.items():
                if typed.lower() in (letter, _WORDS[letter]):
                    return answer
        return None


class TerminalClient(LocalClient):
    """Prints one turn: answers on stdout, everything around them on stderr.

    A terminal obeys nothing of an answer; a file or another program gets the model's own text.

    :ivar compaction_failed: a compaction that was asked for did not happen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._safe, self._safe_stream = safe_for(os.environ), SafeStream(os.environ)
        self._activity = Activity()
        self._message = ""
        self.compaction_failed = False

    def say(self, style: str, text: str) -> None:
        """Print a text on stderr."""
        self.end()
        print(self._safe(text), file=sys.stderr, flush=True)

    async def ask(self, question: str) -> str | None:
        """Return the line that the person types behind a question on stderr."""
        return await typed(question)

    def print(self, update: Update) -> None:
        """Print what a person wants to read."""
        match update:
            case AgentSaid():
                self._stream(update.message_id, update.text)
            case CompactionChunk():
                self._stream(update.compaction_id, update.text)
            case CallStarted():
                self.say("call", f"→ {update.view.title}")
            case CallFinished(status="failed" | "cancelled"):
                self.say("error", f"✗ {update.view.title}")
            case PlanUpdated():
                for entry in update.entries:
                    self.say("dim", plan_line(entry.status, entry.content))
            case CompactionStarted():
                self.say("dim", "Compacting …")
            case CompactionFinished(status="failed"):
                self.compaction_failed = self._by_hand
                self.say_failed_compaction(update)
            case Notice():
                self.say(update.severity, update.text)
            case _:
                pass

    def busy(self, what: str) -> None:
        """Show what the session is waiting for, unless a line of the answer is unfinished."""
        if not what:
            self._activity.idle()
        elif not self._message:
            self._activity.busy(what)

    def show_call(self, call_id: str, view: CallView, command: str) -> None:
        """Show the title of a call, and the files that it would change."""
        self.say("question", f"? {view.title}")
        for diff in view.diffs:
            self.say("file", f"  {diff.path}")

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Ask, and without an answer name the modes that allow the call.

        :raises ToolError: there was no answer.
        """
        answer = await self._permission(call_id, view, arguments, subject, reason)
        if answer is None:
            # The subject of an edit outside the project, or of what steers git or this agent, names the path as well.
            modes = "accept-edits or full-access" if subject == "edit" else "full-access"
            # Where a hook has the user asked, no mode spares them the question.
            advice = "" if reason else f" Allow it with --mode {modes}."
            self.say("warning", f"  Not allowed: nobody is here to ask.{advice}")
            raise ToolError(
                "Nobody is here to ask, so nothing was done. Do not try it in another way; say what you would do."
            )
        return answer

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Ask, and without an answer say how to allow it."""
        answer = await self._trust(question)
        if answer is None:
            self.say("warning", f"  Not allowed: nobody is here to ask. {advice(question.projects)}")
        return answer or "reject_once"

    def end(self) -> None:
        """Finish the line of an answer, and show nothing that moves."""
        self._activity.idle()
        if self._message:
            print(self._safe_stream.flush(), flush=True)
            self._message = ""

    def _stream(self, message_id: str, text: str) -> None:
        self._activity.idle()
        if self._message and self._message != message_id:
            print(f"{self._safe_stream.flush()}\n")
        self._message = message_id
        print(self._safe_stream.feed(text) if sys.stdout.isatty() else text, end="", flush=True)
