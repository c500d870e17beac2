"""The swap: what may happen beside it, and what must not."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import pytest

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.calls import ModelCalls, Show
from acp_agent.compaction.excerpts.selection import ExcerptIndex
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CompactionFailed,
    ContextSwapped,
    Event,
    InstructionsLoaded,
    ModeChanged,
    TurnRefused,
)
from acp_agent.conversation.messages import CompactedBlock, Text, Usage
from acp_agent.errors import CompactionError
from acp_agent.hooks.events import TokenUsage
from acp_agent.hooks.handlers import builtin_handlers, known_handlers
from acp_agent.hooks.outcomes import NOTHING, Outcome, SwapContext
from acp_agent.llm import anthropic_wire, openai_responses_wire
from acp_agent.llm.profiles import profile
from acp_agent.llm.provider import (
    Answered,
    Compacted,
    ModelEvent,
    ModelRequest,
    NativeCompaction,
    TextDelta,
    ToolDefinition,
)
from acp_agent.recipes import Known, RecipeLibrary, builtin_recipes_dir
from acp_agent.recipes.discovery import RecipeFolder
from acp_agent.session.commands import COMPACT, RecipeRun
from acp_agent.session.compact.job import Compactor
from acp_agent.session.compact.order import Order, Prepared
from acp_agent.session.hooking import SessionHooks
from acp_agent.session.log import SessionLog
from acp_agent.storage.sqlite import SqliteStore
from acp_agent.turn.updates import CompactionChunk, CompactionFinished, Update
from support.calls_counted import Calls, agent_calls
from support.logs import LogBuilder

BUDGET = TokenBudget(10_000, 1_000)
LONG = "The cart adds prices. " * 200


@dataclass(slots=True)
class Desk:
    """A session's log on disk and what its user is shown; `during` happens while the summary streams.

    :ivar calls: what the last compaction called in the event loop's thread.
    """

    store: SqliteStore
    log: SessionLog
    shown: list[Update] = field(default_factory=list[Update])
    during: Callable[[], Awaitable[None]] | None = None
    on_show: Callable[[Update], Awaitable[None]] | None = None
    instructions: str = "You are careful."
    reword: Callable[[str], str] = str
    tools: tuple[ToolDefinition, ...] = ()
    native: NativeCompaction | None = None
    afterwards: Callable[[], Awaitable[None]] | None = None
    calls: Calls = field(default_factory=Calls)

    async def show(self, update: Update) -> None:
        if self.on_show is not None:
            await self.on_show(update)
        self.shown.append(update)

    async def show_usage(self) -> None:
        pass

    async def read_instructions(self) -> InstructionsLoaded:
        return InstructionsLoaded(self.instructions)

    async def model(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("# Goal")
        if self.during is not None:
            await self.during()
        yield TextDelta("\nA cart.")
        yield Answered((Text("# Goal\nA cart."),), "end_turn", Usage(100, 10))

    async def before_compaction(self, order: Order) -> Outcome:
        return NOTHING

    async def summary_written(self, run: RecipeRun, summary: str) -> Outcome:
        return Outcome(action=SwapContext(self.reword(summary)))

    async def add(self, texts: Sequence[str]) -> None:
        assert not texts

    async def recipe_ended(self, run: RecipeRun, summary: str) -> None:
        pass

    async def usage(self) -> TokenUsage:
        return TokenUsage()

    async def after_compaction(self, order: Order, swap: ContextSwapped, before: TokenUsage) -> None:
        if self.afterwards is not None:
            await self.afterwards()

    async def compact(self, *, prepared_first: bool = False) -> bool:
        handlers = known_handlers(builtin_handlers().values())
        library = RecipeLibrary.read([RecipeFolder("builtin", builtin_recipes_dir())], Known(handlers))
        hooks = cast(SessionHooks, self)  # as far as a compaction needs them
        compactor = Compactor(self.log, CompactionService(), hooks, self.show, self.show_usage, self.read_instructions)
        context = self.log.context
        state = ConversationState.from_context(
            context, ModelRequest("m", context.instructions, context.messages, self.tools), BUDGET
        )
        run = RecipeRun(library.recipes[COMPACT], "", ())
        policy = CompactionPolicy(run.render(), strategy="summary" if self.native is None else "native")
        index = ExcerptIndex.of(state.originals)
        order = Order(run, "manual", state, context.revision, policy, self.model, self.native, None, index)
        if not prepared_first:
            with agent_calls() as self.calls:
                return await compactor.compact(order) is not None
        prepared = await compactor.prepare(order, ModelCalls(order.call))

        async def pending(_: Show) -> Prepared | None:
            return prepared

        with agent_calls() as self.calls:
            return await compactor.compact(order, pending) is not None

    async def events(self) -> list[Event]:
        return [logged.event async for logged in self.store.events("s")]

    @property
    def statuses(self) -> list[str]:
        return [update.status for update in self.shown if isinstance(update, CompactionFinished)]


@asynccontextmanager
async def desk(tmp_path: Path, turns: int = 1) -> AsyncGenerator[Desk]:
    """A session with so many turns of a question and a long answer."""
    history = LogBuilder()
    for _ in range(turns):
        history.prompt("One?")
        history.step(LONG)
        history.end()
    tmp_path.mkdir(exist_ok=True)
    store = await SqliteStore.open(tmp_path / "sessions.db")
    try:
        logged = await store.create("s", "/shop", (), history.events)
        with anyio.fail_after(20):
            yield Desk(store, SessionLog(store, "s", Context.from_log(logged)))
    finally:
        await store.aclose()


async def test_a_cancel_before_anything_was_shown_leaves_nothing_to_be_seen(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        before = await one.events()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await one.compact()
        assert scope.cancelled_caught
        assert one.shown == []
        assert await one.events() == before


async def test_what_is_appended_while_the_summary_is_written_stays_in_force(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:

        async def change() -> None:
            await one.log.append(ModeChanged("plan"))

        one.during = change
        assert await one.compact()
        assert one.statuses == ["completed"]
        assert one.log.context.mode == "plan"
        assert len(one.log.context.entries) == 1
        assert await one.store.context("s") == one.log.context


async def test_a_summary_of_what_is_no_longer_so_is_thrown_away(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:

        async def change() -> None:
            await one.log.append(TurnRefused(one.log.context.entries[-1].seq))

        one.during = change
        with pytest.raises(CompactionError, match="changed while the summary was written"):
            await one.compact()
        assert one.statuses == ["failed"]
        assert not any(isinstance(event, ContextSwapped) for event in await one.events())
        assert [message.role for message in one.log.context.messages] == ["user"]


async def test_a_cancel_that_comes_after_the_commit_is_too_late(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        scope = anyio.CancelScope()

        async def cancel(update: Update) -> None:
            if isinstance(update, CompactionFinished):
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        one.on_show = cancel
        with scope:
            await one.compact()
        assert one.statuses == ["completed"]
        events = await one.events()
        assert isinstance(events[-1], ContextSwapped)
        assert len(one.log.context.entries) == 1


async def test_a_cancel_that_comes_before_the_commit_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        scope, before = anyio.CancelScope(), one.log.context

        async def cancel(update: Update) -> None:
            if isinstance(update, CompactionChunk):
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        one.on_show = cancel
        with scope:
            await one.compact()
        assert scope.cancelled_caught
        assert one.statuses == ["cancelled"]
        assert isinstance((await one.events())[-1], CompactionFailed)
        assert one.log.context.entries == before.entries
        assert one.log.context.revision == before.revision


async def test_the_projects_instructions_are_read_afresh_and_are_part_of_the_swap(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.instructions = "You are careful and quick."
        assert await one.compact()
        assert one.log.context.instructions == "You are careful and quick."
        *_, loaded, swapped = await one.events()
        assert isinstance(loaded, InstructionsLoaded)
        assert isinstance(swapped, ContextSwapped)
        assert await one.store.context("s") == one.log.context


class OwnCompaction:
    """A provider's, which lets its summary be read, or has one asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.keeps_user_messages = not text

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> Compacted:
        said = (
            [{"role": "user", "content": [{"type": "input_text", "text": "One?"}]}] if self.keeps_user_messages else []
        )
        return Compacted(CompactedBlock("own", {"output": [*said, {"type": "compaction"}]}, self.text), Usage(10, 5))


@pytest.mark.parametrize("recall", [True, False], ids=["with recall", "without"])
@pytest.mark.parametrize("native", [None, "# Goal\nA cart.", ""], ids=["summary", "readable", "encrypted"])
async def test_where_a_hook_rewords_a_summary_every_provider_that_reads_a_text_reads_the_new_words(
    tmp_path: Path, native: str | None, recall: bool
) -> None:
    async with desk(tmp_path) as one:
        one.reword = lambda summary: summary.replace("A cart", "A basket")
        one.tools = (ToolDefinition("recall", "Reads entries.", {"type": "object"}),) if recall else ()
        one.native = None if native is None else OwnCompaction(native)
        assert await one.compact()
        request = ModelRequest("m", "", one.log.context.messages, one.tools)
        elsewhere = [
            json.dumps(body(request, profile("m"), "other"))
            for body in (anthropic_wire.request_body, openai_responses_wire.request_body)
        ]
        for text in elsewhere:
            assert "A basket." in text
            assert "A cart." not in text
            assert text.count("<conversation_summary>") == 1
            assert ("the `recall` tool reads word for word" in text) == recall
            assert "One?" in text
        blocks = [part for part in one.log.context.messages[0].parts if isinstance(part, CompactedBlock)]
        assert len(blocks) == (native is not None)
        assert [event.summary for event in await one.events() if isinstance(event, ContextSwapped)] == [
            "# Goal\nA basket."
        ]


async def test_an_unforeseen_failure_ends_the_compaction_with_a_sentence(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:

        async def fail() -> None:
            raise ZeroDivisionError

        one.during = fail
        with pytest.raises(CompactionError, match=r"ZeroDivisionError.*(unchanged|Nothing changed)"):
            await one.compact()
        assert one.statuses == ["failed"]
        assert len(one.log.context.entries) == 2


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_what_happens_in_a_hook_behind_the_swap_makes_no_second_end_of_it(tmp_path: Path, how: str) -> None:
    async with desk(tmp_path) as one:
        with anyio.CancelScope() as scope:

            async def afterwards() -> None:
                if how == "failed":
                    raise CompactionError("A hook broke.")
                scope.cancel()
                await anyio.sleep_forever()

            one.afterwards = afterwards
            with suppress(CompactionError):
                await one.compact()
        assert one.statuses == ["completed"]
        assert not any(isinstance(event, CompactionFailed) for event in await one.events())


async def test_a_prepared_summary_that_comes_to_nothing_is_paid_for_in_the_log(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:

        async def refuse(_: Update) -> None:
            raise CompactionError("The editor is gone.")

        one.on_show = refuse
        with pytest.raises(CompactionError):
            await one.compact(prepared_first=True)
        one.on_show = None
        spent = [event.usage for event in await one.events() if isinstance(event, CompactionFailed)]
        assert [usage and usage.output_tokens for usage in spent] == [10]


@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "at once"])
async def test_a_longer_conversation_is_hardly_more_work_for_the_event_loop(tmp_path: Path, prepared: bool) -> None:
    counted: list[Calls] = []
    for number, turns in enumerate((10, 10, 200)):  # the first one loads what is loaded once
        async with desk(tmp_path / str(number), turns) as one:
            assert await one.compact(prepared_first=prepared)
            counted.append(one.calls)
    more = counted[2].by_name - counted[1].by_name
    assert more.total() < 190 * 2  # less than a call for each message, and nothing of its text
