"""Legal histories of sessions: a builder for one that a test writes down, and a strategy for any.

    log = LogBuilder()
    log.prompt("fix it")
    log.step("I look.", calls=2)
    log.swap(keep_from=log.head + 1)
    log.events                          # what a Session would have logged
    @given(legal_logs())                # tuples of LoggedEvent

Owns what may follow what: calls are answered before the next answer, a turn ends once, a compaction cuts where no call
is torn from its results and keeps the prompt of a turn that still runs. Knows nothing of stores and models.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    CompactionFailed,
    ContextSwapped,
    Event,
    FileVersion,
    InstructionsLoaded,
    LoggedEvent,
    ModeChanged,
    ModelChanged,
    NoteAdded,
    PartialAnswer,
    PermissionGranted,
    Pinned,
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
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)


class LogBuilder:
    """A log that grows by what happens in a session; it begins with the session's start and its instructions.

    :ivar context: the context after the last event.
    """

    def __init__(self, cwd: str = "/shop") -> None:
        self._logged: list[LoggedEvent] = []
        self._ids = 0
        self.context = Context()
        self.add(SessionStarted(cwd, model="scripted/one"), InstructionsLoaded("You are careful."))

    @property
    def logged(self) -> tuple[LoggedEvent, ...]:
        """The log, a second between its entries."""
        return tuple(self._logged)

    @property
    def events(self) -> tuple[Event, ...]:
        """The log's events without their places."""
        return tuple(entry.event for entry in self._logged)

    @property
    def head(self) -> int:
        """Seq of the last event."""
        return len(self._logged)

    def add(self, *events: Event) -> int:
        """Append events as they stand, and return the seq of the last."""
        for event in events:
            entry = LoggedEvent(self.head + 1, 1_700_000_000_000 + 1000 * self.head, event)
            self._logged.append(entry)
            self.context = self.context.apply(entry)
        return self.head

    def prompt(self, text: str, sent: str | None = None) -> int:
        """A turn begins.

        :param sent: what the model reads in place of the text; nothing where it is empty, as for a command.
        """
        parts = None if sent is None else (Text(sent),) if sent else ()
        return self.add(UserPrompted(self._id("msg"), (Text(text),), parts))

    def step(
        self, text: str = "", calls: int = 0, partials: int = 0, usage: Usage | None = None, backwards: bool = False
    ) -> int:
        """One answer of the model and the results of its calls.

        :param calls: so many calls of a tool that reads a file, run at the same time.
        :param partials: so many checkpoints are logged while the answer streams.
        :param backwards: the last call is the first to return.
        """
        message_id = self._id("msg")
        for number in range(partials):
            self.add(PartialAnswer(message_id, text[number : number + 1], "" if number else "hm"))
        asked = tuple(ToolCall(self._id("call"), "read", {"path": f"/shop/{number}.py"}) for number in range(calls))
        parts = (*((Text(text),) if text else ()), *((Thinking("hm"),) if partials else ()), *asked)
        reason: StopReason = "tool_use" if calls else "end_turn"
        self.add(AssistantAnswered(AssistantMessage(message_id, parts, "scripted/one", reason, usage)))
        for call in reversed(asked) if backwards else asked:
            path = str(call.arguments["path"])
            result = ToolResult(call.id, (Text(f"text of {path}"),), is_error=False)
            self.add(
                ToolReturned(result, CallView(f"Read {path}", "read"), (FileVersion(path, f"digest-{self.head}"),))
            )
        return self.head

    def end(self, stop_reason: str = "end_turn") -> int:
        """The turn is over."""
        return self.add(TurnEnded(stop_reason))

    def refuse(self) -> int:
        """The model refuses, and the turn is over."""
        begun = self.context.turn_from
        assert begun is not None, "no turn runs"
        return self.add(TurnRefused(begun), TurnEnded("refusal"))

    def cuts(self) -> list[int]:
        """Where a compaction may cut now: before any message but a tool's result, or behind all of them."""
        assert not self.context.open_calls, "a call has no result yet"
        places = (entry for entry in self.context.entries if not entry.summary)
        return [*(entry.seq for entry in places if not isinstance(entry.message, ToolResult)), self.head + 1]

    def swap(self, keep_from: int | None = None, summary: str = "So far so good.") -> int:
        """A compaction.

        :param keep_from: one of `cuts()`; behind all messages where it is left out.
        """
        before = self.context
        cut = self.head + 1 if keep_from is None else keep_from
        pinned = tuple(
            Pinned(entry.seq, entry.message)
            for entry in before.entries
            if entry.seq == before.turn_from and entry.seq < cut and isinstance(entry.message, UserMessage)
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
            )
        )

    def _id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{self._ids}"


def is_legal(messages: tuple[Message, ...]) -> bool:
    """Whether a provider would take these messages: every call is answered once, right behind its answer."""
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


@st.composite
def legal_logs(draw: st.DrawFn, max_turns: int = 5) -> tuple[LoggedEvent, ...]:
    """Logs with parallel calls, partial answers, refusals, cancels, kills, commands and several compactions."""
    log = LogBuilder()
    for _ in range(draw(st.integers(0, max_turns))):
        _between(draw, log)
        _turn(draw, log)
    _between(draw, log)
    return log.logged


_WORDS = st.sampled_from(["", "a", "Grün 🌱", "two\nlines"])
_USAGES = st.none() | st.builds(
    Usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.just(0), st.just(0.25)
)
_CHANGES: tuple[Callable[[str], Event], ...] = (
    TitleChanged,
    ModeChanged,
    ModelChanged,
    ThoughtLevelChanged,
    PermissionGranted,
    InstructionsLoaded,
    lambda word: NoteAdded("msg_note", word),
    lambda word: PlanChanged((PlanEntry(word),)),
    lambda word: CompactionFailed("compaction_x", "manual", "failed", word, Usage(1, 1, cost=0.5)),
)


def _between(draw: st.DrawFn, log: LogBuilder) -> None:
    for change in draw(st.lists(st.sampled_from(_CHANGES), max_size=2)):
        log.add(change(draw(_WORDS)))
    if draw(st.booleans()):
        log.swap(draw(st.sampled_from(log.cuts())))


def _turn(draw: st.DrawFn, log: LogBuilder) -> None:
    command = draw(st.integers(0, 4))
    log.prompt("/compact" if command < 2 else "fix it", {0: "", 1: "Fix it well."}.get(command))
    if command == 0:
        _between(draw, log)
        log.end()
        return
    for _ in range(draw(st.integers(0, 3))):
        log.step(draw(_WORDS), draw(st.integers(0, 3)), draw(st.integers(0, 2)), draw(_USAGES), draw(st.booleans()))
        _between(draw, log)
    match draw(st.sampled_from(["end", "refuse", "cancel", "kill"])):
        case "end":
            log.step(draw(_WORDS), 0, draw(st.integers(0, 2)), draw(_USAGES))
            log.end()
        case "refuse":
            log.refuse()
        case "cancel":
            log.end("cancelled")
        case _:  # an answer was streaming when the agent was killed
            log.add(PartialAnswer("msg_lost", draw(_WORDS)))
