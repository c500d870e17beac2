"""`ChatClient`: what happens in a session, as lines above what a person types, and the questions that they answer."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prompt_toolkit.utils import get_cwidth

from acp_agent.commands.chat.changes import change_lines
from acp_agent.commands.chat.flowing import Flow, Row
from acp_agent.commands.client import WAITING, LocalClient, plan_lines
from acp_agent.commands.opening import REFUSED
from acp_agent.commands.questions import TerminalQuestions
from acp_agent.commands.safe import SafeStream, safe_for
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, ResultPart, Text
from acp_agent.errors import AgentError
from acp_agent.logfile import log_failure
from acp_agent.server.asking import permission_options
from acp_agent.session.client import TrustQuestion
from acp_agent.tools.text import one_line
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import (
    AgentSaid,
    AgentThought,
    CallFinished,
    CallStarted,
    Command,
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

if TYPE_CHECKING:
    from acp_agent.commands.chat.desk import Desk, Line

COMPACTING = "Compacting"
_LETTERS: dict[str, Answer] = {
    **dict.fromkeys(("y", "yes"), "allow_once"),
    **dict.fromkeys(("a", "always"), "allow_always"),
    **dict.fromkeys(("n", "no"), "reject_once"),
}
_TRUST_LETTERS: dict[str, Answer] = {
    **dict.fromkeys(("a", "always"), "allow_always"),
    **dict.fromkeys(("s", "session"), "allow_once"),
    **dict.fromkeys(("n", "no"), "reject_once"),
}
_STYLES = {"text": "", "heading": "heading", "code": "code"}
_REASON = 300
_ENDS = {
    "refusal": REFUSED,
    "cancelled": "Cancelled.",
    "max_tokens": "The answer was cut off: it has reached the model's limit.",
    "max_turn_requests": "The turn has reached its limit of requests to the model. Send a prompt to go on.",
}

_log = logging.getLogger(__name__)


class ChatClient(LocalClient):
    """`SessionClient` for a person in a conversation.

    :param cwd: absolute path; files below it are shown relative to it.
    :param env: environment variables; values of those that are secrets are not shown.
    :param changed: called when the meter may have to show something else: with how full the window is, where that has
        changed.
    :ivar commands_on_offer: the slash commands.
    :ivar working: a turn runs.
    :ivar cancelling: that turn was cancelled, and is not over yet.
    :ivar done: the last turn neither failed nor was cancelled.
    :ivar recording: takes what is shown in place of the terminal: a part for each prompt, as long as it is set.
    """

    def __init__(
        self, desk: Desk, cwd: str, env: Mapping[str, str], changed: Callable[[UsageUpdated | None], object]
    ) -> None:
        super().__init__(TerminalQuestions(lambda text: self._line("question", text), self._typed))
        self._desk = desk
        self._cwd = cwd
        self._changed = changed
        # Safe before it is rows: a secret may go over the edge of one.
        self._safe, self._streaming = safe_for(env), SafeStream(env)
        self._flow = Flow(get_cwidth)
        self._flowing = ""
        self._style = ""
        self._running: dict[str, str] = {}
        self._changes_shown: set[str] = set()
        self._by_hand = False
        self.commands_on_offer: tuple[Command, ...] = ()
        self.working = False
        self.cancelling = False
        self.done = False
        self.recording: deque[list[Update]] | None = None

    async def show(self, update: Update) -> None:
        """Print it, and keep what stays below as it is by now."""
        if self.recording is not None:
            if isinstance(update, UserSaid):
                self.recording.append([])
            self.recording[-1].append(update)
            return
        self.print(update)
        match update:
            case TurnBegan():
                self.working, self.cancelling = True, False
                self._desk.busy(WAITING)
            case CallStarted():
                self.end_stream()  # what was said before it is over
                self._running[update.call_id] = update.view.title
                self._desk.busy(update.view.title)
            case CallFinished():
                self._running.pop(update.call_id, None)
                self._desk.busy(next(reversed(self._running.values()), WAITING))
            case CompactionStarted():
                self._desk.busy(COMPACTING)
            case CompactionFinished():
                self._desk.busy(WAITING)
            case UsageUpdated():
                self._changed(update)
            case OptionsUpdated() | ModeUpdated():
                self._changed(None)
            case CommandsUpdated():
                self.commands_on_offer = update.commands
            case TurnOver():
                self._turn_over(update)
            case _:
                pass

    def print(self, update: Update) -> None:
        """What stays of it in the terminal."""
        match update:
            case AgentSaid():
                self._stream(update.message_id, "", update.text)
            case AgentThought():
                self._stream(f"{update.message_id} thought", "thought", update.text)
            case CompactionChunk():
                self._stream(update.compaction_id, "thought", update.text)
            case UserSaid():
                text = update.part.text if isinstance(update.part, Text) else f"[{update.part.type}]"
                self.said(text)
            case CallFinished():
                self._call(update)
            case PlanUpdated():
                self._lines([("dim", line)] for line in plan_lines(update.entries))
            case CompactionStarted():
                self._by_hand = update.trigger == "manual"
                self._line("dim", "Compacting …")
            case CompactionFinished():
                self._compacted(update)
            case Notice():
                self._line("dim" if update.severity == "info" else update.severity, update.text)
            case TurnOver():
                self.end_stream()
                for style, text in _ended(update):
                    self._line(style, text)
            case _:
                pass

    def said(self, text: str) -> None:
        """What the person said."""
        first, *rest = self._safe(text).split("\n")
        self._lines([[], [("you", f"> {first}")], *([("you", f"  {line}")] for line in rest)])

    def noted(self, note: str) -> None:
        """A word on what was said."""
        self._line("dim", f"  ({note})")

    def failed(self, error: Exception) -> None:
        """What could not be done."""
        self._line("error", _sentence(error))

    # --- questions ---

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Show what would be done, and ask until the answer is one of those that there are."""
        self._line("question", f"? {view.title}")
        if view.diffs:
            self._changes_shown.add(call_id)
            self._lines([(kind, f"  {line}")] for kind, line in change_lines(view, self._cwd, self._safe))
        command = arguments.get("command")
        if isinstance(command, str) and command not in view.title:
            self._lines([("code", f"  {line}")] for line in self._safe(command).split("\n"))
        if reason:
            self._lines([("", f"  {line}")] for line in self._safe(reason).split("\n"))
        names = [str(option["name"]) for option in permission_options(subject)]
        self._line("dim", "  " + "  ".join(f"[{letter}] {name}" for letter, name in zip("yan", names, strict=True)))
        return await self._chosen("  Allow? ", _LETTERS)

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Show what there is, and ask."""
        self._line("question", f"? {question.view.title}")
        self._lines([("", f"  {project}")] for project in question.projects)
        self._line("dim", question.text)
        self._line("dim", "  [a] Trust it until something in it changes  [s] For this session  [n] Not now")
        return await self._chosen("  Trust it? ", _TRUST_LETTERS)

    async def _chosen(self, question: str, letters: dict[str, Answer]) -> Answer:
        """A whole word or its letter, and nothing that only begins so: whoever types a prompt does not see a question
        come."""
        while (answer := await self._desk.ask(question)) is not None:
            if (chosen := letters.get(answer.lower())) is not None:
                return chosen
        return "reject_once"

    async def _typed(self, question: str) -> str | None:
        self.end_stream()
        return await self._desk.ask(question)

    # --- what is printed ---

    def _stream(self, message: str, style: str, text: str) -> None:
        if self._flowing != message:
            self.end_stream()
            self._desk.lines([[]])
            self._flowing, self._style, self._flow = message, style, Flow(get_cwidth)
        self._rows(self._flow.feed(self._streaming.feed(text), self._desk.columns))
        self._desk.live(self._style, self._flow.rest)

    def end_stream(self) -> None:
        """Finish the last line of what streamed."""
        if self._flowing:
            self._flowing = ""
            self._desk.live("", "")
            self._rows([*self._flow.feed(self._streaming.flush(), self._desk.columns), *self._flow.end()])

    def _rows(self, rows: Iterable[Row]) -> None:
        self._desk.lines([(self._style or _STYLES[kind], row)] for kind, row in rows)

    def _call(self, update: CallFinished) -> None:
        failed = update.status != "completed"
        mark, style = ("✗", "error") if failed else ("✓", "call")
        lines: list[Line] = [[(style, f"{mark} {update.view.title}")]]
        if failed and (reason := self._reason(update.parts)):
            lines.append([("dim", f"  {reason}")])
        if not failed and update.call_id not in self._changes_shown:
            lines += ([(kind, f"  {line}")] for kind, line in change_lines(update.view, self._cwd, self._safe))
        self._lines(lines)

    def _reason(self, parts: tuple[ResultPart, ...]) -> str:
        text = next((part.text for part in parts if isinstance(part, Text)), "")
        return one_line(self._safe(text).strip().partition("\n")[0], _REASON)

    def _compacted(self, update: CompactionFinished) -> None:
        self.end_stream()
        if update.status != "completed":
            # Why one failed that was asked for, the turn itself says.
            why = f" {update.error}" if update.error and not self._by_hand else ""
            became = "was cancelled" if update.status == "cancelled" else "failed"
            self._line("warning", f"The compaction {became}.{why}")
            return
        self._lines([("dim", line)] for line in self._safe(update.receipt).split("\n") if line)

    def _turn_over(self, update: TurnOver) -> None:
        self.working = False
        self.done = update.error is None and update.stop != "cancelled"
        self._running.clear()
        self._changes_shown.clear()
        self._desk.busy("")
        self._changed(None)
        self._desk.prompt()

    def _line(self, style: str, text: str) -> None:
        flow = Flow(get_cwidth)
        self._lines([(style, row)] for _, row in [*flow.feed(self._safe(text), self._desk.columns), *flow.end()])

    def _lines(self, lines: Iterator[Line] | list[Line]) -> None:
        self.end_stream()
        self._desk.lines(lines)


def _ended(update: TurnOver) -> list[tuple[str, str]]:
    """What is said, behind its style, of a turn that has not come to its own end."""
    if update.error is not None:
        return [("error", _sentence(update.error))]
    words = _ENDS.get(update.stop or "")
    return [] if words is None else [("warning", words)]


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, AgentError) else log_failure(_log, "The turn failed inside", error)
