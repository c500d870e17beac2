"""`TerminalClient`, a session's client at a terminal, and `TerminalView`, which prints
one turn of it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast
from urllib.parse import unquote

import anyio

from acp_agent.cli.terminal.process import Activity
from acp_agent.cli.terminal.prompts import TerminalQuestions, typed
from acp_agent.cli.terminal.safe import Safe, SafeStream, safe_for
from acp_agent.cli.terminal.streams import unfiltered
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, Resource, Text, words_in
from acp_agent.conversation.updates import (
    AgentSaid,
    AgentThought,
    CallFinished,
    CallOutput,
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
from acp_agent.errors import Refuser, ToolError
from acp_agent.frozen import frozen
from acp_agent.server.questions import permission_options, trust_options
from acp_agent.session.client import Answer, Grant
from acp_agent.session.trust import advice
from acp_agent.tools.files.local import LocalFiles
from acp_agent.tools.matching.hunks import hunks
from acp_agent.tools.shell.run import LocalCommands
from acp_agent.tools.text import counted, one_line
from acp_agent.visible import on_one_line, visible

if TYPE_CHECKING:
    from acp_agent.tools.asked import Question

MAX_PATCH_LINES = 60
_MAX_REASON = 300
"""Characters of the reason why a call failed."""
_MANY_FACTS = 30
"""Lines about a call after which its title is shown again."""
_PATCH_STYLES = {"+": "added", "-": "removed", "@": "place"}
Line: TypeAlias = Sequence[tuple[str, str]]
"""Texts of one line, each behind its style."""
_PLAN_MARKS = {"completed": "✓", "in_progress": "▸", "cancelled": "✗"}


class TerminalView:
    """Prints one turn: answers on stdout, everything around them on stderr.

    A terminal obeys nothing of an answer; a file or another program gets the model's
    own text.

    :ivar cwd: paths below it are shown relative to it.
    """

    def __init__(self) -> None:
        self.safe = safe_for()
        self._safe_stream = SafeStream()
        self.cwd = Path.cwd()
        self._activity = Activity()
        self._message = ""

    def line(self, style: str, text: str) -> None:
        """Print a text."""
        self.end_stream()
        print(self.safe(text), file=sys.stderr, flush=True)

    def lines(self, lines: Iterable[Line]) -> None:
        """Print lines that are safe already."""
        self.end_stream()
        for line in lines:
            print("".join(text for _, text in line), file=sys.stderr, flush=True)

    def stream(self, key: str, style: str, text: str) -> None:
        """Print a piece of the text with this key, unless it is a thought."""
        if style == "thought":
            return
        self._activity.idle()
        if self._message and self._message != key:
            print(f"{self._safe_stream.flush()}\n")
        self._message = key
        # Another program gets the model's own text.
        shown = self._safe_stream.feed(text) if sys.stdout.isatty() else text
        print(shown, end="", flush=True, file=unfiltered(sys.stdout))

    def end_stream(self) -> None:
        """Finish the line of an answer, and show nothing that moves."""
        self._activity.idle()
        if self._message:
            print(self._safe_stream.flush(), flush=True)
            self._message = ""

    def prompt(self, text: str, *, continues: bool = False) -> None:
        """Print what the person said; here it is in the command line.

        :param continues: whether this is another part of the prompt before it.
        """

    def call_started(self, view: CallView) -> None:
        """Print that a call runs."""
        self.line("call", f"→ {view.title}")

    def call_output(self, update: CallOutput) -> None:
        """Take what a call's command has printed so far."""

    def call_finished(self, update: CallFinished, *, changes: bool) -> None:
        """Print that a call has failed, or what it changed in files.

        :param changes: whether to print that.
        """
        if update.status != "completed":
            self.line("error", f"✗ {update.view.title}")
            if reason := self.reason_of(update):
                self.lines([[("dim", f"  {reason}")]])
        elif changes:
            self.lines(patch_lines(update.view, self.cwd, self.safe))

    def reason_of(self, update: CallFinished) -> str:
        """Return the first line of what a failed call answered, safe to be shown; "" if
        it answered nothing.
        """
        text = next((part.text for part in update.parts if isinstance(part, Text)), "")
        return one_line(self.safe(text).strip().partition("\n")[0], _MAX_REASON)

    def question(self, view: CallView, facts: str) -> None:
        """Print what a call would do.

        :param facts: lines about it, all characters of which show.
        """
        self.line("question", f"? {view.title}")
        self.lines(patch_lines(view, self.cwd, self.safe, most=None))
        if not facts:
            return
        # Masked as a whole: a secret may have several lines.
        lines = self.safe(facts).split("\n")
        self.lines([("code", f"  {line}")] for line in lines)
        if len(lines) > _MANY_FACTS:  # the title has scrolled away
            self.line("question", f"? {view.title}")

    def turn_over(self, update: TurnOver) -> None:
        """Print how a turn ended; here the command does."""

    def busy(self, what: str) -> None:
        """Show what the session is waiting for, unless a line of the answer is
        unfinished; "" for nothing.
        """
        if not what:
            self._activity.idle()
        elif not self._message:
            self._activity.busy(what)

    def offer(self, commands: Sequence[Command]) -> None:
        """Take the slash commands that can be completed."""

    async def ask(self, question: str) -> str | None:
        """Return what the person types behind a question; None for ctrl-d, or without a
        terminal.
        """
        return await typed(question)


def patch_lines(
    view: CallView, cwd: Path, safe: Safe, most: int | None = MAX_PATCH_LINES
) -> list[Line]:
    """Return what a call changes as an indented patch: the name of each file, and the
    lines around its changes. Every character of them shows.

    :param cwd: paths below it are shown relative to it.
    :param most: lines of each file at most; None for all of them, as in a question.
    """
    first_lines = {
        place.path: place.line for place in view.locations if place.line is not None
    }
    too_large = (
        "the change is too large to be shown"
        if most is not None
        else "a large change: its lines are below"
    )
    lines: list[Line] = []
    for diff in view.diffs:
        lines.append(
            [("file", f"  {safe(visible(diff.path.removeprefix(f'{cwd}/')))}")]
        )
        if diff.cut:
            lines.append([("dim", f"  ({too_large})")])
            continue
        changed = hunks(diff.old_text or "", diff.new_text, first_lines.get(diff.path))
        if not changed:
            continue
        # Masked as a whole: a secret may have several lines.
        shown = safe(visible(changed)).removesuffix("\n").split("\n")
        lines += (
            [(_PATCH_STYLES.get(each[:1], ""), f"  {each}")] for each in shown[:most]
        )
        if most is not None and len(shown) > most:
            lines.append(
                [("dim", f"  (and {counted(len(shown) - most, 'line')} more)")]
            )
    return lines


@frozen
class RefusedCall:
    """A call that was not allowed.

    :ivar reason: what did not allow it: the user; nobody, if there was no one to ask;
        or a rule.
    """

    title: str
    reason: Literal["rejected", "nobody_asked"] | Refuser


class TerminalClient:
    """`SessionClient` at a terminal: uses the local disk and processes, and asks the
    user there.

    :ivar done: the last turn neither failed nor was cancelled.
    :ivar compaction_failed: a compaction that was asked for did not happen.
    :ivar working: a turn runs.
    :ivar cancelled: that turn was cancelled, and is not over yet.
    :ivar usage: how full the window is; None before the first answer.
    :ivar changed: set when the usage, the model or the mode has changed; put a new
        event here before waiting for it.
    :ivar refused: the calls that were not allowed, by ID.
    :ivar replayed: takes updates in place of the view, as long as it is set.
    """

    shows_notices = True
    mcp_channel = None

    def __init__(self, view: TerminalView | None = None) -> None:
        self.view = view = view or TerminalView()
        self.files = LocalFiles()
        self.commands = LocalCommands()
        self.questions = TerminalQuestions(partial(view.line, "question"), view.ask)
        self.refused: dict[str, RefusedCall] = {}
        self._running: dict[str, str] = {}
        self._changes_shown: set[str] = set()
        self._by_hand = False
        self._shown_prompt = ""
        self.done = self.working = self.cancelled = self.compaction_failed = False
        self.usage: UsageUpdated | None = None
        self.changed = anyio.Event()
        self.replayed: list[Update] | None = None
        self.session_id = ""

    def for_session(self, session_id: str) -> TerminalClient:
        """Take the id of its session."""
        self.session_id = session_id
        return self

    async def show(self, update: Update) -> None:
        """Print an update, and show what the session is waiting for from now on."""
        if self.replayed is not None:
            self.replayed.append(update)
            return
        view = self.view
        match update:
            case AgentSaid():
                view.stream(update.message_id, "", update.text)
            case AgentThought():
                view.stream(f"{update.message_id} thought", "thought", update.text)
            case CompactionChunk():
                view.stream(update.compaction_id, "summary", update.text)
            case UserSaid():
                words = words_in(update.part) or f"[{update.part.type}]"
                view.prompt(
                    unquote(words) if isinstance(update.part, Resource) else words,
                    continues=update.message_id == self._shown_prompt,
                )
                self._shown_prompt = update.message_id
            case CallStarted():
                view.call_started(update.view)
                self._running[update.call_id] = update.view.title
                view.busy(update.view.title)
            case CallOutput():
                view.call_output(update)
            case CallFinished():
                if update.call_id in self.refused:
                    # Its text tells the model what to do, and the person knows why.
                    update = replace(update, parts=())
                elif update.refused_by is not None:
                    self.refused[update.call_id] = RefusedCall(
                        update.view.title, update.refused_by
                    )
                view.call_finished(
                    update, changes=update.call_id not in self._changes_shown
                )
                self._running.pop(update.call_id, None)
                view.busy(
                    next(reversed(self._running.values()), "Waiting for the model")
                )
            case PlanUpdated():
                for entry in update.entries:
                    view.line(
                        "dim", f"{_PLAN_MARKS.get(entry.status, '·')} {entry.content}"
                    )
            case CompactionStarted():
                self._by_hand = update.trigger == "manual"
                view.line("dim", "Compacting …")
                view.busy("Compacting")
            case CompactionFinished():
                self._compaction_finished(update)
                view.busy("Waiting for the model")
            case Notice():
                view.line(
                    "dim" if update.severity == "info" else update.severity, update.text
                )
            case TurnBegan():
                self.working = True
                self.cancelled = False
                view.busy("Waiting for the model")
            case TurnOver():
                view.end_stream()
                view.turn_over(update)
                self.working = False
                self.done = update.error is None and update.stop != "cancelled"
                self._running.clear()
                self._changes_shown.clear()
                view.busy("")
                self.changed.set()
            case CommandsUpdated():
                view.offer(update.commands)
            case UsageUpdated():
                self.usage = update
                self.changed.set()
            case OptionsUpdated() | ModeUpdated():
                self.changed.set()
            case _:
                pass

    def _compaction_finished(self, update: CompactionFinished) -> None:
        if update.status == "completed":
            self.view.line("dim", update.receipt)
            return
        self.compaction_failed = self._by_hand
        # Of one that was asked for, the turn itself says why.
        reason = f" {update.error}" if update.error and not self._by_hand else ""
        what = "failed" if update.status == "failed" else "was cancelled"
        self.view.line("warning", f"The compaction {what}.{reason}")

    async def ask_permission(
        self,
        call_id: str,
        name: str,
        view: CallView,
        arguments: JsonObject,
        grant: Grant | None,
        reason: str = "",
        *,
        question: Question,
    ) -> Answer | Grant:
        """Show what would be done, and ask.

        :raises ToolError: there was no answer.
        """
        if self.allows_unasked(arguments, grant, reason):
            return "allow_once"
        self._changes_shown.add(call_id)
        self.view.question(view, "\n".join(question.lines))
        for line in reason.splitlines():
            self.view.line("", f"  {line}")
        answer = await self._choose(
            "Allow?", "yan" if grant else "yn", permission_options(grant)
        )
        if answer is None or answer == "reject_once":
            reason_of = "nobody_asked" if answer is None else "rejected"
            self.refused[call_id] = RefusedCall(view.title, reason_of)
        if answer is None:
            # No option avoids a question that a hook demands.
            hint = (
                "" if question.by_hook else f" {_hint(view, question, self.view.cwd)}"
            )
            self.view.line("warning", f"  Not allowed: nobody is here to ask.{hint}")
            raise ToolError(
                "Nobody is here to ask, so nothing was done. Do not try it in another way; say what you would do."
            )
        return (
            grant
            if answer == "allow_always" and grant is not None
            else cast("Answer", answer)
        )

    def allows_unasked(
        self, arguments: JsonObject, grant: Grant | None, reason: str
    ) -> bool:
        """Return whether a call may run without a question; here none may."""
        del arguments, grant, reason
        return False

    async def ask_trust(
        self,
        call_id: str,
        name: str,
        view: CallView,
        projects: Sequence[str],
        text: str,
    ) -> Answer:
        """Show what a project brings, and ask; without an answer say how to allow it."""
        self.view.line("question", f"? {view.title}")
        for project in projects:
            self.view.line("", f"  {on_one_line(project)}")
        self.view.line("dim", text)
        answer = await self._choose("Trust it?", "asn", trust_options())
        if answer is None:
            self.view.line(
                "warning", f"  Not allowed: nobody is here to ask. {advice(projects)}"
            )
        return cast("Answer", answer or "reject_once")

    async def _choose(
        self, question: str, letters: str, options: Sequence[JsonObject]
    ) -> str | None:
        """Ask until the answer is one of the letters, so that a half-typed prompt
        allows nothing by accident.

        :returns: the option's id; None without an answer.
        """
        choices = dict(zip(letters, options, strict=True))
        self.view.line(
            "dim",
            "  "
            + "  ".join(
                f"[{letter}] {option['name']}" for letter, option in choices.items()
            ),
        )
        while (line := await self.view.ask(f"  {question} ")) is not None:
            if option := choices.get(line.lower()):
                return str(option["optionId"])
        return None


def _hint(view: CallView, question: Question, cwd: Path) -> str:
    """Return how to allow a call without a question.

    :param cwd: the session's directory; adding a directory below it changes nothing.
    """
    access = question.access
    outside = [
        path for path in access.outside or access.named if not path.is_relative_to(cwd)
    ]
    folders = dict.fromkeys(folder for path in outside if (folder := _folder(path)))
    options = " ".join(f"--add-dir {shlex.quote(str(folder))}" for folder in folders)
    is_confined = access.sandboxed or bool(access.named)
    if access.effect == "execute" and not (is_confined and options):
        options = ""
    if not options:
        return "Allow it with --mode full-access, or edits in the project with --mode accept-edits."
    if view.kind in ("read", "search"):
        return f"Allow it with {options}."
    what = "edits" if access.effect == "edit" else "commands"
    return f"Allow {what} there with {options} --mode accept-edits."


def _folder(path: Path) -> Path | None:
    """Return the directory to add for a path: the path itself, or the nearest existing
    directory above it; None if that contains the home directory.
    """
    home = Path.home()
    for folder in (path, *path.parents):
        if home.is_relative_to(folder):
            return None
        if folder.is_dir():
            return folder
    return None
