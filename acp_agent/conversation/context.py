"""The context: what the model sees, folded from the log.

`Context` is immutable and pure. `apply` takes it one event further, and `Context.from_log(events)` equals applying
them one by one. A log may be folded from the tail of its last compaction on (see `ContextSwapped`), which is why a
session of any length opens quickly; everything that must outlive a compaction is either a message or in `Carried`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from acp_agent.conversation.events import (
    AssistantAnswered,
    Carried,
    CompactionFailed,
    ContextSwapped,
    InstructionsLoaded,
    LoggedEvent,
    ModeChanged,
    ModelChanged,
    PartialAnswer,
    PermissionGranted,
    PlanChanged,
    PlanEntry,
    SessionStarted,
    ThoughtLevelChanged,
    TitleChanged,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import AssistantMessage, Message, ToolCall, ToolResult, Usage, UserMessage

Files: TypeAlias = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in its place in the log; a summary stands at the seq of its swap, before all that it left in place."""

    seq: int
    message: Message
    summary: bool = False


@dataclass(frozen=True, slots=True)
class Partial:
    """An answer that was streaming when the log last heard of it."""

    message_id: str
    text: str
    thinking: str

    @classmethod
    def extended(cls, partial: Partial | None, event: PartialAnswer) -> Partial:
        """What the log holds of the answer after one more checkpoint."""
        if partial is None or partial.message_id != event.message_id:
            return cls(event.message_id, event.text, event.thinking)
        return cls(event.message_id, partial.text + event.text, partial.thinking + event.thinking)


@dataclass(frozen=True, slots=True)
class Context:
    """What the model sees, and what a session needs to go on.

    :ivar head: seq of the last event applied; 0 for an empty log.
    :ivar revision: seq of the last event that took something out of the context (a compaction, a refusal). Whatever was
        computed from an earlier revision is void.
    :ivar usage: the provider's count for the newest answer; None where there is none since the last revision.
    :ivar baseline: tokens of the context up to and with the entry at `baseline_seq`: the provider's count, or the
        estimate that a compaction left; 0 where neither is known.
    :ivar grants: kinds of call that need no more asking.
    :ivar cost: US dollars spent in this session.
    :ivar files: digest of each file version that the model has seen since the last compaction.
    :ivar turn_from: seq of the prompt of a turn that has not ended.
    :ivar partial: the part of an unfinished answer that the log holds.
    :ivar before_turn: the entries before the newest prompt, whose seq is `prompted`: what a refusal goes back to, also
        where the turn was compacted meanwhile. Known only to a fold that has seen that prompt, so it does not count
        when contexts are compared; whoever folds a tail begins before a prompt that was refused.
    """

    head: int = 0
    revision: int = 0
    entries: tuple[Entry, ...] = ()
    cwd: str = ""
    additional_directories: tuple[str, ...] = ()
    mode: str = "ask"
    model: str = ""
    thought_level: str = ""
    instructions: str = ""
    title: str | None = None
    plan: tuple[PlanEntry, ...] = ()
    usage: Usage | None = None
    baseline: int = 0
    baseline_seq: int = 0
    grants: frozenset[str] = frozenset()
    cost: float = 0.0
    files: Files = field(default_factory=dict[str, "str | None"])
    turn_from: int | None = None
    partial: Partial | None = None
    before_turn: tuple[Entry, ...] = field(default=(), compare=False, repr=False)
    prompted: int = field(default=0, compare=False)

    @classmethod
    def from_log(cls, events: Iterable[LoggedEvent]) -> Context:
        """Fold a whole log, or the tail that begins where its last compaction says."""
        context = cls()
        for event in events:
            context = context.apply(event)
        return context

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in order, without their places."""
        return tuple(entry.message for entry in self.entries)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the newest answer that have no result yet."""
        answered: set[str] = set()
        for entry in reversed(self.entries):
            message = entry.message
            if isinstance(message, ToolResult):
                answered.add(message.call_id)
            elif isinstance(message, AssistantMessage):
                return tuple(call for call in message.tool_calls if call.id not in answered)
            else:
                break
        return ()

    def carried(self) -> Carried:
        """What a swap of this context has to carry over."""
        return Carried(
            cwd=self.cwd,
            additional_directories=self.additional_directories,
            mode=self.mode,
            model=self.model,
            thought_level=self.thought_level,
            instructions=self.instructions,
            title=self.title,
            plan=self.plan,
            grants=tuple(sorted(self.grants)),
            cost=self.cost,
            turn_from=self.turn_from,
        )

    def apply(self, logged: LoggedEvent) -> Context:
        """This context, one event later."""
        seq, event = logged.seq, logged.event
        match event:
            case SessionStarted():
                return replace(
                    self,
                    head=seq,
                    cwd=event.cwd,
                    additional_directories=event.additional_directories,
                    mode=event.mode,
                    model=event.model,
                    thought_level=event.thought_level,
                )
            case UserPrompted():
                parts = event.shown if event.sent is None else event.sent
                entries = self.entries
                if parts:
                    entries = (*entries, Entry(seq, UserMessage(event.message_id, parts)))
                return replace(
                    self,
                    head=seq,
                    entries=entries,
                    turn_from=seq,
                    partial=None,
                    before_turn=self.entries,
                    prompted=seq,
                )
            case PartialAnswer():
                return replace(self, head=seq, partial=Partial.extended(self.partial, event))
            case AssistantAnswered():
                return self._answered(seq, event.message)
            case ToolReturned():
                files = self.files
                if event.files:
                    files = {**files, **{version.path: version.digest for version in event.files}}
                return replace(self, head=seq, entries=(*self.entries, Entry(seq, event.result)), files=files)
            case TurnEnded():
                return replace(self, head=seq, turn_from=None, partial=None)
            case TurnRefused():
                kept = self.before_turn
                if self.prompted != event.from_seq:
                    kept = tuple(entry for entry in self.entries if entry.summary or entry.seq < event.from_seq)
                return replace(
                    self,
                    head=seq,
                    revision=seq,
                    entries=kept,
                    usage=None,
                    baseline=0,
                    baseline_seq=0,
                    partial=None,
                    # Some of it was seen in what is gone; reading a file once more is cheap, a blind edit is not.
                    files={},
                )
            case ContextSwapped():
                return self._swapped(seq, event)
            case CompactionFailed():
                return replace(self, head=seq, cost=self.cost + _cost(event.usage))
            case InstructionsLoaded():
                return replace(self, head=seq, instructions=event.text)
            case PlanChanged():
                return replace(self, head=seq, plan=event.entries)
            case ModeChanged():
                return replace(self, head=seq, mode=event.mode)
            case ModelChanged():
                return replace(self, head=seq, model=event.model)
            case ThoughtLevelChanged():
                return replace(self, head=seq, thought_level=event.level)
            case PermissionGranted():
                return replace(self, head=seq, grants=self.grants | {event.subject})
            case TitleChanged():
                return replace(self, head=seq, title=event.title)
            case _:
                return replace(self, head=seq)

    def _answered(self, seq: int, message: AssistantMessage) -> Context:
        entries = self.entries
        # An answer that says nothing (a cancel before the first word) is no message: providers refuse empty ones.
        if message.parts:
            entries = (*entries, Entry(seq, message))
        changed = replace(self, head=seq, entries=entries, partial=None, cost=self.cost + _cost(message.usage))
        if message.usage is not None:
            changed = replace(changed, usage=message.usage, baseline=message.usage.total_tokens, baseline_seq=seq)
        return changed

    def _swapped(self, seq: int, event: ContextSwapped) -> Context:
        tail = (entry for entry in self.entries if entry.seq >= event.keep_from and not entry.summary)
        pinned = (Entry(pin.seq, pin.message) for pin in event.pinned)
        summary = Entry(seq, UserMessage(event.message_id, event.sent), summary=True)
        carried = event.carried
        return replace(
            self,
            head=seq,
            revision=seq,
            entries=(summary, *pinned, *tail),
            cwd=carried.cwd,
            additional_directories=carried.additional_directories,
            mode=carried.mode,
            model=carried.model,
            thought_level=carried.thought_level,
            instructions=carried.instructions,
            title=carried.title,
            plan=carried.plan,
            cost=carried.cost + _cost(event.usage),
            turn_from=carried.turn_from,
            grants=frozenset(carried.grants),
            usage=None,
            baseline=event.tokens_after,
            baseline_seq=seq,
            files={},
            partial=None,
        )


def _cost(usage: Usage | None) -> float:
    return usage.cost if usage is not None and usage.cost is not None else 0.0
