"""Legal histories of sessions: a builder for one that a test writes down, and a
strategy for any.

log = LogBuilder()                  # see `log_builder.py`
@given(legal_logs())                # tuples of LoggedEvent
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import (
    AutoCompactionChanged,
    CompactionFailed,
    DirectoriesChanged,
    Event,
    FeatureRefused,
    ImagesRefused,
    InstructionsLoaded,
    LoggedEvent,
    ModeChanged,
    ModelChanged,
    NoteAdded,
    PartialAnswer,
    PermissionGranted,
    PlanChanged,
    PlanEntry,
    SessionForked,
    SummaryDropped,
    SurroundingsChanged,
    ThoughtLevelChanged,
    TitleChanged,
    ToolsDeclared,
    ToolsRefused,
)
from acp_agent.conversation.messages import (
    Amendment,
    Section,
    Text,
    ToolDefinition,
    Usage,
)
from support.log_builder import LogBuilder, is_legal

__all__ = ["LogBuilder", "is_legal", "legal_logs"]


@st.composite
def legal_logs(draw: st.DrawFn, max_turns: int = 5) -> tuple[LoggedEvent, ...]:
    """Logs with parallel calls, partial answers, refusals, cancels, kills, commands and
    pins, and with several compactions of both kinds, some of them undone, between turns
    and within.
    """
    log = LogBuilder()
    for _ in range(draw(st.integers(0, max_turns))):
        _between(draw, log)
        _turn(draw, log)
    _between(draw, log)
    return log.logged


_WORDS = st.sampled_from(["", "a", "Grün 🌱", "two\nlines"])
_USAGES = st.none() | st.builds(
    Usage,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    st.just(0),
    st.just(0.25),
)
_TOOLS = tuple(
    ToolDefinition(name, "Looks.", {"type": "object"}) for name in ("look", "zap")
)
_CHANGES: tuple[Callable[[str], Event], ...] = (
    TitleChanged,
    lambda word: TitleChanged(word, "user", Usage(1, 1, cost=0.25)),
    lambda word: SessionForked("sess_1", 1, word, (word,)),
    ModeChanged,
    lambda word: ModeChanged(word, "opening"),
    ModelChanged,
    ThoughtLevelChanged,
    lambda word: AutoCompactionChanged(not word),
    lambda word: DirectoriesChanged((word,)),
    lambda word: DirectoriesChanged((), root=word),
    lambda word: DirectoriesChanged((), word, mode=word),
    PermissionGranted,
    InstructionsLoaded,
    lambda word: InstructionsLoaded(word, (), (Section("Date", word),)),
    lambda word: ToolsDeclared(_TOOLS[: len(word)], word),
    lambda word: SurroundingsChanged(
        Amendment("", (Text(word),), sections=(Section("Date", word),))
    ),
    lambda word: SurroundingsChanged(
        Amendment("", (), added=_TOOLS[1:], removed=(word,), thought_level=word)
    ),
    lambda word: FeatureRefused(f"anthropic/{word}", "controls"),
    lambda word: FeatureRefused(f"anthropic/{word}", "reasoning_effort", "low high"),
    lambda word: ImagesRefused(f"anthropic/{word}", (word,)),
    lambda word: ToolsRefused(f"anthropic/{word}", (word,)),
    lambda word: NoteAdded("msg_note", word),
    lambda word: PlanChanged((PlanEntry(word),)),
    lambda word: CompactionFailed(
        "compaction_x", "manual", "failed", word, Usage(1, 1, cost=0.5)
    ),
    lambda word: SummaryDropped(Usage(1, 1, cost=0.25)),
)


def _between(draw: st.DrawFn, log: LogBuilder) -> None:
    for change in draw(st.lists(st.sampled_from(_CHANGES), max_size=2)):
        event = change(draw(_WORDS))
        if isinstance(event, SurroundingsChanged):
            log.amend(event.amendment)
        else:
            log.add(event)
    if log.context.files and draw(st.integers(0, 5)) == 0:
        log.undo_edits(draw(st.sets(st.sampled_from(sorted(log.context.files)))))
    for _ in range(draw(st.integers(0, 2))):
        _compact(draw, log)


def _compact(draw: st.DrawFn, log: LogBuilder) -> None:
    pins = log.context.memory.pins
    match draw(
        st.sampled_from(["swap", "mask", "restore", "pin", "unpin", "withhold"])
    ):
        case "swap":
            cut = draw(st.sampled_from(log.cuts()))
            staying = [
                entry.seq
                for entry in log.context.entries
                if _stays(entry, cut, log.context.turn_from)
            ]
            rewrite = (
                draw(st.sets(st.sampled_from(staying), max_size=2))
                if staying
                else set[int]()
            )
            log.swap(cut, rewrite=rewrite)
        case "mask" if results := log.results():
            files = (
                draw(st.sets(st.sampled_from(sorted(log.context.files))))
                if log.context.files
                else set[str]()
            )
            log.mask(draw(st.sets(st.sampled_from(results), min_size=1)), files)
        case "restore" if log.context.swaps:
            log.restore()
        case "withhold" if answers := log.answers():
            log.withhold(
                draw(st.sets(st.sampled_from(answers), min_size=1)),
                final=draw(st.booleans()),
            )
        case "unpin" if pins:
            log.unpin(draw(st.sampled_from(pins)).number)
        case _:
            log.pin(draw(_WORDS))


def _stays(entry: Entry, cut: int, turn_from: int | None) -> bool:
    return not entry.summary and (entry.seq >= cut or entry.seq == turn_from)


def _turn(draw: st.DrawFn, log: LogBuilder) -> None:
    command = draw(st.integers(0, 4))
    log.prompt(
        "/compact" if command < 2 else "fix it", {0: "", 1: "Fix it well."}.get(command)
    )
    if command == 0:
        _between(draw, log)
        log.end()
        return
    _between(draw, log)
    for _ in range(draw(st.integers(0, 2))):
        log.leave_out_refused()
    for _ in range(draw(st.integers(0, 3))):
        log.step(
            draw(_WORDS),
            draw(st.integers(0, 3)),
            draw(st.integers(0, 2)),
            draw(_USAGES),
            draw(st.booleans()),
        )
        if draw(st.booleans()):
            log.leave_out_repeated(again=draw(st.booleans()))
        _between(draw, log)
        if draw(st.integers(0, 3)) == 0:
            log.ask_on()
    match draw(st.sampled_from(["end", "refuse", "cancel", "kill", "fail"])):
        case "end":
            log.step(draw(_WORDS), 0, draw(st.integers(0, 2)), draw(_USAGES))
            log.end()
        case "refuse":
            log.refuse()
        case "cancel":
            log.end("cancelled")
        case "fail":
            log.fail()
        case _:  # an answer was streaming when the agent was killed
            log.add(PartialAnswer("msg_lost", draw(_WORDS)))
