"""From a session's log to what somebody looks at.

A `Story` is fed one event after the other, so that a page can follow a log that grows; `view` says what it has come to.
What the model saw is what `Context` makes of the events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
from acp_agent.conversation.messages import AssistantMessage, Text, Thinking, ToolCall
from acp_agent.inspection.compactions import cost_of, finished, title_of, unfinished
from acp_agent.inspection.telling import told_of
from acp_agent.inspection.texts import arguments_text, first_line, listed, message_text, parts_text
from acp_agent.inspection.views import (
    Compaction,
    Inspection,
    Item,
    ItemKind,
    Part,
    Point,
    PointKind,
    Status,
    Step,
    Totals,
    Turn,
)

_BEFORE_THE_FIRST = "Before the first prompt"


@dataclass(slots=True)
class _OpenTurn:
    """A turn while its items come."""

    number: int
    seq: int
    at: int
    title: str
    items: list[Item]
    ended: int | None = None
    stop_reason: str = ""
    error: str = ""

    def view(self) -> Turn:
        return Turn(
            self.number,
            self.seq,
            self.at,
            self.title,
            tuple(self.items),
            self.ended,
            self.stop_reason,
            self.error,
        )


class Story:
    """What is known of a session so far.

    :ivar head: seq of the last event that it was fed.
    """

    def __init__(self) -> None:
        self.head = 0
        self._context = Context()
        self._began = self._at = 0
        self._turns: list[_OpenTurn] = []
        self._steps: list[Step] = []
        self._points: list[Point] = []
        self._compactions: list[Compaction] = []
        self._calls: dict[str, tuple[_OpenTurn, int]] = {}
        self._pins: dict[int, str] = {}

    def feed(self, logged: LoggedEvent) -> None:
        """Go on with the next entry of the log."""
        before = self._context
        self._context = before.apply(logged)
        self.head, self._at = logged.seq, logged.at
        self._began = self._began or logged.at
        begins = isinstance(logged.event, UserPrompted) and not logged.event.steers
        if begins or not self._turns:
            self._begin_turn(logged)
        self._take(logged, before)

    def view(self) -> Inspection:
        """What it has come to."""
        turns = tuple(turn.view() for turn in self._turns)
        if (partial := self._partial_item()) is not None:
            turns = (*turns[:-1], replace(turns[-1], items=(*turns[-1].items, partial)))
        context = self._context
        return Inspection(
            cwd=context.cwd,
            title=context.title or next((turn.title for turn in turns if turn.number), ""),
            model=context.model or (self._steps[-1].model if self._steps else ""),
            mode=context.mode,
            began=self._began,
            ended=self._at,
            head=self.head,
            turns=turns,
            steps=tuple(self._steps),
            points=tuple(self._points),
            compactions=tuple(self._compactions),
            totals=self._totals(turns),
        )

    # ------------------------------------------------------------------------------------------ events

    def _begin_turn(self, logged: LoggedEvent) -> None:
        event = logged.event
        if not isinstance(event, UserPrompted):
            self._turns.append(_OpenTurn(0, logged.seq, logged.at, _BEFORE_THE_FIRST, []))
            return
        number = self._turns[-1].number + 1 if self._turns else 1
        title = first_line(parts_text(event.shown)) or "(empty prompt)"
        self._turns.append(_OpenTurn(number, logged.seq, logged.at, title, []))

    def _take(self, logged: LoggedEvent, before: Context) -> None:
        event = logged.event
        match event:
            case UserPrompted():
                parts = [Part("Prompt", parts_text(event.shown))]
                if event.sent:
                    parts.append(Part("As the model reads it", parts_text(event.sent)))
                title = f"Recipe {event.recipe}" if event.recipe else "Prompt"
                self._add(logged, "prompt", title, *parts, marks=(event.message_id,))
            case PartialAnswer():
                pass  # the context has it
            case AssistantAnswered():
                self._answered(logged, event.message)
            case ToolReturned():
                self._returned(logged, event)
            case TurnEnded():
                turn = self._turns[-1]
                turn.ended, turn.stop_reason, turn.error = logged.at, event.stop_reason, event.error or ""
            case TurnRefused():
                self._add(logged, "refused", f"Refused: what began at entry {event.from_seq} left the context")
                self._point(logged, self._context.baseline, "restored")
            case ContextSwapped():
                self._swapped(logged, event, before)
            case ContextRestored():
                self._restored(logged, event)
            case CompactionFailed():
                self._compacted(logged, unfinished(self._next_compaction(), logged, event))
            case SummaryDropped():
                self._add(logged, "note", "A summary that was prepared was not used", cost=cost_of(event.usage))
            case _:
                if isinstance(event, SessionForked):
                    self._spent_elsewhere()
                if isinstance(event, TextPinned):
                    self._pins[logged.seq] = event.text
                told = told_of(event)
                cost = cost_of(event.usage) if isinstance(event, TitleChanged) else 0.0
                self._add(logged, told.kind, told.title, *told.parts, cost=cost, marks=told.marks)

    def _answered(self, logged: LoggedEvent, message: AssistantMessage) -> None:
        turn, cost = self._turns[-1], cost_of(message.usage)
        if message.usage is not None:
            usage = message.usage
            self._steps.append(
                Step(
                    len(self._steps) + 1,
                    logged.seq,
                    turn.number,
                    message.model,
                    usage.input_tokens,
                    usage.cache_read_tokens,
                    usage.cache_write_tokens,
                    usage.output_tokens,
                    usage.cost,
                )
            )
            self._point(logged, usage.total_tokens, "counted", message.model)
        else:
            tokens = used_tokens(self._context, 0)
            self._point(logged, tokens, "estimated", message.model)
        ending = "" if message.stop_reason in ("end_turn", "tool_use") else f" ({message.stop_reason})"
        said, marks = False, (message.id, message.model)
        for part in message.parts:
            left = 0.0 if said else cost
            match part:
                case Text():
                    self._add(logged, "answer", f"Answer{ending}", Part("Text", part.text), cost=left, marks=marks)
                    said = True
                case Thinking():
                    if part.text:
                        self._add(logged, "thought", "Thought", Part("Text", part.text), marks=marks)
                case ToolCall():
                    arguments = Part("Arguments", arguments_text(part))
                    self._add(logged, "call", part.name, arguments, status="open", cost=left, marks=(part.id, *marks))
                    self._calls[part.id] = (turn, len(turn.items) - 1)
                    said = True
        if not said:
            self._add(logged, "answer", f"Answer without a text{ending}", cost=cost, marks=marks)

    def _returned(self, logged: LoggedEvent, event: ToolReturned) -> None:
        result, view = event.result, event.view
        status: Status = "failed" if result.is_error else "completed"
        parts = [Part("Result", message_text(result))]
        if view.diffs:
            parts.append(Part("Changed files", listed([diff.path for diff in view.diffs])))
        called = self._calls.pop(result.call_id, None)
        if called is None:  # its call is in no log that we were fed
            self._add(logged, "call", first_line(view.title), *parts, status=status, marks=(result.call_id,))
            return
        turn, index = called
        item = turn.items[index]
        turn.items[index] = replace(
            item,
            title=f"{item.title}: {first_line(view.title)}" if view.title else item.title,
            parts=(*item.parts, *parts),
            status=status,
            milliseconds=max(0, logged.at - item.at),
        )

    def _swapped(self, logged: LoggedEvent, swap: ContextSwapped, before: Context) -> None:
        compaction = finished(self._next_compaction(), logged, swap, before, self._context, self._pins)
        self._compacted(logged, compaction, *((Part("Summary", swap.summary),) if swap.summary else ()))

    def _restored(self, logged: LoggedEvent, event: ContextRestored) -> None:
        self._compactions = [
            replace(each, undone=logged.seq) if each.seq == event.undone else each for each in self._compactions
        ]
        self._add(logged, "undo", "Compaction undone")
        self._point(logged, event.tokens, "restored")

    # ------------------------------------------------------------------------------------------ pieces

    def _compacted(self, logged: LoggedEvent, compaction: Compaction, *parts: Part) -> None:
        index = len(self._compactions)
        self._compactions.append(compaction)
        if compaction.status == "completed":
            for tokens in (compaction.tokens_before, compaction.tokens_after):
                self._point(logged, tokens, "compacted", compaction=index)
        if compaction.error:
            parts = (*parts, Part("Error", compaction.error))
        item = Item(
            logged.seq,
            logged.at,
            "compaction",
            title_of(compaction),
            parts,
            compaction.status,
            round(compaction.seconds * 1000) or None,
            compaction.cost,
            index,
        )
        self._turns[-1].items.append(item)

    def _next_compaction(self) -> int:
        return len(self._compactions) + 1

    def _add(
        self,
        logged: LoggedEvent,
        kind: ItemKind,
        title: str,
        *parts: Part,
        status: Status = "",
        cost: float = 0.0,
        marks: Iterable[str] = (),
    ) -> None:
        known = tuple(filter(None, marks))
        self._turns[-1].items.append(Item(logged.seq, logged.at, kind, title, parts, status, cost=cost, marks=known))

    def _point(
        self, logged: LoggedEvent, tokens: int, kind: PointKind, model: str = "", compaction: int | None = None
    ) -> None:
        # A session for which nobody picked a model goes on with the one that answered.
        model = model or self._context.model or (self._steps[-1].model if self._steps else "")
        self._points.append(Point(logged.seq, len(self._steps), tokens, kind, model, compaction))

    def _spent_elsewhere(self) -> None:
        """All that came before was paid for in another session."""
        for turn in self._turns:
            turn.items[:] = [replace(item, cost=0.0) for item in turn.items]
        self._compactions = [replace(each, cost=0.0) for each in self._compactions]
        self._steps = [replace(step, elsewhere=True) for step in self._steps]

    def _partial_item(self) -> Item | None:
        """The answer that streams right now."""
        partial = self._context.partial
        if partial is None or not (partial.text or partial.thinking):
            return None
        parts = (Part("Thought", partial.thinking), Part("Text", partial.text))
        return Item(
            self.head, self._at, "answer", "Answer, not complete", tuple(part for part in parts if part.text), "open"
        )

    def _totals(self, turns: tuple[Turn, ...]) -> Totals:
        steps = [step for step in self._steps if not step.elsewhere]
        calls = [item for turn in turns for item in turn.items if item.kind == "call"]
        read, sent = sum(step.cache_read for step in steps), sum(map(prompt_tokens, steps))
        return Totals(
            steps=len(steps),
            calls=len(calls),
            failed_calls=sum(call.status == "failed" for call in calls),
            input=sum(step.input for step in steps),
            cache_read=read,
            cache_write=sum(step.cache_write for step in steps),
            output=sum(step.output for step in steps),
            cost=sum(turn.cost for turn in turns),
            compaction_cost=sum(each.cost for each in self._compactions),
            cache_share=read / sent if sent else None,
        )


def prompt_tokens(step: Step) -> int:
    """All that was sent with a step, cached or not."""
    return step.input + step.cache_read + step.cache_write
