"""Swaps: what may happen at the same time, and what may not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import pytest

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.calls import ModelCalls
from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
)
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CompactionFailed,
    ContextSwapped,
    Event,
    InstructionsLoaded,
    ModeChanged,
    TurnRefused,
)
from acp_agent.conversation.messages import Text, Usage
from acp_agent.conversation.swaps import Memory
from acp_agent.conversation.updates import (
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    Update,
    UsageUpdated,
)
from acp_agent.errors import CompactionError, StorageError
from acp_agent.hooks.events import TokenUsage
from acp_agent.hooks.handlers import known_handlers
from acp_agent.hooks.outcomes import NOTHING, Outcome, SwapContext
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, TextDelta
from acp_agent.recipes.discovery import RecipeFolder, RecipeLibrary, builtin_recipes_dir
from acp_agent.recipes.model import Known
from acp_agent.session.commands import COMPACT
from acp_agent.session.compact.background import BackgroundSummary
from acp_agent.session.compact.clock import Clock
from acp_agent.session.compact.compactor import Compactor
from acp_agent.session.compact.draft import SummaryDraft
from acp_agent.session.compact.order import Order, Orders
from acp_agent.session.compact.prompt_cache import PromptCache
from acp_agent.session.hooks import SessionHooks
from acp_agent.session.log import SessionLog
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests
from acp_agent.session.recipes.run import RecipeRun
from acp_agent.storage.store import SessionStore
from support.logs import LogBuilder

BUDGET = TokenBudget(10_000, 1_000)
LONG = "The cart adds prices. " * 200


@dataclass(slots=True)
class Meter:
    """The part of a session's `Requests` that a compaction uses."""

    text: str

    async def instructions(self) -> InstructionsLoaded:
        return InstructionsLoaded(self.text)

    async def usage(self) -> UsageUpdated:
        return UsageUpdated(0, 0, None)


@dataclass(slots=True)
class Desk:
    """A session's log on disk, and what its user sees. `during` runs while the summary
    streams.
    """

    store: SessionStore
    log: SessionLog
    shown: list[Update] = field(default_factory=list[Update])
    during: Callable[[], Awaitable[None]] | None = None
    on_show: Callable[[Update], Awaitable[None]] | None = None
    instructions: str = "You are careful."
    afterwards: Callable[[], Awaitable[None]] | None = None
    on_add: Callable[[], Awaitable[None]] | None = None

    async def show(self, update: Update) -> None:
        if self.on_show is not None:
            await self.on_show(update)
        self.shown.append(update)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("# Goal")
        if self.during is not None:
            await self.during()
        yield TextDelta("\nA cart.")
        yield Answered((Text("# Goal\nA cart."),), "end_turn", Usage(100, 10))

    async def is_handled(self, name: str) -> bool:
        return True

    async def before_compaction(
        self, trigger: str, window: int, instructions: str
    ) -> Outcome:
        return NOTHING

    async def summary_written(self, run: RecipeRun, summary: str) -> Outcome:
        return Outcome(action=SwapContext(summary))

    async def add(self, texts: Sequence[str]) -> None:
        assert not texts
        if self.on_add is not None:
            await self.on_add()

    async def recipe_ended(self, run: RecipeRun, summary: str) -> None:
        pass

    async def usage(self) -> TokenUsage:
        return TokenUsage()

    async def after_compaction(
        self, trigger: str, window: int, summary: str, before: TokenUsage
    ) -> None:
        if self.afterwards is not None:
            await self.afterwards()

    async def compact(self, *, prepared_first: bool = False) -> bool:
        handlers = known_handlers()
        library = RecipeLibrary.read(
            [RecipeFolder("builtin", builtin_recipes_dir())], Known(handlers)
        )
        hooks = cast(SessionHooks, self)  # as far as a compaction needs them
        compactor = Compactor(
            self.log,
            CompactionService(),
            hooks,
            cast(Requests, Meter(self.instructions)),
            self.show,
        )
        context = self.log.context
        state = ConversationState.from_context(
            context, ModelRequest("m", context.instructions, context.messages), BUDGET
        )
        run = RecipeRun(library.recipes[COMPACT], "")
        policy = CompactionPolicy(run.render(), strategy="summary")
        index = ExcerptIndex.of(state.originals)
        order = Order(
            run,
            "manual",
            state,
            context.revision,
            policy,
            cast(ActiveModel, self),
            None,
            None,
            index,
        )
        if not prepared_first:
            return await compactor.compact(order) is not None
        prepared = await compactor.prepare(order, ModelCalls(order.model.stream))
        assert prepared is not None
        draft = SummaryDraft(
            context.revision, Clock().now, order=order, outcome=prepared
        )
        return await compactor.compact(order, draft) is not None

    async def events(self) -> list[Event]:
        return [logged.event async for logged in self.store.events("s")]

    @property
    def statuses(self) -> list[str]:
        return [
            update.status
            for update in self.shown
            if isinstance(update, CompactionFinished)
        ]


@asynccontextmanager
async def desk(tmp_path: Path) -> AsyncGenerator[Desk]:
    """Open a session with a question and a long answer."""
    history = LogBuilder()
    history.prompt("One?")
    history.step(LONG)
    history.end()
    tmp_path.mkdir(exist_ok=True)
    store = await SessionStore.open(tmp_path / "sessions.db")
    try:
        logged = await store.create("s", "/shop", (), history.events)
        with anyio.fail_after(20):
            yield Desk(store, SessionLog(store, "s", Context.from_log(logged)))
    finally:
        await store.aclose()


async def test_events_appended_during_a_summary_stay_in_force(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as one:

        async def change() -> None:
            await one.log.append(ModeChanged("plan"))

        one.during = change
        assert await one.compact()
        assert one.statuses == ["completed"]
        assert one.log.context.mode == "plan"
        assert len(one.log.context.entries) == 1
        assert await one.store.context("s") == one.log.context


async def test_a_summary_of_an_outdated_context_is_dropped(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:

        async def change() -> None:
            await one.log.append(TurnRefused(one.log.context.entries[-1].seq))

        one.during = change
        with pytest.raises(
            CompactionError, match="changed while the summary was written"
        ):
            await one.compact()
        assert one.statuses == ["failed"]
        assert not any(
            isinstance(event, ContextSwapped) for event in await one.events()
        )
        assert [message.role for message in one.log.context.messages] == ["user"]


@pytest.mark.parametrize(
    "kind", [CompactionStarted, CompactionChunk, CompactionFinished]
)
async def test_a_cancel_changes_nothing_until_the_swap_is_in_the_log(
    tmp_path: Path, kind: type[Update]
) -> None:
    async with desk(tmp_path) as one:
        scope = anyio.CancelScope()
        before = one.log.context

        async def cancel(update: Update) -> None:
            if isinstance(update, kind):
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        one.on_show = cancel
        with scope:
            await one.compact()
        last = (await one.events())[-1]
        if kind is CompactionFinished:
            assert (one.statuses, type(last)) == (["completed"], ContextSwapped)
            assert len(one.log.context.entries) == 1
        else:
            assert (one.statuses, type(last)) == (["cancelled"], CompactionFailed)
            assert one.log.context.entries == before.entries
            assert one.log.context.revision == before.revision


async def test_an_unexpected_failure_ends_the_compaction_with_an_explanation(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as one:

        async def fail() -> None:
            raise ZeroDivisionError

        one.during = fail
        with pytest.raises(
            CompactionError, match=r"ZeroDivisionError.*(unchanged|Nothing changed)"
        ):
            await one.compact()
        assert one.statuses == ["failed"]
        assert len(one.log.context.entries) == 2


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_a_failing_hook_after_the_swap_does_not_end_the_compaction_again(
    tmp_path: Path, how: str
) -> None:
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
        assert not any(
            isinstance(event, CompactionFailed) for event in await one.events()
        )


async def test_the_cost_of_an_unused_prepared_summary_is_logged(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as one:

        async def refuse(_: Update) -> None:
            raise CompactionError("The editor is gone.")

        one.on_show = refuse
        with pytest.raises(CompactionError):
            await one.compact(prepared_first=True)
        one.on_show = None
        spent = [
            event.usage
            for event in await one.events()
            if isinstance(event, CompactionFailed)
        ]
        assert [usage and usage.output_tokens for usage in spent] == [10]


async def test_a_swap_stays_completed_if_a_hook_s_text_cannot_be_logged(
    tmp_path: Path,
) -> None:
    async def fail() -> None:
        raise StorageError("The disk is full.")

    async with desk(tmp_path) as one:
        one.on_add = fail
        assert await one.compact()
        assert any(isinstance(each, ContextSwapped) for each in await one.events())
        assert one.statuses == ["completed"]


async def test_a_used_summary_is_not_ready_a_second_time(
    tmp_path: Path,
) -> None:
    async def show(text: str) -> None:
        raise AssertionError(text)

    async with desk(tmp_path) as one, anyio.create_task_group() as tasks:
        summary = CompactedState((), "summary", "What was done.", (), Memory(), 10, 1)
        clock = Clock()
        draft = SummaryDraft(one.log.context.revision, clock.now, outcome=summary)
        background = BackgroundSummary(
            one.log,
            cast(Orders, one),
            cast(Compactor, one),
            tasks,
            PromptCache(one.log, clock),
            draft,
        )
        assert (background.state, background.draft) == ("ready", draft)
        assert await draft.take(show) is summary
        assert (background.state, background.draft) == ("none", None)
