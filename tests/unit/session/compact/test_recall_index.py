"""The search index for `recall` is built while the user pauses, in sessions that need
it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio

from support.layers import summarising
from support.memory import stage

PROSE = "The cart adds up what the lines cost. " * 60
CONFIG = {"compaction": {"prepare": False}}


def covered(file: Path) -> int:
    """Return the last indexed entry of a session; 0 if there is no index."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as index:
        try:
            return (index.execute("SELECT max(seq) FROM covered").fetchone() or (0,))[
                0
            ] or 0
        except sqlite3.OperationalError:  # it is being made
            return 0


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not holds():  # noqa: ASYNC110 - nobody is told of a written index
            await anyio.sleep(0.01)


def script() -> Any:
    return summarising(["## Goal\nThe cart."] * 3, lambda _: PROSE)


async def test_a_compacted_session_is_indexed_between_its_turns_and_when_it_is_opened(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, script=script(), config=CONFIG) as it:
        file = it.home / "state" / "sessions.db.search-1"
        await it.prompt("Which lines are there?")
        await it.prompt("And how many?")
        assert not file.exists()
        await it.prompt("/compact")
        await until(lambda: covered(file) > 0)
        indexed = covered(file)
        await it.prompt("Go on.")
        await until(lambda: covered(file) > indexed)
        indexed = covered(file)
        file.unlink()
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            await until(lambda: covered(file) >= indexed)


async def test_a_session_without_compactions_gets_no_index(tmp_path: Path) -> None:
    async with stage(tmp_path, script=script(), config=CONFIG) as it:
        await it.prompt("Which lines are there?")
        await it.prompt("And how many?")
        assert list((it.home / "state").glob("sessions.db.search-*")) == []


async def test_a_prompt_that_follows_at_once_does_not_wait_for_the_index(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, script=script(), config=CONFIG) as it:
        file = it.home / "state" / "sessions.db.search-1"
        await it.prompt("Which lines are there?")
        await it.prompt("/compact")
        await it.prompt("Go on.")
        assert not file.exists()
        await until(lambda: covered(file) > 0)
