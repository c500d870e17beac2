"""A log to which another process also appends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    Event,
    ModeChanged,
    NoteAdded,
    TitleChanged,
    UserPrompted,
)
from acp_agent.conversation.messages import Text
from acp_agent.session.log import SessionLog
from acp_agent.storage.store import SessionStore
from support.stores import START, opened, read


async def test_events_of_another_process_are_reported_once(
    tmp_path: Path,
) -> None:
    async with (
        opened(lambda: SessionStore.open(tmp_path / "sessions.db")) as ours,
        opened(lambda: SessionStore.open(tmp_path / "sessions.db")) as theirs,
    ):
        log = SessionLog(
            ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START]))
        )
        first = log.context
        assert log.take_missed() is None
        for event in (ModeChanged("plan"), TitleChanged("Theirs")):
            await theirs.append("s", log.context.head, [event])
            await log.refresh()
        assert (log.context.mode, log.context.title) == ("plan", "Theirs")
        assert log.take_missed() is first
        assert log.take_missed() is None
        await log.append(ModeChanged("ask"))
        assert log.take_missed() is None


async def test_a_setting_is_appended_after_concurrent_events_of_another_process(
    tmp_path: Path,
) -> None:
    async with (
        opened(lambda: SessionStore.open(tmp_path / "sessions.db")) as ours,
        opened(lambda: SessionStore.open(tmp_path / "sessions.db")) as theirs,
    ):
        log = SessionLog(
            ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START]))
        )
        prompted = UserPrompted("u1", (Text("Port the cart."),), sent=())
        await theirs.append("s", log.context.head, [prompted, TitleChanged("Theirs")])
        await log.change(TitleChanged("Ours", "user"))
        assert log.context == Context.from_log(
            [each async for each in theirs.events("s")]
        )
        assert log.context.title == "Ours"
        assert log.context.turn_from is not None


async def test_a_turn_continues_however_often_another_process_appends_first(
    tmp_path: Path,
) -> None:
    async def change(head: int, mode: str) -> None:
        async with opened(
            lambda: SessionStore.open(tmp_path / "sessions.db")
        ) as theirs:
            await theirs.append("s", head, [ModeChanged(mode)])

    async with opened(lambda: SessionStore.open(tmp_path / "sessions.db")) as ours:
        log = SessionLog(
            ours, "s", Context.from_log(await ours.create("s", "/shop", [], [START]))
        )
        modes = ["plan", "full-access", "accept-edits"]

        def build(context: Context) -> tuple[Event, ...]:
            if modes:  # after we have read the log and before we append
                with ThreadPoolExecutor(1) as elsewhere:
                    elsewhere.submit(
                        anyio.run, change, context.head, modes.pop(0)
                    ).result(20)
            return (NoteAdded("n1", "Done."),)

        await log.append_built(build)
        assert log.context.mode == "accept-edits"
        assert log.context == Context.from_log(
            [each async for each in ours.events("s")]
        )
        assert [type(each.event) for each in await read(ours, "s")].count(
            NoteAdded
        ) == 1
