"""What another process has appended is told to whoever shows the session, once and wholly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    Event,
    InstructionsLoaded,
    ModeChanged,
    NoteAdded,
    TitleChanged,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import Text
from acp_agent.session.log import SessionLog
from support.stores import START, STORES, opened, read


async def test_what_another_process_appends_while_a_slow_editor_is_told_of_the_last_thing_is_told_as_well(
    tmp_path: Path,
) -> None:
    async with (
        opened(lambda: STORES["sqlite"](tmp_path)) as ours,
        opened(lambda: STORES["sqlite"](tmp_path)) as theirs,
    ):
        log = SessionLog(ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START])))
        told: list[tuple[str, str]] = []
        begun, read = anyio.Event(), anyio.Event()

        async def slow_editor(former: Context) -> None:
            told.append((former.mode, log.context.mode))
            begun.set()
            await read.wait()

        log.caught_up = slow_editor
        first = log.context.mode
        await theirs.append("s", log.context.head, [ModeChanged("plan")])
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(log.refresh)
                await begun.wait()
                await theirs.append("s", log.context.head, [ModeChanged("full-access")])
                async with anyio.create_task_group() as later:
                    later.start_soon(log.refresh)
                    while log.context.mode != "full-access":  # noqa: ASYNC110 - nobody is told of it yet
                        await anyio.sleep(0.01)
                    read.set()
            assert told == [(first, "plan"), ("plan", "full-access")]
            await log.refresh()
        assert len(told) == 2


async def test_what_an_editor_could_not_be_told_to_the_end_is_told_by_the_next_one(tmp_path: Path) -> None:
    async with (
        opened(lambda: STORES["sqlite"](tmp_path)) as ours,
        opened(lambda: STORES["sqlite"](tmp_path)) as theirs,
    ):
        log = SessionLog(ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START])))
        told: list[tuple[str, str]] = []
        first = log.context.mode

        async def cancelled(former: Context) -> None:
            scope.cancel()
            await anyio.sleep_forever()

        async def showing(former: Context) -> None:
            told.append((former.mode, log.context.mode))

        log.caught_up = cancelled
        await theirs.append("s", log.context.head, [ModeChanged("plan")])
        with anyio.CancelScope() as scope:
            await log.refresh()
        log.caught_up = showing
        # Also where there is more by then.
        await theirs.append("s", log.context.head, [TitleChanged("Theirs")])
        await log.refresh()
        assert told == [(first, "plan")]


async def test_a_setting_is_changed_behind_what_another_process_says_at_that_moment(tmp_path: Path) -> None:
    async with (
        opened(lambda: STORES["sqlite"](tmp_path)) as ours,
        opened(lambda: STORES["sqlite"](tmp_path)) as theirs,
    ):
        log = SessionLog(ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START])))
        prompted = UserPrompted("u1", (Text("Port the cart."),), sent=())
        await theirs.append("s", log.context.head, [prompted, TitleChanged("Theirs")])
        await log.change(TitleChanged("Ours", "user"))
        assert log.context == Context.from_log([each async for each in theirs.events("s")])
        assert log.context.title == "Ours"
        assert log.context.turn_from is not None


async def test_what_is_set_between_turns_alone_is_not_set_in_one_that_another_process_begins_at_that_moment(
    tmp_path: Path,
) -> None:
    rules = InstructionsLoaded("Be brief.", ("AGENTS.md",))
    async with (
        opened(lambda: STORES["sqlite"](tmp_path)) as ours,
        opened(lambda: STORES["sqlite"](tmp_path)) as theirs,
    ):
        log = SessionLog(ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START])))
        await theirs.append("s", log.context.head, [UserPrompted("u1", (Text("Port the cart."),))])
        await log.change(rules, between_turns=True)
        assert (log.context.head, log.context.instructions) == (2, "")
        await theirs.append("s", log.context.head, [TurnEnded("end_turn"), TitleChanged("Theirs")])
        await log.refresh()
        await theirs.append("s", log.context.head, [ModeChanged("plan")])
        await log.change(rules, between_turns=True)
        assert (log.context.mode, log.context.title, log.context.instructions) == ("plan", "Theirs", "Be brief.")


async def test_a_turn_goes_on_however_often_another_process_changes_a_setting_before_it_can_append(
    tmp_path: Path,
) -> None:
    async def change(head: int, mode: str) -> None:
        async with opened(lambda: STORES["sqlite"](tmp_path)) as theirs:
            await theirs.append("s", head, [ModeChanged(mode)])

    async with opened(lambda: STORES["sqlite"](tmp_path)) as ours:
        log = SessionLog(ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START])))
        modes = ["plan", "full-access", "accept-edits"]

        def build(context: Context) -> tuple[Event, ...]:
            if modes:  # between our look at the log and our append
                with ThreadPoolExecutor(1) as elsewhere:
                    elsewhere.submit(anyio.run, change, context.head, modes.pop(0)).result(20)
            return (NoteAdded("n1", "Done."),)

        await log.append_built(build)
        assert log.context.mode == "accept-edits"
        assert log.context == Context.from_log([each async for each in ours.events("s")])
        assert [type(each.event) for each in await read(ours, "s")].count(NoteAdded) == 1
