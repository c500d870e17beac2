"""`LogBuilder`: a legal history of a session, for a test that writes it down.

log = LogBuilder()
log.prompt("fix it")
log.step("I look.", calls=2)
log.swap(keep_from=log.head + 1)
log.events                          # what a Session would have logged
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from acp_agent.conversation.closing import leaving_out_refused, leaving_out_repeated
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextAdded,
    ContextRestored,
    ContextSwapped,
    ContinuationAsked,
    EditsUndone,
    Event,
    FileVersion,
    InstructionsLoaded,
    LoggedEvent,
    PartialAnswer,
    PinRemoved,
    ReasoningWithheld,
    SessionStarted,
    SurroundingsChanged,
    TextPinned,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    name_of,
)
from acp_agent.conversation.swaps import Pinned, Rewritten

_SHORT = Text("[shortened]")


class LogBuilder:
    """A log that grows by what happens in a session; it begins with the session's start
    and its instructions.

    :ivar context: the context after the last event.
    """

    def __init__(self, cwd: str = "/shop") -> None:
        self._logged: list[LoggedEvent] = []
        self._ids = 0
        self.context = Context()
        self.add(
            SessionStarted(cwd, model="scripted/one"),
            InstructionsLoaded("You are careful."),
        )

    @property
    def logged(self) -> tuple[LoggedEvent, ...]:
        return tuple(self._logged)

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(entry.event for entry in self._logged)

    @property
    def head(self) -> int:
        return len(self._logged)

    def add(self, *events: Event) -> int:
        """Append events as they stand, and return the seq of the last."""
        for event in events:
            entry = LoggedEvent(
                self.head + 1, 1_700_000_000_000 + 1000 * self.head, event
            )
            self._logged.append(entry)
            self.context = self.context.apply(entry)
        return self.head

    def prompt(self, text: str, sent: str | None = None) -> int:
        """A turn begins.

        :param sent: what the model reads in place of the text; nothing where it is
            empty, as for a command.
        """
        parts = None if sent is None else (Text(sent),) if sent else ()
        return self.add(UserPrompted(self._id("msg"), (Text(text),), parts))

    def step(
        self,
        text: str = "",
        calls: int = 0,
        partials: int = 0,
        usage: Usage | None = None,
        backwards: bool = False,
    ) -> int:
        """One answer of the model and the results of its calls.

        :param calls: so many calls of a tool that reads a file, run at the same time.
        :param partials: so many checkpoints are logged while the answer streams.
        :param backwards: the last call is the first to return.
        """
        message_id = self._id("msg")
        for number in range(partials):
            self.add(
                PartialAnswer(
                    message_id, text[number : number + 1], "" if number else "hm"
                )
            )
        asked = tuple(
            ToolCall(self._id("call"), "read", {"path": f"/shop/{number}.py"})
            for number in range(calls)
        )
        thought = Thinking("hm", "scripted", {"signature": message_id})
        parts = (
            *((Text(text),) if text else ()),
            *((thought,) if partials else ()),
            *asked,
        )
        reason: StopReason = "tool_use" if calls else "end_turn"
        self.add(
            AssistantAnswered(
                AssistantMessage(message_id, parts, "scripted/one", reason, usage)
            )
        )
        for call in reversed(asked) if backwards else asked:
            path = str(call.arguments["path"])
            result = ToolResult(call.id, (Text(f"text of {path}"),), is_error=False)
            self.add(
                ToolReturned(
                    result,
                    CallView(f"Read {path}", "read"),
                    (FileVersion(path, f"digest-{self.head}"),),
                )
            )
        return self.head

    def end(self, stop_reason: str = "end_turn") -> int:
        return self.add(TurnEnded(stop_reason))

    def refuse(self) -> int:
        begun = self.context.turn_from
        assert begun is not None, "no turn runs"
        return self.add(TurnRefused(begun), TurnEnded("refusal"))

    def fail(self) -> int:
        """End the turn with an error because the provider refused to continue it."""
        return self.add(TurnEnded("error", "It said: no.", refused=True))

    def leave_out_refused(self) -> int:
        """Leave out what the provider refused at the end of an earlier turn and again
        now, if it is still there.
        """
        left_out = leaving_out_refused(self.context)
        return self.head if left_out is None else self.add(left_out)

    def leave_out_repeated(self, *, again: bool) -> int:
        """Leave out the newest step of this turn if it repeats one that was left out."""
        left_out = leaving_out_repeated(self.context, again=again)
        return self.add(*left_out) if left_out else self.head

    def cuts(self) -> list[int]:
        """Where a compaction may cut now: before any message but a tool's result, or
        behind all of them.
        """
        assert not self.context.open_calls, "a call has no result yet"
        places = (entry for entry in self.context.entries if not entry.summary)
        return [
            *(
                entry.seq
                for entry in places
                if not isinstance(entry.message, ToolResult)
            ),
            self.head + 1,
        ]

    def swap(
        self,
        keep_from: int | None = None,
        summary: str = "So far so good.",
        rewrite: Collection[int] = (),
    ) -> int:
        """A compaction.

        :param keep_from: one of `cuts()`; behind all messages where it is left out.
        :param rewrite: seqs of messages that stay, but shortened.
        """
        before = self.context
        cut = self.head + 1 if keep_from is None else keep_from
        pinned = tuple(
            Pinned(entry.seq, entry.message, entry.shortened)
            for entry in before.entries
            if entry.seq == before.turn_from
            and entry.seq < cut
            and isinstance(entry.message, UserMessage)
        )
        return self.add(
            ContextSwapped(
                compaction_id=self._id("compaction"),
                message_id=self._id("msg"),
                trigger="manual",
                summary=summary,
                sent=(Text(f"History: {summary}"),),
                keep_from=cut,
                carried=before.carried(),
                tokens_before=1000,
                tokens_after=100,
                pinned=pinned,
                usage=Usage(900, 100, cost=0.5),
                rewritten=self._shortened(rewrite),
                earlier=before.swaps,
            )
        )

    def results(self) -> list[int]:
        """Seqs of the results that a mask can still shorten."""
        whole = (entry for entry in self.context.entries if not entry.shortened)
        return [entry.seq for entry in whole if isinstance(entry.message, ToolResult)]

    def mask(
        self, results: Collection[int] | None = None, files: Collection[str] = ()
    ) -> int:
        """A compaction that only rewrites old results.

        :param results: some of `results()`; all of them where it is left out.
        :param files: paths of which the model still sees what it read.
        """
        before = self.context
        begins = before.fold_from or 1
        return self.add(
            ContextSwapped(
                compaction_id=self._id("compaction"),
                message_id=self._id("msg"),
                trigger="threshold",
                summary="",
                sent=(),
                keep_from=begins,
                carried=before.carried(),
                tokens_before=1000,
                tokens_after=700,
                strategy="mask",
                rewritten=self._shortened(
                    self.results() if results is None else results
                ),
                files=tuple(
                    FileVersion(path, digest)
                    for path, digest in before.files.items()
                    if path in files
                ),
                fold_from=begins,
                earlier=before.swaps,
            )
        )

    def restore(self) -> int:
        now = self.context
        undone = now.swaps[-1]
        before = Context.from_log(self._logged[: undone - 1])
        since = (entry for entry in now.entries if entry.seq > undone)
        swap = self._logged[undone - 1].event
        assert isinstance(swap, ContextSwapped)
        memory = replace(
            before.memory, pins=now.memory.pins, next_pin=now.memory.next_pin
        )
        return self.add(
            ContextRestored(
                compaction_id=swap.compaction_id,
                undone=undone,
                entries=(*before.entries, *since),
                carried=replace(now.carried(), memory=memory),
                tokens=800,
                files=tuple(
                    FileVersion(path, digest)
                    for path, digest in {**before.files, **now.files}.items()
                ),
                earlier=before.swaps,
            )
        )

    def amend(self, amendment: Amendment) -> int:
        return self.add(SurroundingsChanged(replace(amendment, id=self._id("msg"))))

    def answers(self) -> list[str]:
        """Ids of the answers in the context."""
        messages = (entry.message for entry in self.context.entries)
        return [
            message.id for message in messages if isinstance(message, AssistantMessage)
        ]

    def withhold(self, messages: Collection[str], *, final: bool) -> int:
        """The reasoning of answers is not sent any more.

        :param final: the provider did not take it.
        """
        answers = [
            entry.message
            for entry in self.context.entries
            if entry.message.role == "assistant"
        ]
        parts = [
            part for answer in answers if answer.id in messages for part in answer.parts
        ]
        pieces = (
            tuple(name_of(part) for part in parts if isinstance(part, Thinking))
            if final
            else ()
        )
        return self.add(
            ReasoningWithheld(tuple(sorted(messages)), "it does not fit", pieces)
        )

    def pin(self, text: str) -> int:
        return self.add(
            TextPinned(
                self._id("msg"), self.context.memory.next_pin, text, f"Pinned: {text}"
            )
        )

    def unpin(self, number: int) -> int:
        return self.add(
            PinRemoved(self._id("msg"), number, f"No longer pinned: {number}")
        )

    def undo_edits(self, paths: Collection[str]) -> int:
        turn = self.context.turn_from or 1
        return self.add(EditsUndone(self._id("msg"), turn, tuple(paths), "Taken back."))

    def ask_on(self) -> int:
        return self.add(ContinuationAsked(self._id("msg"), "Go on."))

    def add_context(self) -> int:
        return self.add(
            ContextAdded(self._id("msg"), "A hook added this:\n\nIt is raining.")
        )

    def _shortened(self, seqs: Collection[int]) -> tuple[Rewritten, ...]:
        return tuple(
            Rewritten(entry.seq, _short(entry.message))
            for entry in self.context.entries
            if entry.seq in seqs and not entry.summary
        )

    def _id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{self._ids}"


def _short(message: Message) -> Message:
    if isinstance(message, AssistantMessage):
        return replace(
            message,
            parts=tuple(part for part in message.parts if not isinstance(part, Text))
            or (_SHORT,),
        )
    return replace(message, parts=(_SHORT,))


def is_legal(messages: tuple[Message, ...]) -> bool:
    """Whether a provider would take these messages: every call is answered once, right
    behind its answer.
    """
    waiting: set[str] = set()
    for message in messages:
        if isinstance(message, ToolResult):
            if message.call_id not in waiting:
                return False
            waiting.remove(message.call_id)
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            if not message.parts:
                return False
            waiting = {call.id for call in message.tool_calls}
    return not waiting
