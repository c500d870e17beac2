"""A log to which another process appends as well."""

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


async def test_what_another_process_appended_is_known_once_from_what_was_shown_last(
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


async def test_a_setting_is_changed_behind_what_another_process_says_at_that_moment(
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


async def test_a_turn_goes_on_however_often_another_process_changes_a_setting_before_it_can_append(
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
            if modes:  # between our look at the log and our append
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
