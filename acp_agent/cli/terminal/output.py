"""The result of `acp-agent run` for a script: the final answer or JSON on stdout, and
an exit status.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.cli.terminal.sessions import LEFT_OUT, REFUSED
from acp_agent.cli.terminal.streams import unfiltered
from acp_agent.conversation.events import (
    AssistantAnswered,
    ContextAdded,
    LoggedEvent,
    TitleChanged,
    UserPrompted,
)
from acp_agent.conversation.messages import Usage
from acp_agent.conversation.swaps import (
    CompactionFailed,
    ContextSwapped,
    SummaryDropped,
)
from acp_agent.conversation.updates import (
    AgentSaid,
    CallAnnounced,
    CompactionChunk,
    CompactionFinished,
    Update,
)
from acp_agent.errors import sentence
from acp_agent.hooks.handlers import EXPORTS
from acp_agent.protocol import JsonObject
from acp_agent.protocol.updates import session_update
from acp_agent.server.handshake import Capabilities
from acp_agent.server.v1.presenter import Presenter
from acp_agent.session.client import Grant

OUTPUTS = ("text", "json", "stream-json")
EXIT_STATUSES: Mapping[str, int] = {
    "completed": 0,
    "failed": 1,
    "refused": 3,
    "vetoed": 4,
    "limit": 5,
    "cancelled": 6,
}
"""The exit status for each way in which a turn ends. argparse uses 2 for invalid
arguments.
"""
_STOPS: Mapping[str, tuple[str, str]] = {
    "refusal": (
        "refused",
        "Rephrase the prompt, or choose another model with `--model`.",
    ),
    "max_tokens": (
        "limit",
        "The answer was cut off at the model's output limit.",
    ),
    "max_turn_requests": (
        "limit",
        "The turn has reached its limit of requests or cost (`max_turn_requests`, `max_turn_cost`).",
    ),
    "cancelled": ("cancelled", "The turn was cancelled."),
}
"""The status for a stop reason, and what to tell the user."""


@dataclass(slots=True)
class TurnResult:
    """The result of a turn, as far as it is known.

    :ivar status: a key of `EXIT_STATUSES`.
    :ivar stop: ACP's stop reason; None if the turn failed.
    :ivar error: a sentence for the user; empty if the turn ended well.
    :ivar answer: the final answer; None if there is none.
    :ivar usage: the tokens of all model calls of the turn; None if no model was asked.
    :ivar cost: cost of the whole session in US dollars; None if unknown.
    :ivar refused: the calls that were not allowed, as a script reads them.
    :ivar change: how the session's context has changed, as text for people; empty if
        the session was not kept.
    """

    status: str = "failed"
    stop: str | None = None
    error: str = ""
    session_id: str | None = None
    answer: str | None = None
    usage: JsonObject | None = None
    cost: float | None = None
    change: str = ""
    refused: tuple[JsonObject, ...] = ()

    def end(self, stop: str, veto: str, *, done: bool) -> None:
        """Record how the turn ended.

        :param veto: why a hook ended the turn, or why the model refused to answer;
            empty if there is no reason.
        :param done: whether the command was carried out, if the prompt was a command.
        """
        self.stop = stop
        if stop in _STOPS:
            self.status, self.error = _STOPS[stop]
            if stop == "refusal":
                why = sentence(veto) if veto else REFUSED
                self.error = f"{why} {LEFT_OUT} {self.error}"
            elif self.session_id is not None:
                self.error += (
                    f' `acp-agent run -c {self.session_id} "Go on."` continues.'
                )
        elif veto:
            self.status = "vetoed"
            self.error = f"{sentence(veto)} `acp-agent hooks list` shows the hooks."
        elif done:
            self.status = "completed"
        else:
            self.error = "The command failed; its answer says why."

    async def read(self, events: AsyncIterator[LoggedEvent], message_id: str) -> None:
        """Read the final answer and the usage from the events of the turn.

        An answer that was cut off and its continuation are joined. A tool call or a
        hook's message ends an answer. A blank answer is treated as empty, as in the
        session, which asks the model again.

        :param message_id: the ID of the turn's prompt. Earlier events belong to other
            turns: to turns of other processes, or to a turn that a killed process left
            open and that was closed only now.
        """
        calls: list[Usage] = []
        is_over = False
        has_begun = False
        async for logged in events:
            has_begun = has_begun or (
                isinstance(logged.event, UserPrompted)
                and logged.event.message_id == message_id
            )
            if not has_begun:
                continue
            match logged.event:
                case AssistantAnswered(message):
                    begun = self.answer or ""
                    if is_over or not begun.strip():
                        begun = ""
                    self.answer = begun + message.text
                    is_over = bool(message.tool_calls)
                    usage = message.usage
                case ContextAdded():
                    is_over = True
                    usage = None
                case (
                    ContextSwapped()
                    | CompactionFailed()
                    | SummaryDropped()
                    | TitleChanged() as event
                ):
                    usage = event.usage
                case _:
                    usage = None
            calls += [usage] if usage is not None else []
        if self.answer is not None and not self.answer.strip():
            self.answer = ""
        if calls:
            self.usage = {
                "totalTokens": sum(call.total_tokens for call in calls),
                "inputTokens": sum(call.input_tokens for call in calls),
                "outputTokens": sum(call.output_tokens for call in calls),
                "cachedReadTokens": sum(call.cache_read_tokens for call in calls),
                "cachedWriteTokens": sum(call.cache_write_tokens for call in calls),
            }

    def as_json(self) -> JsonObject:
        """Return the object that a script reads, with ACP's member names where ACP has
        one. All members are always present.
        """
        return {
            "type": "result",
            "status": self.status,
            "sessionId": self.session_id,
            "stopReason": self.stop,
            "answer": self.answer,
            "refusedCalls": [*self.refused],
            "usage": self.usage,
            "cost": None
            if self.cost is None
            else {"amount": self.cost, "currency": "USD"},
            "error": self.error or None,
        }


class ScriptClient(TerminalClient):
    """Withholds each answer until it is known whether it is the final one, and shows
    everything else on stderr.

    If the output is text on a terminal, answers are streamed to stdout instead.

    :param output: one of `OUTPUTS`.
    :ivar veto: why a hook ended the turn, or why the model refused to answer; empty if
        there is no reason.
    :ivar failed: whether a command was not carried out, or the turn has no answer.
    :ivar failure: the reason of the failure; empty if nothing failed.
    :ivar is_finished: whether the result has been written.
    :ivar exports: whether the prompt is `/export`. If so, the file is written without
        asking, since the user has requested it on the command line.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self.exports = self.is_finished = False
        self.veto = ""
        self.failed = False
        self.failure = ""
        self._output = output
        self._streams = output == "text" and sys.stdout.isatty()
        # Present updates as to a client that supports only the stable protocol.
        self._presenter = Presenter(Capabilities()) if output == "stream-json" else None
        self._key = self._held = self._summary = ""

    async def show(self, update: Update) -> None:
        """Print an update to stdout or stderr, or withhold it."""
        if self._presenter is not None:
            for wire in self._presenter.present(update):
                _print_json(session_update(self.session_id, wire))
        match update:
            case AgentSaid(kind="veto"):
                self.veto = update.text.strip()
            case AgentSaid(kind="note"):
                self.view.line("warning", update.text.strip())
            case AgentSaid():
                if update.kind == "failure":
                    self.failed = True
                    self.failure = update.text.strip()
                await self._answer(update, update.message_id, update.text)
            case CompactionChunk() if self._by_hand:
                await self._answer(update, update.compaction_id, update.text)
            case CompactionChunk():
                self._summary += update.text
            case _:
                if isinstance(update, CompactionFinished):
                    self._take_summary(update.summary)
                elif isinstance(update, CallAnnounced):
                    self._set_aside()
                await super().show(update)

    def allows_unasked(
        self, arguments: JsonObject, grant: Grant | None, reason: str
    ) -> bool:
        """Return whether a call writes the file of `/export` at its usual place, or in
        the session's directories.
        """
        if not self.exports or reason or grant is None:
            return False
        path = arguments.get("path")
        is_usual = isinstance(path, str) and _is_usual(Path(path), self.view.cwd)
        return grant.subject == "edit" or is_usual

    async def _answer(self, update: Update, key: str, text: str) -> None:
        if self._streams:
            await super().show(update)
            return
        if key != self._key:
            self._set_aside()
        self._key = key
        self._held = self._held + text

    def _take_summary(self, summary: str | None) -> None:
        """Withhold the summary of a compaction that the user requested, and show any
        other summary.
        """
        if self._summary:
            self.view.line("summary", self._summary)
            self._summary = ""
        elif self._by_hand and summary and not self._streams and summary != self._held:
            self._set_aside()
            self._held = summary

    def _set_aside(self) -> None:
        """Show an answer that is not the final one."""
        if self._held.strip():
            self.view.line("", self._held)
        self._held = ""

    def finish(self, result: TurnResult) -> None:
        """Write the final answer or, as JSON, the result, which is first completed from
        what was shown. Only the first call has an effect.
        """
        if self.is_finished:
            return
        self.is_finished = True
        self.view.end_stream()
        if result.answer is None:  # a command's text is not the model's answer
            result.answer = self._held
        if result.stop not in ("end_turn", "max_tokens") or result.status == "vetoed":
            result.answer = None
            self._set_aside()
        result.refused = tuple(
            {
                "toolCallId": call_id,
                "title": call.title,
                "reason": call.reason,
            }
            for call_id, call in self.refused.items()
        )
        if self._output != "text":
            _print_json(result.as_json())
        elif result.answer and not self._streams:
            end = "" if result.answer.endswith("\n") else "\n"
            print(result.answer, end=end, flush=True, file=unfiltered(sys.stdout))


def _is_usual(path: Path, cwd: Path) -> bool:
    """Return whether a file is in the folder of exports, and that folder is in the
    session's directory, with symbolic links resolved.
    """
    usual = Path(cwd, EXPORTS).resolve()
    return path.resolve().is_relative_to(usual) and usual.is_relative_to(cwd.resolve())


def _print_json(value: JsonObject) -> None:
    # ASCII is the same in every locale, and JSON in ASCII contains no escape sequences.
    print(json.dumps(value), flush=True)
