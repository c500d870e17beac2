"""Builds the view of a session from its log.

A `Story` is fed one event after another, so that a page can follow a growing log. What
the model saw is what `Context` makes of the events. The names of the fields are those
that the page's script reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from acp_agent.cli.inspect.entries import (
    Block,
    ItemKind,
    Part,
    arguments_text,
    blocks,
    blocks_before,
    first_line,
    line_of,
    message_text,
    parts_text,
)
from acp_agent.compaction.estimate import used_tokens
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    CompactionFailed,
    ContextRestored,
    ContextSwapped,
    LoggedEvent,
    PartialAnswer,
    SessionForked,
    SummaryDropped,
    TextPinned,
    TitleChanged,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import AssistantMessage, Text, Thinking, Usage
from acp_agent.session.compact.report import receipt_text

Status: TypeAlias = Literal["", "completed", "failed", "cancelled", "open"]


class _Point(NamedTuple):
    """The size of the context after so many model calls; of a drop, with the index of
    its compaction.
    """

    step: int
    tokens: int
    compaction: int | None = None


@dataclass(slots=True)
class _Item:
    """One thing that happened.

    :ivar seq: the entry of the log that it began with.
    :ivar at: when, in milliseconds since the epoch.
    :ivar cost: US dollars.
    :ivar compaction: index into `Story.compactions`; None for anything else.
    :ivar reasons: of an answer that has reasoning, the id of its message.
    """

    seq: int
    at: int
    kind: ItemKind
    title: str
    parts: list[Part]
    status: Status = ""
    cost: float = 0.0
    compaction: int | None = None
    reasons: str = ""


@dataclass(slots=True)
class Turn:
    """From a prompt to the next one; number 0 is what came before the first.

    :ivar ended: milliseconds since the epoch; None for a turn that has not ended.
    """

    number: int
    seq: int
    at: int
    title: str
    items: list[_Item] = field(default_factory=list[_Item])
    ended: int | None = None
    stop: str = ""
    error: str = ""


@dataclass(slots=True)
class _Step:
    """One model call, as its provider counted it, in tokens.

    :ivar sent: all that was sent; `read` of that came from the cache, `write` went into
        it.
    :ivar cost: US dollars; None where the price is not known.
    :ivar elsewhere: it was made, and paid for, in the session that this one was forked
        from.
    """

    number: int
    turn: int
    model: str
    sent: int
    read: int
    write: int
    output: int
    cost: float | None
    elsewhere: bool = False


@dataclass(slots=True)
class Compaction:
    """A compaction that happened, or did not.

    :ivar text: its receipt, or its error.
    :ivar tokens: of the context before and after; 0 for one that did not happen.
    :ivar undone: seq of the entry that undid it; 0 where none did.
    :ivar before: what the model saw, and `after` what it saw from then on.
    """

    number: int
    seq: int
    at: int
    trigger: str
    status: Status
    cost: float
    text: str
    tokens: tuple[int, int] = (0, 0)
    undone: int = 0
    before: Sequence[Block] = ()
    after: Sequence[Block] = ()


@dataclass(slots=True)
class Story:
    """A session after the events so far.

    :ivar head: seq of the last event that it was fed; `ended` is when that happened.
    """

    context: Context = field(default_factory=Context)
    head: int = 0
    began: int = 0
    ended: int = 0
    turns: list[Turn] = field(default_factory=list[Turn])
    steps: list[_Step] = field(default_factory=list[_Step])
    points: list[_Point] = field(default_factory=list[_Point])
    compactions: list[Compaction] = field(default_factory=list[Compaction])
    _calls: dict[str, _Item] = field(default_factory=dict[str, _Item])
    _pins: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def title(self) -> str:
        """Return the session's title, or its first prompt."""
        return self.context.title or next(
            (turn.title for turn in self.turns if turn.number), ""
        )

    @property
    def model(self) -> str:
        """Return the chosen model, or the one that answered last."""
        return self.context.model or (self.steps[-1].model if self.steps else "")

    def feed(self, logged: LoggedEvent) -> None:
        """Process the next entry of the log."""
        before = self.context
        event = logged.event
        self.context = before.apply(logged)
        self.head = logged.seq
        self.ended = logged.at
        self.began = self.began or logged.at
        if isinstance(event, UserPrompted) and not event.steers:
            number = self.turns[-1].number + 1 if self.turns else 1
            title = first_line(parts_text(event.shown)) or "(empty prompt)"
            self.turns.append(Turn(number, logged.seq, logged.at, title))
        elif not self.turns:
            self.turns.append(Turn(0, logged.seq, logged.at, "Before the first prompt"))
        match event:
            case UserPrompted():
                parts = [("Prompt", parts_text(event.shown))]
                if event.sent:
                    parts.append(("As the model reads it", parts_text(event.sent)))
                title = f"Recipe {event.recipe}" if event.recipe else "Prompt"
                self._add(logged, "prompt", title, parts)
            case PartialAnswer():
                pass  # the whole answer follows
            case AssistantAnswered():
                self._answered(logged, event.message)
            case ToolReturned():
                self._returned(logged, event)
            case TurnEnded():
                turn = self.turns[-1]
                turn.ended = logged.at
                turn.stop = event.stop_reason
                turn.error = event.error or ""
            case TurnRefused():
                end = (
                    f" and ended before entry {event.before_seq}"
                    if event.before_seq
                    else ""
                )
                self._add(
                    logged,
                    "refused",
                    f"Refused: what began at entry {event.from_seq}{end} left the context",
                )
                self._point(self.context.baseline)
            case ContextSwapped():
                self._swapped(logged, event, before)
            case CompactionFailed():
                number = len(self.compactions) + 1
                title = f"Compaction {number} {event.status}"
                cost = _cost(event.usage)
                each = Compaction(
                    number,
                    logged.seq,
                    logged.at,
                    event.trigger,
                    event.status,
                    cost,
                    event.error or "",
                )
                self._compacted(logged, each, title, "")
            case ContextRestored():
                for each in self.compactions:
                    if each.seq == event.undone:
                        each.undone = logged.seq
                self._add(logged, "undo", "Compaction undone")
                self._point(event.tokens)
            case SummaryDropped():
                self._add(
                    logged,
                    "note",
                    "A prepared summary was not used",
                    cost=_cost(event.usage),
                )
            case _:
                # All that came before was paid for in another session.
                if isinstance(event, SessionForked):
                    for each in (
                        *self.compactions,
                        *(item for turn in self.turns for item in turn.items),
                    ):
                        each.cost = 0.0
                    for step in self.steps:
                        step.elsewhere = True
                if isinstance(event, TextPinned):
                    self._pins[logged.seq] = event.text
                kind, title, texts = line_of(event)
                cost = _cost(event.usage) if isinstance(event, TitleChanged) else 0.0
                self._add(logged, kind, title, texts, cost=cost)

    def _answered(self, logged: LoggedEvent, message: AssistantMessage) -> None:
        usage = message.usage
        cost = _cost(message.usage)
        if usage is None:
            self._point(used_tokens(self.context, 0))
        else:
            read = usage.cache_read_tokens
            write = usage.cache_write_tokens
            sent = usage.input_tokens + read + write
            number = len(self.steps) + 1
            turn = self.turns[-1].number
            self.steps.append(
                _Step(
                    number,
                    turn,
                    message.model,
                    sent,
                    read,
                    write,
                    usage.output_tokens,
                    usage.cost,
                )
            )
            self._point(usage.total_tokens)
        ending = (
            ""
            if message.stop_reason in ("end_turn", "tool_use")
            else f" ({message.stop_reason})"
        )
        shown = [
            part
            for part in message.parts
            if not isinstance(part, Thinking) or part.text
        ]
        reasons = (
            message.id
            if any(isinstance(part, Thinking) for part in message.parts)
            else ""
        )
        begun = len(self.turns[-1].items)
        for part in shown:
            if isinstance(part, Thinking):
                self._add(logged, "thought", "Thought", [("Text", part.text)])
                continue
            if isinstance(part, Text):
                self._add(
                    logged,
                    "answer",
                    f"Answer{ending}",
                    [("Text", part.text)],
                    cost=cost,
                )
            else:
                arguments = [("Arguments", arguments_text(part))]
                self._calls[part.id] = self._add(
                    logged, "call", part.name, arguments, "open", cost
                )
            cost = 0.0
        if all(isinstance(part, Thinking) for part in shown):
            self._add(logged, "answer", f"Answer without text{ending}", cost=cost)
        self.turns[-1].items[begun].reasons = reasons

    def _returned(self, logged: LoggedEvent, event: ToolReturned) -> None:
        result = event.result
        view = event.view
        item = self._calls.pop(result.call_id, None)
        if item is None:
            item = self._add(logged, "call", "")
        item.title = ": ".join(filter(None, (item.title, first_line(view.title))))
        item.parts.append(("Result", message_text(result)))
        if view.diffs:
            item.parts.append(
                ("Changed files", "\n".join(diff.path for diff in view.diffs))
            )
        item.status = "failed" if result.is_error else "completed"

    def _swapped(
        self, logged: LoggedEvent, swap: ContextSwapped, before: Context
    ) -> None:
        number = len(self.compactions) + 1
        pinned = {pin.seq for pin in swap.pinned}
        tokens = swap.tokens_before, swap.tokens_after
        compaction = Compaction(
            number,
            logged.seq,
            logged.at,
            swap.trigger,
            "completed",
            _cost(swap.usage),
            receipt_text(swap),
            tokens,
            before=blocks_before(before, swap, self._pins),
            after=blocks(
                (entry, "pinned" if entry.seq in pinned else "tail")
                for entry in self.context.entries
            ),
        )
        self.points += (_Point(len(self.steps), each, number - 1) for each in tokens)
        self._compacted(
            logged,
            compaction,
            f"Compaction {number}: {tokens[0]:,} → {tokens[1]:,} tokens",
            swap.summary,
        )

    def _compacted(
        self, logged: LoggedEvent, compaction: Compaction, title: str, summary: str
    ) -> None:
        parts = [
            (label, text)
            for label, text in (("Receipt", compaction.text), ("Summary", summary))
            if text
        ]
        item = self._add(
            logged, "compaction", title, parts, compaction.status, compaction.cost
        )
        item.compaction = len(self.compactions)
        self.compactions.append(compaction)

    def _add(
        self,
        logged: LoggedEvent,
        kind: ItemKind,
        title: str,
        parts: Iterable[Part] = (),
        status: Status = "",
        cost: float = 0.0,
    ) -> _Item:
        item = _Item(logged.seq, logged.at, kind, title, [*parts], status, cost)
        self.turns[-1].items.append(item)
        return item

    def _point(self, tokens: int) -> None:
        self.points.append(_Point(len(self.steps), tokens))


def _cost(usage: Usage | None) -> float:
    """Return US dollars; 0 where the price is not known."""
    return (usage.cost if usage is not None else None) or 0.0
