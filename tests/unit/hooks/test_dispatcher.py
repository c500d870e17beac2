"""Which hooks the dispatcher runs, in which order, and how it combines their outcomes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest

from acp_agent.config.hook_events import EVENT_NAMES, EventName, OnError
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Hook, Origin, Services
from acp_agent.hooks.dispatcher import Dispatcher
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TurnEnd,
    UserMessageSend,
)
from acp_agent.hooks.outcomes import (
    LIMIT,
    NOTHING,
    POSSIBLE,
    SWAP,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    Summarize,
    SwapContext,
    bounded,
)
from support.hook_answers import transcript
from support.hook_services import HookServices

Answer = Callable[[HookEvent], Awaitable[Outcome]]
MOST: frozenset[EventName] = frozenset({"turn_end", "before_tool_call", "session_end"})


@dataclass
class RecordingHook:
    """A hook with a fixed answer, which records the events that it gets."""

    name: str
    answer: Outcome | Answer = NOTHING
    origin: Origin = "user"
    events: frozenset[EventName] = MOST
    time_limit: float = 5.0
    on_error: OnError = "ask"
    received: list[HookEvent] = field(default_factory=list[HookEvent])
    place: str = ""
    file: Path | None = None

    @property
    def hook(self) -> Hook:
        async def run(event: HookEvent, services: Services) -> Outcome:
            self.received.append(event)
            return (
                self.answer
                if isinstance(self.answer, Outcome)
                else await self.answer(event)
            )

        source = self.place or f"hooks/{self.name}"
        return Hook(
            self.name,
            self.origin,
            source,
            self.events,
            run,
            "",
            self.time_limit,
            self.on_error,
            self.file,
        )


def fails(with_error: Exception) -> Answer:
    async def fail(event: HookEvent) -> Outcome:
        raise with_error

    return fail


AT = Moment("s", "/shop", transcript)
CALL = BeforeToolCall(AT, "call_1", "shell", {"command": "ls"})


def dispatcher(*hooks: RecordingHook, shown: list[str] | None = None) -> Dispatcher:
    async def tell(text: str) -> None:
        if shown is not None:
            shown.append(text)

    return Dispatcher([each.hook for each in hooks], HookServices(), tell, tell)


async def test_hooks_run_in_the_order_config_user_project_recipe() -> None:
    received: list[str] = []

    def named(name: str, origin: Origin) -> RecordingHook:
        async def answer(event: HookEvent) -> Outcome:
            received.append(name)
            return NOTHING

        return RecordingHook(name, answer, origin)

    hooks = [
        named("p", "project"),
        named("c", "config"),
        named("u2", "user"),
        named("u1", "user"),
    ]
    await dispatcher(*hooks).dispatch(
        CALL, [named("r", "recipe").hook], recipe_first=[named("r0", "recipe").hook]
    )
    assert received == ["r0", "c", "u2", "u1", "p", "r"]


async def test_each_hook_gets_the_event_as_changed_by_the_previous_hook() -> None:
    first = RecordingHook("first", Outcome(tool_input={"command": "ls -l"}))
    second = RecordingHook("second", Outcome(context=("Mind the links.",)))
    third = RecordingHook("third", Outcome(tool_input={"command": "ls -la"}))
    outcome = await dispatcher(first, second, third).dispatch(CALL)
    inputs = [
        event.input
        for hook in (first, second, third)
        for event in hook.received
        if isinstance(event, BeforeToolCall)
    ]
    assert inputs == [{"command": "ls"}, {"command": "ls -l"}, {"command": "ls -l"}]
    assert outcome == Outcome(
        tool_input={"command": "ls -la"}, context=("Mind the links.",)
    )


async def test_hooks_after_the_fact_run_concurrently_and_change_nothing() -> None:
    both = anyio.Event()
    waiting: list[str] = []

    async def meet(event: HookEvent) -> Outcome:
        waiting.append(event.name)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return Outcome(Decision("block"), action=Compact())

    with anyio.fail_after(5):
        assert (
            await dispatcher(
                RecordingHook("a", meet), RecordingHook("b", meet)
            ).dispatch(SessionEnd(AT, "close"))
            == NOTHING
        )


STOP = AgentStop(AT, "Done.")
STOPS: frozenset[EventName] = frozenset({"agent_stop"})


@pytest.mark.parametrize(
    "other",
    [Compact("Keep the prices."), Summarize(), Continue(("Lint.",))],
    ids=["instructions", "summary", "continue"],
)
async def test_an_ignored_action_is_logged_with_the_hook_whose_action_is_used(
    caplog: pytest.LogCaptureFixture, other: Compact | Summarize | Continue
) -> None:
    hooks = [
        RecordingHook("quiet", NOTHING, events=STOPS),
        RecordingHook("first", Outcome(action=Compact()), events=STOPS),
        RecordingHook("same", Outcome(action=Compact()), events=STOPS),
        RecordingHook("second", Outcome(action=other), events=STOPS),
    ]
    with caplog.at_level("WARNING"):
        outcome = await dispatcher(*hooks).dispatch(STOP)
    assert outcome.action == Compact()
    [logged] = [record.getMessage() for record in caplog.records]
    assert logged == (
        "the action of the hook second (hooks/second) at agent_stop is ignored: "
        "first (hooks/first) set a different one earlier"
    )


async def test_the_second_of_two_summaries_from_hooks_is_logged_as_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: frozenset[EventName] = frozenset({"before_compaction"})
    hooks = [
        RecordingHook(name, Outcome(summary=f"By {name}."), events=events)
        for name in ("first", "second")
    ]
    with caplog.at_level("WARNING"):
        assert (
            await dispatcher(*hooks).dispatch(BeforeCompaction(AT, "manual", 1, 1, 1))
        ).summary == "By first."
    [logged] = [record.getMessage() for record in caplog.records]
    assert logged == (
        "the summary of the hook second (hooks/second) at before_compaction is ignored: "
        "first (hooks/first) set a different one earlier"
    )


@pytest.mark.parametrize("kind", [HookError, ValueError])
async def test_a_very_long_failure_message_is_cut(
    kind: type[Exception],
) -> None:
    shown: list[str] = []
    outcome = await dispatcher(
        RecordingHook("failing", fails(kind("x" * (3 * LIMIT))), on_error="block"),
        shown=shown,
    ).dispatch(CALL)
    assert all(
        "omitted]" in text and len(text) < LIMIT + 500
        for text in (*shown, outcome.reason)
    )
    assert len(shown) == 1


async def test_every_exception_of_a_hook_is_a_failure_but_cancellation_is_not() -> None:
    shown: list[str] = []
    assert (
        await dispatcher(
            RecordingHook("broken", fails(KeyError("command")), on_error="allow"),
            shown=shown,
        ).dispatch(CALL)
        == NOTHING
    )
    assert "KeyError" in shown[0]

    async def sleep(event: HookEvent) -> Outcome:
        await anyio.sleep_forever()
        return NOTHING

    with anyio.move_on_after(0.01) as scope:
        await dispatcher(
            RecordingHook("slow", sleep, on_error="block"), shown=shown
        ).dispatch(CALL)
    assert scope.cancelled_caught
    assert len(shown) == 1


# --- ignored answers and failures ---


async def test_an_impossible_answer_is_ignored_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown: list[str] = []
    hook = RecordingHook(
        "eager",
        Outcome(
            Decision("allow"), context=("Mind it.",), action=Replace(()), summary="All."
        ),
    )
    asked = dispatcher(hook, shown=shown)
    for _ in range(2):
        assert await asked.dispatch(CALL) == Outcome(
            Decision("allow"), context=("Mind it.",)
        )
    [text] = shown
    assert (
        "`action: replace`, `summary` at before_tool_call, which was ignored. "
        "At this event, only these keys are possible: `decision: block`" in text
    )
    assert caplog.text.count("`action: replace`") == 2


FAILED = [
    (SessionStart(AT, "new"), "The hook is ignored.", False),
    (UserMessageSend(AT, "Hi"), "the failure counts as a refusal.", True),
    (CALL, "the failure counts as a refusal.", True),
    (
        AfterToolCall(AT, "call_1", "shell", {}, ()),
        "the failure counts as a refusal.",
        True,
    ),
    (TurnEnd(AT, "Done."), "the failure counts as a refusal.", True),
    (AgentStop(AT, "Done."), "the failure counts as a refusal.", True),
    (BeforeCompaction(AT, "manual", 1, 1, 1), "the failure counts as a refusal.", True),
    (SessionEnd(AT, "exit"), "The hook is ignored.", False),
]


@pytest.mark.parametrize(
    ("event", "meant", "blocks"), FAILED, ids=lambda value: getattr(value, "name", None)
)
async def test_a_failure_is_reported_with_its_effect_at_the_event(
    event: HookEvent, meant: str, blocks: bool
) -> None:
    shown: list[str] = []
    hook = RecordingHook(
        "bad",
        fails(HookError("It is out of order.")),
        events=frozenset({event.name}),
        on_error="block",
    )
    outcome = await dispatcher(hook, shown=shown).dispatch(event)
    assert outcome.blocks == blocks
    assert shown[0].endswith(meant)


async def test_what_a_failed_program_says_ends_before_the_effect_is_told() -> None:
    shown: list[str] = []
    hook = RecordingHook("bad", fails(HookError("It said: no license")))
    await dispatcher(hook, shown=shown).dispatch(CALL)
    assert shown[0].endswith("It said: no license. You will be asked about the call.")


async def test_a_failure_lets_the_agent_continue_only_once() -> None:
    shown: list[str] = []
    # The hooks of an installed module have the same source.
    ends: frozenset[EventName] = frozenset({"turn_end"})
    hooks = [
        RecordingHook(
            name,
            fails(HookError("It is out of order.")),
            events=ends,
            on_error="block",
            place="shop (shop)",
        )
        for name in ("one", "two")
    ]
    asked = dispatcher(*hooks, shown=shown)
    blamed = set[tuple[str, str]]()
    answers = [
        TurnEnd(replace(AT, turn_number=number), "Done.") for number in (1, 2, 3)
    ]
    reasons = [
        (await asked.dispatch(answer, blamed=blamed)).reason for answer in answers
    ]
    assert reasons == [
        "The hook one failed. It is out of order.",
        "The hook two failed. It is out of order.",
        "",
    ]
    assert ["The hook one " in shown[0], "The hook two " in shown[1], len(shown)] == [
        True,
        True,
        2,
    ]


# --- possible answers of each event ---

EVENTS: tuple[HookEvent, ...] = (
    SessionStart(AT, "new"),
    UserMessageSend(AT, "One?"),
    CALL,
    AfterToolCall(AT, "call_1", "shell", {}, ()),
    TurnEnd(AT, "Done."),
    AgentStop(AT, "Done."),
    BeforeCompaction(AT, "manual", 0, 0, 0),
    AfterCompaction(AT, "manual", 0, 0, 0, ""),
    SessionEnd(AT, "close"),
)
SUMMARY = TurnEnd(AT, "# Goal", is_summary=True)


async def test_each_answer_is_possible_only_at_the_events_in_the_table() -> None:
    wanted = {
        "decision: block": Outcome(Decision("block")),
        "decision: ask": Outcome(Decision("ask")),
        "continue: false": Outcome(stop=""),
        "systemMessage": Outcome(notices=("a",)),
        "context": Outcome(context=("a",)),
        "tool_input": Outcome(tool_input={}),
        "tool_output": Outcome(tool_output=""),
        "message": Outcome(message=""),
        "action: compact": Outcome(action=Compact()),
        "action: summary": Outcome(action=Summarize()),
        "action: continue": Outcome(action=Continue(("a",))),
        "action: replace": Outcome(action=Replace(())),
        "summary": Outcome(summary="a"),
        SWAP: Outcome(action=SwapContext("a")),
    }
    assert wanted.keys() == POSSIBLE.keys()
    assert [event.name for event in EVENTS] == [*EVENT_NAMES.values()]
    for word, outcome in wanted.items():
        behind_a_summary = word in (SWAP, "decision: block", "context", "systemMessage")
        for event in (*EVENTS, SUMMARY):
            fits = event.name in POSSIBLE[word] and word != SWAP
            hook = RecordingHook("eager", outcome, events=frozenset({event.name}))
            possible = behind_a_summary if event is SUMMARY else fits
            shown: list[str] = []
            found = await dispatcher(hook, shown=shown).dispatch(event)
            assert found == (replace(outcome, notices=()) if possible else NOTHING)
            assert ("a" in shown) == (possible and word == "systemMessage")


LONG = "x" * (LIMIT + 5)
CUT = f"{'x' * LIMIT}\n[5 more characters from this hook were omitted]"


def test_texts_that_a_hook_adds_are_cut_and_blank_ones_are_removed() -> None:
    said = ("", "a", " ", LONG)
    fitted = bounded(
        Outcome(
            Decision("block", LONG), summary=LONG, stop=LONG, context=said, notices=said
        )
    )
    kept = ("a", CUT)
    assert fitted == Outcome(
        Decision("block", CUT), summary=CUT, stop=CUT, context=kept, notices=kept
    )
    actions = [
        Continue(said),
        Continue((" ",)),
        Compact(LONG),
        Summarize(LONG),
        SwapContext(" \n"),
    ]
    wanted = [Continue(kept), None, Compact(CUT), Summarize(CUT), None]
    assert [bounded(Outcome(action=action)).action for action in actions] == wanted
    assert bounded(Outcome(summary=" \n")).summary is None
    replacing = Outcome(tool_output=LONG, message=LONG, action=SwapContext(LONG))
    assert bounded(replacing) == replacing
