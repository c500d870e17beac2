"""Which hooks are asked, in which order, and what comes of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import anyio
import pytest

from acp_agent.conversation.messages import Message
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Hook, OnError, Origin, Services, Summary
from acp_agent.hooks.dispatcher import Dispatcher
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    EventName,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TurnEnd,
    UserMessageSend,
)
from acp_agent.hooks.handlers import BoundHandler, builtin_handlers, known_handlers
from acp_agent.hooks.outcomes import (
    DEFERRED,
    LIMIT,
    NOTHING,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    SwapContext,
    Verdict,
)
from acp_agent.storage.store import SessionStore


@dataclass
class NoServices:
    """For hooks that use none."""

    log: logging.Logger = field(default_factory=lambda: logging.getLogger(__name__))

    @property
    def store(self) -> SessionStore:
        raise NotImplementedError

    async def compaction(
        self, messages: Sequence[Message] | None = None, *, prompt: str | None = None, model: str | None = None
    ) -> Summary:
        raise NotImplementedError

    async def ask_model(self, prompt: str, *, system: str = "", model: str | None = None) -> str:
        raise NotImplementedError


Answer = Callable[[HookEvent], Awaitable[Outcome]]


@dataclass
class Asked:
    """A hook that remembers what it was asked about."""

    name: str
    answer: Outcome | Answer = NOTHING
    origin: Origin = "user"
    events: frozenset[EventName] = frozenset({"turn_end", "before_tool_call", "session_end"})
    time_limit: float = 5.0
    on_error: OnError = "ask"
    heard: list[HookEvent] = field(default_factory=list[HookEvent])
    place: str = ""
    file: Path | None = None

    @property
    def source(self) -> str:
        return self.place or f"hooks/{self.name}"

    def wants(self, event: HookEvent) -> bool:
        return True

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        self.heard.append(event)
        return self.answer if isinstance(self.answer, Outcome) else await self.answer(event)


async def transcript() -> str:
    return "/nowhere"


AT = Moment("s", "/shop", transcript)
CALL = BeforeToolCall(AT, "call_1", "shell", {"command": "ls"})


def dispatcher(*hooks: Hook, told: list[str] | None = None) -> Dispatcher:
    async def tell(text: str) -> None:
        if told is not None:
            told.append(text)

    return Dispatcher(hooks, cast("Services", NoServices()), tell)


def order(*hooks: Asked) -> list[str]:
    return [hook.name for hook in hooks if hook.heard]


async def test_hooks_are_asked_in_the_order_config_user_project_recipe_whatever_order_they_were_found_in() -> None:
    heard: list[str] = []

    def named(name: str, origin: Origin) -> Asked:
        async def answer(event: HookEvent) -> Outcome:
            heard.append(name)
            return NOTHING

        return Asked(name, answer, origin)

    hooks = [named("p", "project"), named("c", "config"), named("u2", "user"), named("u1", "user")]
    await dispatcher(*hooks).dispatch(CALL, [named("r", "recipe")], recipe_first=[named("r0", "recipe")])
    assert heard == ["r0", "c", "u2", "u1", "p", "r"]


async def test_each_hook_is_told_what_the_one_before_made_of_the_event() -> None:
    first = Asked("first", Outcome(tool_input={"command": "ls -l"}))
    second = Asked("second", Outcome(context=("Mind the links.",)))
    third = Asked("third", Outcome(tool_input={"command": "ls -la"}))
    outcome = await dispatcher(first, second, third).dispatch(CALL)
    inputs = [
        event.input for hook in (first, second, third) for event in hook.heard if isinstance(event, BeforeToolCall)
    ]
    assert inputs == [{"command": "ls"}, {"command": "ls -l"}, {"command": "ls -l"}]
    assert outcome == Outcome(tool_input={"command": "ls -la"}, context=("Mind the links.",))


@pytest.mark.parametrize("end", [Outcome(Decision("block", "No.")), Outcome(stop="Enough.")], ids=["block", "stop"])
async def test_nobody_is_asked_after_a_hook_that_blocks_or_ends_the_turn(end: Outcome) -> None:
    first, second, third = Asked("first"), Asked("second", end), Asked("third", Outcome(Decision("allow")))
    assert await dispatcher(first, second, third).dispatch(CALL) == end
    assert order(first, second, third) == ["first", "second"]


async def test_the_first_action_wins_and_the_other_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Asked("first", Outcome(action=Compact())), Asked("second", Outcome(action=Continue(("On.",))))
    outcome = await dispatcher(first, second).dispatch(TurnEnd(AT, "Done."))
    assert outcome.action == Compact()
    assert "action of the hook second is not used" in caplog.text


async def test_of_what_is_done_all_hooks_are_told_at_once_and_nothing_comes_of_it() -> None:
    both = anyio.Event()
    waiting: list[str] = []

    async def meet(event: HookEvent) -> Outcome:
        waiting.append(event.name)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return Outcome(Decision("block"), action=Compact())

    with anyio.fail_after(5):
        assert await dispatcher(Asked("a", meet), Asked("b", meet)).dispatch(SessionEnd(AT, "close")) == NOTHING


@pytest.mark.parametrize("kind", [HookError, ValueError])
async def test_a_failure_that_is_told_at_great_length_is_cut(kind: type[Exception]) -> None:
    async def fail(event: HookEvent) -> Outcome:
        raise kind("x" * (3 * LIMIT))

    told: list[str] = []
    outcome = await dispatcher(Asked("failing", fail, on_error="block"), told=told).dispatch(CALL)
    assert all("left out]" in text and len(text) < LIMIT + 500 for text in (*told, outcome.reason))
    assert len(told) == 1


@pytest.mark.parametrize(("on_error", "verdict"), [("allow", None), ("ask", "ask"), ("block", "block")])
async def test_what_a_failing_hook_means_is_its_own_choice_each_time_and_the_user_is_told_once(
    on_error: OnError, verdict: Verdict | None
) -> None:
    async def fail(event: HookEvent) -> Outcome:
        raise HookError("It ended with status 3.")

    told: list[str] = []
    reason = "The hook failing failed. It ended with status 3."
    failing, after = Asked("failing", fail, on_error=on_error), Asked("after")
    asked = dispatcher(failing, after, told=told)
    for _ in range(2):
        assert (await asked.dispatch(CALL)).decision == (None if verdict is None else Decision(verdict, reason))
    assert bool(after.heard) != (verdict == "block")
    assert len(told) == 1
    assert "failing (hooks/failing) failed at before_tool_call. It ended with status 3." in told[0]


async def test_a_hook_whose_file_is_switched_off_by_now_is_not_asked_and_has_not_failed(tmp_path: Path) -> None:
    async def fail(event: HookEvent) -> Outcome:
        raise HookError("It could not be started.")

    told: list[str] = []
    asked = dispatcher(Asked("guard", fail, file=tmp_path / "guard.sh"), told=told)
    assert (await asked.dispatch(CALL)).decision is not None
    (tmp_path / "guard.sh.disable").touch()
    assert await asked.dispatch(CALL) == NOTHING
    (tmp_path / "guard.sh.disable").unlink()
    assert (await asked.dispatch(CALL)).decision is not None
    assert len(told) == 1


async def test_a_hook_that_takes_too_long_is_ended_and_counts_as_failed() -> None:
    ended: list[str] = []

    async def sleep(event: HookEvent) -> Outcome:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("ended")
        return NOTHING

    told: list[str] = []
    slow = Asked("slow", sleep, time_limit=0.01, on_error="block")
    outcome = await dispatcher(slow, told=told).dispatch(CALL)
    assert (ended, outcome.blocks) == (["ended"], True)
    assert "within 0.01 seconds" in told[0]


async def test_any_exception_of_a_hook_is_its_failure_and_a_cancel_is_not() -> None:
    async def broken(event: HookEvent) -> Outcome:
        raise KeyError("command")

    told: list[str] = []
    assert await dispatcher(Asked("broken", broken, on_error="allow"), told=told).dispatch(CALL) == NOTHING
    assert "KeyError" in told[0]

    async def sleep(event: HookEvent) -> Outcome:
        await anyio.sleep_forever()
        return NOTHING

    with anyio.move_on_after(0.01) as scope:
        await dispatcher(Asked("slow", sleep, on_error="block"), told=told).dispatch(CALL)
    assert scope.cancelled_caught
    assert len(told) == 1


async def test_hooks_of_other_events_are_not_asked() -> None:
    other = Asked("other", events=frozenset({"session_end"}))
    asked = dispatcher(other)
    assert await asked.dispatch(CALL) == NOTHING
    assert not other.heard
    assert asked.listens("session_end")
    assert not asked.listens("before_tool_call")


# --- what is possible where ---


async def test_what_cannot_be_done_at_an_event_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    hook = Asked("eager", Outcome(Decision("allow"), context=("Mind it.",), action=Replace(()), summary="All."))
    asked = dispatcher(hook, told=told)
    for _ in range(2):
        assert await asked.dispatch(CALL) == Outcome(Decision("allow"), context=("Mind it.",))
    [text] = told
    assert "`action: replace`, `summary` at before_tool_call, where only these are possible: `decision: block`" in text
    assert caplog.text.count("`action: replace`") == 2


async def test_a_hook_that_defers_as_in_earlier_versions_vetoes_and_is_told_of_once() -> None:
    told: list[str] = []
    before: frozenset[EventName] = frozenset({"before_compaction"})
    asked = dispatcher(Asked("old", Outcome(DEFERRED), events=before), told=told)
    event = BeforeCompaction(AT, "threshold", 1, 1, 1)
    for _ in range(2):
        assert (await asked.dispatch(event)).blocks
    [text] = told
    assert text.startswith("The hook old (hooks/old) asked for `defer`, which is no longer known.")
    assert "asked again with the next prompt" in text


@pytest.mark.parametrize("no", [Outcome(Decision("block", "No start.")), Outcome(stop="No start.")])
async def test_nothing_refuses_the_start_of_a_session_and_what_is_said_against_it_is_told(no: Outcome) -> None:
    start: frozenset[EventName] = frozenset({"session_start"})
    hooks = (Asked("first", no, events=start), Asked("second", Outcome(context=("Hello.",)), events=start))
    told: list[str] = []
    outcome = await dispatcher(*hooks, told=told).dispatch(SessionStart(AT, "new"))
    assert outcome == Outcome(context=("Hello.",), notices=("The hook first at session_start: No start.",))
    assert told == []


async def test_notices_are_all_that_is_kept_of_what_is_answered_to_what_is_done() -> None:
    after: frozenset[EventName] = frozenset({"after_compaction"})
    hooks = [Asked(name, Outcome(notices=(name,), summary="No."), events=after) for name in ("one", "two")]
    told: list[str] = []
    assert await dispatcher(*hooks, told=told).dispatch(AfterCompaction(AT, "manual", 1, 1, 1, "All.")) == Outcome(
        notices=("one", "two")
    )
    assert ["`summary`" in text for text in told] == [True, True]


FAILED = [
    (SessionStart(AT, "new"), "It counts as not there.", False),
    (UserMessageSend(AT, "Hi"), "the prompt was kept from the model.", True),
    (CALL, "the call was refused.", True),
    (AfterToolCall(AT, "call_1", "shell", {}, ()), "the model is told of it below the result.", True),
    (TurnEnd(AT, "Done."), "the agent goes on, and is told of it.", True),
    (AgentStop(AT, "Done."), "the agent goes on, and is told of it.", True),
    (BeforeCompaction(AT, "manual", 1, 1, 1), "nothing was compacted.", True),
    (SessionEnd(AT, "exit"), "It counts as not there.", False),
]


@pytest.mark.parametrize(("event", "meant", "blocks"), FAILED, ids=lambda value: getattr(value, "name", None))
async def test_a_failure_is_told_with_what_it_means_at_its_event(event: HookEvent, meant: str, blocks: bool) -> None:
    async def broken(event: HookEvent) -> Outcome:
        raise HookError("It is out of order.")

    told: list[str] = []
    hook = Asked("bad", broken, events=frozenset({event.name}), on_error="block")
    outcome = await dispatcher(hook, told=told).dispatch(event)
    assert outcome.blocks == blocks
    assert told[0].endswith(meant)


async def test_a_failure_keeps_the_agent_going_once_whichever_of_its_answers_it_first_comes_with() -> None:
    async def broken(event: HookEvent) -> Outcome:
        raise HookError("It is out of order.")

    told: list[str] = []
    # Those of an installed module stand in one place.
    ends: frozenset[EventName] = frozenset({"turn_end"})
    hooks = [Asked(name, broken, events=ends, on_error="block", place="shop (shop)") for name in ("one", "two")]
    asked, blamed = dispatcher(*hooks, told=told), set[tuple[str, str]]()
    answers = [TurnEnd(replace(AT, turn_number=number), "Done.") for number in (1, 2, 3)]
    reasons = [(await asked.dispatch(answer, blamed=blamed)).reason for answer in answers]
    assert reasons == ["The hook one failed. It is out of order.", "The hook two failed. It is out of order.", ""]
    assert ["The hook one " in told[0], "The hook two " in told[1], len(told)] == [True, True, 2]


# --- the handlers of recipes ---


def bound(name: str, *, once: bool = False) -> BoundHandler:
    return BoundHandler(builtin_handlers()[name], "turn_end", str(Path("compact.md")), once)


async def test_a_handler_bound_once_is_asked_at_the_first_answer_of_a_run_only() -> None:
    moments = [Moment("s", "/shop", transcript, turn_number=number) for number in (1, 2)]
    [first, second] = [TurnEnd(moment, "Done.", is_summary=True) for moment in moments]
    once, always = bound("swap_context", once=True), bound("swap_context")
    assert (await dispatcher().dispatch(first, [once])).action == SwapContext("Done.")
    assert (await dispatcher().dispatch(second, [once])).action is None
    assert (await dispatcher().dispatch(second, [always])).action == SwapContext("Done.")


@pytest.mark.parametrize("response", ["", " \n"])
async def test_swap_context_wants_nothing_where_the_answer_says_nothing(response: str) -> None:
    assert await dispatcher().dispatch(TurnEnd(AT, response), [bound("swap_context")]) == NOTHING


def test_recipes_are_told_which_handlers_there_are_for_each_event() -> None:
    assert known_handlers(builtin_handlers().values())["turn_end"] >= {"compact", "swap_context"}
