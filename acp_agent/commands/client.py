"""The terminal as a session's client: what is printed where, and the questions that a person answers there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from acp_agent.commands.asking import answered, is_somebody_here
from acp_agent.commands.progress import Activity
from acp_agent.commands.questions import TerminalQuestions
from acp_agent.commands.safe import SafeStream, safe_for
from acp_agent.conversation.events import CallView, PlanEntry
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError
from acp_agent.session.client import TrustQuestion
from acp_agent.session.trusting import advice
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.tools.forms import Questions
from acp_agent.tools.local_commands import LocalCommands
from acp_agent.tools.local_files import LocalFiles
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import (
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

WAITING = "Waiting for the model"
_MARKS = {"completed": "✓", "in_progress": "▸", "cancelled": "✗"}


def plan_lines(entries: Iterable[PlanEntry]) -> list[str]:
    """A plan, one line for each entry with a mark of how far it is."""
    return [f"{_MARKS.get(entry.status, '·')} {entry.content}" for entry in entries]


class LocalClient:
    """What every `SessionClient` at a terminal has: this machine's disk and processes, and a person who types.

    :param questions: how that person is asked.
    """

    def __init__(self, questions: Questions) -> None:
        self._files = LocalFiles()
        self._commands = LocalCommands()
        self._questions = questions

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


class TerminalClient(LocalClient):
    """`SessionClient` for a person at a terminal. Answers go to stdout, everything around them to stderr.

    Nothing of it is obeyed by a terminal; what goes into a file or another program is the model's own text.

    :ivar compaction_failed: a compaction that was asked for did not happen.
    """

    def __init__(self) -> None:
        super().__init__(TerminalQuestions(self._aside))
        self._safe, self._streaming = safe_for(os.environ), SafeStream(os.environ)
        self._activity = Activity()
        self._running: dict[str, str] = {}
        self._message = ""
        self._by_hand = False
        self.compaction_failed = False

    async def show(self, update: Update) -> None:
        """Print what a person wants to read, and show what is waited for."""
        self._print(update)
        match update:
            case CallStarted():
                self._running[update.call_id] = update.view.title
                self._busy(update.view.title)
            case CallFinished():
                self._running.pop(update.call_id, None)
                self._busy(next(reversed(self._running.values()), WAITING))
            case CompactionStarted():
                self._busy("Compacting")
            case TurnBegan() | CompactionFinished():
                self._busy(WAITING)
            case TurnOver():
                self._activity.idle()
            case _:
                pass

    def _print(self, update: Update) -> None:
        match update:
            case AgentSaid():
                self._say(update.message_id, update.text)
            case CompactionChunk():
                self._say(update.compaction_id, update.text)
            case CallStarted():
                self._aside(f"→ {update.view.title}")
            case CallFinished(status="failed" | "cancelled"):
                self._aside(f"✗ {update.view.title}")
            case PlanUpdated():
                for line in plan_lines(update.entries):
                    self._aside(line)
            case CompactionStarted():
                self._by_hand = update.trigger == "manual"
                self._aside("Compacting …")
            case CompactionFinished(status="failed"):
                self.compaction_failed = self._by_hand
                # Why one failed that was asked for, the turn itself says.
                self._aside("The compaction failed." if self._by_hand else f"The compaction failed. {update.error}")
            case Notice():
                self._aside(update.text)
            case _:
                pass

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Ask at the terminal.

        :raises ToolError: there is none, or it was closed in place of an answer.
        """
        self._aside(f"? {view.title}")
        for diff in view.diffs:
            self._aside(f"  {diff.path}")
        if reason:
            self._aside(f"  {reason}")
        answer = await answered("  Allow? [y]es, [a]lways, [n]o: ")
        if answer is None and reason:  # no mode spares the user this question
            self._aside("  Not allowed: nobody is here to ask.")
        elif answer is None:
            # The subject of an edit outside the project, or of what steers git or this agent, names the path as well.
            modes = "accept-edits or full-access" if subject == "edit" else "full-access"
            self._aside(f"  Not allowed: nobody is here to ask. Allow it with --mode {modes}.")
        if answer is None:
            raise ToolError(
                "Nobody is here to ask, so nothing was done. Do not try it in another way; say what you would do."
            )
        choices: dict[str, Answer] = {"y": "allow_once", "a": "allow_always"}
        return choices.get(answer, "reject_once")

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Ask at the terminal; without one, say how to allow it."""
        self._aside(f"? {question.view.title}")
        for project in question.projects:
            self._aside(f"  {project}")
        if is_somebody_here():
            self._aside(question.text)
        answer = await answered("  Trust it? [a]lways, until something in it changes; for this [s]ession; [n]o: ")
        if answer is None:
            self._aside(f"  Not allowed: nobody is here to ask. {advice(question.projects)}")
            return "reject_once"
        choices: dict[str, Answer] = {"a": "allow_always", "s": "allow_once"}
        return choices.get(answer, "reject_once")

    def end(self) -> None:
        """Finish the last line, and show nothing that moves."""
        self._activity.idle()
        if self._message:
            print(self._streaming.flush(), flush=True)
            self._message = ""

    def _busy(self, what: str) -> None:
        if not self._message:  # an answer's line stays as it is
            self._activity.busy(what)

    def _say(self, message_id: str, text: str) -> None:
        self._activity.idle()
        if self._message and self._message != message_id:
            print(f"{self._streaming.flush()}\n")
        self._message = message_id
        print(self._streaming.feed(text) if sys.stdout.isatty() else text, end="", flush=True)

    def _aside(self, text: str) -> None:
        self.end()
        print(self._safe(text), file=sys.stderr, flush=True)
