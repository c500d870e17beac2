"""The context: what the model sees, folded from the log.

`Context` is immutable. `apply` returns the context after one more event, and
`Context.from_log(events)` equals applying them one by one. A fold may begin at the tail
of the last compaction (see `ContextSwapped`), so that a session of any length opens
quickly; everything that must outlive a compaction is either a message or in `Carried`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import Any, TypeAlias

from acp_agent.conversation.entries import not_removed, prompt_entries, without_thinking
from acp_agent.conversation.events import (
    AssistantAnswered,
    AutoCompactionChanged,
    CompactionFailed,
    ContextAdded,
    ContextRestored,
    ContextSwapped,
    ContinuationAsked,
    DirectoriesChanged,
    EditsUndone,
    Event,
    FeatureRefused,
    ImagesRefused,
    InstructionsLoaded,
    LoggedEvent,
    MessageSupplied,
    ModeChanged,
    ModelChanged,
    PartialAnswer,
    PermissionGranted,
    PinRemoved,
    PlanChanged,
    PlanEntry,
    ReasoningWithheld,
    SessionForked,
    SessionStarted,
    SummaryDropped,
    SurroundingsChanged,
    TextPinned,
    ThoughtLevelChanged,
    TitleAuthor,
    TitleChanged,
    ToolReturned,
    ToolsDeclared,
    ToolsRefused,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    call_digest,
)
from acp_agent.conversation.surroundings import (
    Feature,
    Surroundings,
    amendments_in,
    sections_in,
)
from acp_agent.conversation.swaps import Carried, Memory, Pin
from acp_agent.frozen import frozen

Files: TypeAlias = dict[str, str | None]


@frozen
class RefusedTurn:
    """A turn that ended because the provider refused to continue it, and whose messages
    are still in the context, at least in part.

    :ivar from_seq: seq of the turn's prompt.
    :ivar before_seq: seq of the first entry after the part that is in the context. It
        equals `from_seq` if no part is left.
    :ivar is_shortened: whether a step of the turn has since been removed from the
        context.
    :ivar is_answered: whether the model has answered since, but only with tool calls.
    """

    from_seq: int
    before_seq: int
    is_shortened: bool = False
    is_answered: bool = False


# Events whose effect depends on earlier entries.
_LOOKS_BACK = (
    UserPrompted,
    TurnRefused,
    ContextSwapped,
    ContextRestored,
    ReasoningWithheld,
    InstructionsLoaded,
    ToolsDeclared,
)
# How many entries a fold keeps in a tuple before it moves them to a list.
_RECENT_ENTRIES = 64


@frozen
class Context:
    """What the model sees, and the state that a session continues from.

    :ivar head: seq of the last event applied; 0 for an empty log.
    :ivar revision: seq of the last event that removed something from the context (a
        compaction, a refusal). Results computed from an earlier revision are invalid.
    :ivar auto_compaction: whether the context is compacted automatically; None leaves
        it to the settings.
    :ivar title_by: who set the title.
    :ivar usage: the provider's count for the newest answer; None if there is none since
        the last revision.
    :ivar baseline: tokens of the context up to and including the entry at
        `baseline_seq`: the provider's count, or the estimate after a compaction; 0 if
        neither is known.
    :ivar grants: kinds of calls that no longer need permission, in the directories that
        the session had at that time.
    :ivar cost: US dollars spent in this session.
    :ivar answers: number of answers without tool calls.
    :ivar files: digest of each file version that the model has seen since the last
        compaction.
    :ivar turn_from: seq of the prompt of a turn that has not ended.
    :ivar memory: texts that no compaction may paraphrase.
    :ivar swaps: seqs of the compactions in effect, the newest last.
    :ivar fold_from: seq at which a fold that yields this context may begin; 0 for the
        log's beginning.
    :ivar restored: whether the newest swap was an undo. The user then wants this
        context to stay as it is.
    :ivar declared: the surroundings at the beginning of every request.
    :ivar announced: the surroundings that the model knows: `declared`, changed by the
        amendments among the entries.
    :ivar withheld: IDs of the answers whose reasoning is no longer sent.
    :ivar void: names of the pieces of reasoning that will never be sent again; see
        `messages.name_of`.
    :ivar refused: the features that providers do not accept, each with its model as
        `provider/model`.
    :ivar takes: the values that providers accept for features that they otherwise
        refuse; see `FeatureRefused`.
    :ivar refused_images: the images that providers do not accept, as SHA-256 of their
        bytes.
    :ivar refused_tools: the tools that providers do not accept, by name.
    :ivar refused_calls: the calls of steps that were left out because a provider refused
        them; see `messages.call_digest`.
    :ivar refusals: number of consecutive prompts that were refused, without an answer
        in between.
    :ivar refused_turn: the turn that the provider refused to continue, until the
        provider answers again. If a step has been left out since, only a final answer
        ends this, since the model may repeat the step.
    :ivar unbound_until: seq up to which reasoning without a `Bound` is not sent, since
        an earlier version of the agent may have changed the messages before it.
    :ivar partial: the part of an unfinished answer that is in the log.
    :ivar prompted: seq of the newest prompt.
    :ivar before_turn: the context before the newest prompt. If the turn is refused,
        this context is restored, even after a compaction. None if the fold began after
        that prompt, so comparisons ignore it. If a prompt was refused, folds begin
        before it.
    """

    head: int = 0
    revision: int = 0
    entries: tuple[Entry, ...] = ()
    cwd: str = ""
    additional_directories: tuple[str, ...] = ()
    root: str = ""
    mode: str = "ask"
    model: str = ""
    thought_level: str = ""
    auto_compaction: bool | None = None
    instructions: str = ""
    title: str | None = None
    title_by: TitleAuthor = "words"
    plan: tuple[PlanEntry, ...] = ()
    usage: Usage | None = None
    baseline: int = 0
    baseline_seq: int = 0
    grants: frozenset[str] = frozenset()
    cost: float = 0.0
    answers: int = 0
    files: Files = field(default_factory=dict[str, "str | None"])
    turn_from: int | None = None
    memory: Memory = field(default_factory=Memory)
    swaps: tuple[int, ...] = ()
    fold_from: int = 0
    restored: bool = False
    declared: Surroundings = Surroundings()
    announced: Surroundings = Surroundings()
    withheld: frozenset[str] = frozenset()
    void: frozenset[str] = frozenset()
    refused: frozenset[tuple[str, Feature]] = frozenset()
    takes: frozenset[tuple[str, Feature, str]] = frozenset()
    refused_images: frozenset[tuple[str, str]] = frozenset()
    refused_tools: frozenset[tuple[str, str]] = frozenset()
    refused_calls: frozenset[str] = frozenset()
    refusals: int = 0
    refused_turn: RefusedTurn | None = None
    unbound_until: int = 0
    partial: PartialAnswer | None = None
    before_turn: Context | None = field(default=None, compare=False, repr=False)
    prompted: int = field(default=0, compare=False)

    @classmethod
    def from_log(cls, events: Iterable[LoggedEvent]) -> Context:
        """Fold a whole log, or its tail from the place that the last compaction
        recorded.
        """
        context = cls()
        # Appending to a tuple copies it, which would be quadratic, so older entries are
        # kept in a list during the fold.
        older: list[Entry] = []
        for event in events:
            if isinstance(event.event, _LOOKS_BACK):
                context = replace(context, entries=(*older, *context.entries))
                older.clear()
            context = context.apply(event)
            if len(context.entries) > _RECENT_ENTRIES:
                older.extend(context.entries)
                context = replace(context, entries=())
        return replace(context, entries=(*older, *context.entries))

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages in order, without their entries."""
        return tuple(map(_message_of, self.entries))

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the newest answer that have no result yet."""
        answered: set[str] = set()
        for entry in reversed(self.entries):
            message = entry.message
            if isinstance(message, ToolResult):
                answered.add(message.call_id)
            elif isinstance(message, AssistantMessage):
                return tuple(
                    call for call in message.tool_calls if call.id not in answered
                )
            else:
                break
        return ()

    def covers(self, cwd: str, additional_directories: Iterable[str]) -> bool:
        """Return whether this session's permissions apply in these directories.

        :param cwd: absolute path of the working directory.
        """
        return cwd == self.cwd and {*additional_directories} <= {
            *self.additional_directories
        }

    def images_refused_by(self, model: str) -> frozenset[str]:
        """Return the images that a model's provider does not accept, as SHA-256 of
        their bytes.

        :param model: `provider/model`.
        """
        return frozenset(image for name, image in self.refused_images if name == model)

    def values_accepted_by(self, model: str) -> dict[Feature, str]:
        """Return the values that a model's provider accepts for features that it
        otherwise refuses.

        :param model: `provider/model`.
        """
        return {
            feature: values for name, feature, values in self.takes if name == model
        }

    def tools_refused_by(self, model: str) -> frozenset[str]:
        """Return the names of the tools that a model's provider does not accept.

        :param model: `provider/model`.
        """
        return frozenset(tool for name, tool in self.refused_tools if name == model)

    def carried(self) -> Carried:
        """Return the values that a swap of this context must carry over."""
        sets = {name: tuple(sorted(getattr(self, name))) for name in _SETS}
        return Carried(**_values(self, _CARRIED, **sets))

    def _with(self, *added: Entry) -> tuple[Entry, ...]:
        """Return the context's entries, followed by the added ones."""
        # `(*entries, ...)` builds a list first, which takes three times as long.
        return self.entries + added

    def apply(self, logged: LoggedEvent) -> Context:
        """Return the context after this event."""
        return replace(self, head=logged.seq, **self._changes(logged.seq, logged.event))

    def _changes(self, seq: int, event: Event) -> dict[str, Any]:
        """Return the fields that change with an event."""
        match event:
            case SessionForked(cwd=cwd, additional_directories=more, mode=mode):
                return {
                    "cwd": cwd,
                    "additional_directories": more,
                    "mode": mode or self.mode,
                    "grants": frozenset(),
                    "cost": 0.0,
                }
            case DirectoriesChanged(
                cwd=cwd, additional_directories=more, root=root, mode=mode
            ):
                return {
                    "cwd": cwd or self.cwd,
                    "additional_directories": more,
                    "root": root or self.root,
                    "mode": mode or self.mode,
                    "grants": self.grants
                    if self.covers(cwd or self.cwd, more)
                    else frozenset(),
                }
            case ModeChanged(scope="opening"):
                return {}
            case InstructionsLoaded():
                sections = event.sections or sections_in(event.text)
                declared = replace(self.declared, sections=sections)
                return {
                    "instructions": event.text,
                    "unbound_until": seq,
                    **self._declaring(declared),
                }
            case ToolsDeclared():
                declared = replace(
                    self.declared, tools=event.tools, thought_level=event.thought_level
                )
                return self._declaring(declared)
            case SurroundingsChanged(amendment=amendment):
                return {
                    "entries": self._with(Entry(seq, amendment, note=True)),
                    "announced": self.announced.after((amendment,)),
                }
            case ReasoningWithheld():
                return self._without_reasoning(event)
            case FeatureRefused(takes=""):
                return {"refused": self.refused | {(event.model, event.feature)}}
            case FeatureRefused():
                others = {
                    each
                    for each in self.takes
                    if each[:2] != (event.model, event.feature)
                }
                return {
                    "takes": frozenset(
                        others | {(event.model, event.feature, event.takes)}
                    )
                }
            case ImagesRefused():
                images = {(event.model, image) for image in event.images}
                return {"refused_images": self.refused_images | images}
            case ToolsRefused():
                tools = {(event.model, tool) for tool in event.tools}
                return {"refused_tools": self.refused_tools | tools}
            case UserPrompted():
                return {
                    "entries": self._with(*prompt_entries(seq, event)),
                    "turn_from": self.turn_from if event.steers else seq,
                    "partial": None,
                    "before_turn": replace(self, before_turn=None),
                    "prompted": seq,
                }
            case PartialAnswer():
                return {"partial": event.after(self.partial)}
            case AssistantAnswered():
                return self._answered(seq, event.message)
            case ToolReturned():
                files = self.files
                if event.files:
                    files = {
                        **files,
                        **{version.path: version.digest for version in event.files},
                    }
                return {"entries": self._with(Entry(seq, event.result)), "files": files}
            case TurnEnded():
                changes: dict[str, Any] = {"turn_from": None, "partial": None}
                if event.refused and self.turn_from is not None:
                    earlier = self.refused_turn
                    is_shortened = earlier is not None and earlier.is_shortened
                    changes["refused_turn"] = RefusedTurn(
                        self.turn_from, seq + 1, is_shortened
                    )
                return changes
            case TurnRefused(before_seq=0):
                return self._refused(seq, event.from_seq)
            case TurnRefused():
                return self._left_out(seq, event)
            case ContextSwapped():
                return self._swapped(seq, event)
            case ContextRestored():
                return {
                    **self._carried_over(seq, event),
                    "entries": without_thinking(
                        event.entries, frozenset(event.carried.void)
                    ),
                    "announced": _declared(event.carried).after(
                        amendments_in(event.entries)
                    ),
                    "baseline": event.tokens,
                    "swaps": event.earlier,
                    "fold_from": seq,
                    "restored": True,
                }
            case TextPinned():
                memory = replace(
                    self.memory,
                    pins=(*self.memory.pins, Pin(event.number, event.text)),
                    next_pin=max(self.memory.next_pin, event.number + 1),
                )
                return {**self._noted(seq, event), "memory": memory}
            case PinRemoved():
                pins = tuple(
                    pin for pin in self.memory.pins if pin.number != event.number
                )
                return {
                    **self._noted(seq, event),
                    "memory": replace(self.memory, pins=pins),
                }
            case EditsUndone():
                files = {
                    path: digest
                    for path, digest in self.files.items()
                    if path not in event.paths
                }
                return {**self._noted(seq, event), "files": files}
            case MessageSupplied():
                return {"entries": self._with(Entry(seq, event.message, note=True))}
            case ContextAdded() | ContinuationAsked():
                return self._noted(seq, event)
            case SummaryDropped() | CompactionFailed():
                return {"cost": self.cost + _cost(event.usage)}
            case PermissionGranted(scope="session"):
                return {"grants": self.grants | {event.subject}}
            case TitleChanged():
                return {
                    "title": event.title,
                    "title_by": event.by,
                    "cost": self.cost + _cost(event.usage),
                }
            case _:
                return {
                    name: getattr(event, value)
                    for name, value in _SETTINGS.get(type(event), {}).items()
                }

    def _refused(self, seq: int, from_seq: int) -> dict[str, Any]:
        """Return the fields that change after the newest prompt was refused."""
        before = self.before_turn
        if before is None or self.prompted != from_seq:
            kept = tuple(
                entry for entry in self.entries if entry.summary or entry.seq < from_seq
            )
            announced = self.declared.after(amendments_in(kept))
            before = replace(self, **_NOT_COUNTED, entries=kept, announced=announced)
        entries = without_thinking(before.entries, self.void)
        # The removed messages may include the contents of files. Reading a file again
        # is cheap. Editing text that the model has not seen is dangerous.
        changes = _values(
            before, _BEFORE, entries=entries, revision=seq, partial=None, files={}
        )
        return changes | {"refusals": self.refusals + 1}

    def _left_out(self, seq: int, event: TurnRefused) -> dict[str, Any]:
        """Return the fields that change after the provider refused some messages, but not
        the newest prompt.
        """
        before = self.before_turn
        turn = self.refused_turn
        # A refusal of the newest prompt must not restore the removed entries.
        if before is not None:
            kept = not_removed(before.entries, event)
            announced = before.declared.after(amendments_in(kept))
            before = replace(before, **_NOT_COUNTED, entries=kept, announced=announced)
        if turn is None:
            turn = RefusedTurn(event.from_seq, event.from_seq, is_shortened=True)
        elif event.from_seq < turn.before_seq:
            before_seq = max(turn.from_seq, event.from_seq)
            turn = replace(turn, before_seq=before_seq, is_shortened=True)
        entries = not_removed(self.entries, event)
        removed = [entry.message for entry in self.entries if event.removes(entry.seq)]
        calls = self.refused_calls
        if removed and isinstance(removed[0], AssistantMessage):
            calls = calls.union(map(call_digest, removed[0].tool_calls))
        return {
            **_NOT_COUNTED,
            "entries": entries,
            "announced": self.declared.after(amendments_in(entries)),
            "revision": seq,
            "files": {},
            "refused_turn": turn,
            "refused_calls": calls,
            "before_turn": before,
        }

    def _declaring(self, declared: Surroundings) -> dict[str, Any]:
        """Return the fields that change with a declaration of surroundings."""
        # Amendments apply after the declaration, whatever their order in the log.
        return {
            "declared": declared,
            "announced": declared.after(amendments_in(self.entries)),
        }

    def _without_reasoning(self, event: ReasoningWithheld) -> dict[str, Any]:
        """Return the fields that change when reasoning is no longer sent."""
        changes: dict[str, Any] = {"withheld": self.withheld.union(event.messages)}
        if event.pieces:
            void = self.void.union(event.pieces)
            changes |= {"void": void, "entries": without_thinking(self.entries, void)}
        return changes

    def _answered(self, seq: int, message: AssistantMessage) -> dict[str, Any]:
        """Return the fields that change with an answer of the model."""
        usage = message.counted
        changes: dict[str, Any] = {
            "partial": None,
            "cost": self.cost + _cost(message.usage),
        }
        if message.stop_reason not in ("refusal", "cancelled", "interrupted"):
            turn = self.refused_turn
            if turn is not None:
                is_open = turn.is_shortened and bool(message.tool_calls)
                turn = replace(turn, is_answered=True) if is_open else None
            changes |= {"refusals": 0, "refused_turn": turn}
        # An empty answer (cancelled before the first word) is not kept, since providers
        # refuse empty messages.
        if message.parts:
            changes["entries"] = self._with(Entry(seq, message))
        if message.stop_reason == "end_turn" and not message.tool_calls:
            changes["answers"] = self.answers + 1
        if usage is not None:
            changes |= {
                "usage": usage,
                "baseline": usage.total_tokens,
                "baseline_seq": seq,
            }
        return changes

    def _noted(
        self,
        seq: int,
        event: TextPinned | PinRemoved | EditsUndone | ContextAdded | ContinuationAsked,
    ) -> dict[str, Any]:
        """Return the entries with a note from the agent to the model."""
        return {
            "entries": self._with(
                Entry(
                    seq, UserMessage(event.message_id, (Text(event.sent),)), note=True
                )
            )
        }

    def _swapped(self, seq: int, event: ContextSwapped) -> dict[str, Any]:
        """Return the fields that change with a compaction."""
        entries = self.entries
        if event.sent:
            tail = (
                entry
                for entry in entries
                if entry.seq >= event.keep_from and not entry.summary
            )
            pinned = (
                Entry(pin.seq, pin.message, shortened=pin.shortened)
                for pin in event.pinned
            )
            entries = (
                Entry(seq, UserMessage(event.message_id, event.sent), summary=True),
                *pinned,
                *tail,
            )
        if event.rewritten:
            new = {rewritten.seq: rewritten.message for rewritten in event.rewritten}
            entries = tuple(
                replace(entry, message=new[entry.seq], shortened=True)
                if entry.seq in new and not entry.summary
                else entry
                for entry in entries
            )
        if event.behind is not None:
            entries = (*entries, Entry(seq, event.behind, note=True))
        return {
            **self._carried_over(seq, event),
            "entries": entries,
            "announced": _declared(event.carried).after(amendments_in(entries)),
            "cost": event.carried.cost + _cost(event.usage),
            "baseline": event.tokens_after,
            "swaps": (*event.earlier, seq),
            "fold_from": event.fold_from or min(event.keep_from, seq),
            "restored": False,
        }

    def _carried_over(
        self, seq: int, event: ContextSwapped | ContextRestored
    ) -> dict[str, Any]:
        """Return the fields that a compaction or its undo sets from carried values."""
        carried = event.carried
        files = {version.path: version.digest for version in event.files}
        sets = {name: frozenset(getattr(carried, name)) for name in _SETS}
        changes = _values(
            carried,
            _CARRIED,
            **_NOT_COUNTED,
            **sets,
            partial=None,
            declared=_declared(carried),
        )
        changes |= {
            "revision": seq,
            "baseline_seq": seq,
            "unbound_until": seq,
            "files": files,
        }
        return changes | {"refusals": 0, "refused_turn": None}


_message_of = attrgetter("message")
_SETTINGS: dict[type[Event], dict[str, str]] = {
    SessionStarted: {
        name: name
        for name in (
            "cwd",
            "additional_directories",
            "mode",
            "model",
            "thought_level",
            "root",
        )
    },
    PlanChanged: {"plan": "entries"},
    ModeChanged: {"mode": "mode"},
    ModelChanged: {"model": "model"},
    ThoughtLevelChanged: {"thought_level": "level"},
    AutoCompactionChanged: {"auto_compaction": "on"},
}
"""The fields of the context that these events replace, each with the event's field
that contains the new value.
"""
_CARRIED = tuple(each.name for each in fields(Carried))
_SETS = (
    "grants",
    "withheld",
    "void",
    "refused",
    "takes",
    "refused_images",
    "refused_tools",
    "refused_calls",
)
"""The fields of `Carried` that are sets in a context and sorted lists in a log."""
_BEFORE = (
    "entries",
    "usage",
    "baseline",
    "baseline_seq",
    "swaps",
    "fold_from",
    "restored",
    "declared",
    "announced",
)
"""The fields that are restored when the newest prompt is refused."""
_NOT_COUNTED: dict[str, Any] = {"usage": None, "baseline": 0, "baseline_seq": 0}
"""The fields of a context whose tokens no provider has counted."""


def _declared(carried: Carried) -> Surroundings:
    """Return the surroundings at the beginning of every request.

    Logs of earlier versions contain only the system prompt.
    """
    declared = carried.declared
    if declared.sections:
        return declared
    return replace(declared, sections=sections_in(carried.instructions))


def _values(
    source: Context | Carried, names: Iterable[str], **others: Any
) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names} | others


def _cost(usage: Usage | None) -> float:
    return usage.cost if usage is not None and usage.cost is not None else 0.0
