"""`/compact preview` and `/compact status`: what they say, and that nothing changes by asking."""

from __future__ import annotations

import pytest
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from support.compactions import both_editors, shown_compactions
from support.editors import Editor
from support.layers import summarising
from support.models import Reply
from support.stage import Stage, stage
from support.terminal import run_command

AT_ONCE: Mapping[str, Any] = {"compaction": {"prepare": False}}
SMALL = {"ACP_AGENT_CONTEXT_WINDOW": "30000"}
PROSE = "The cart adds up what the lines cost. " * 60
SUMMARY = "## Goal and requirements\nThe shop."


def answers(number: int) -> Reply:
    return Reply(f"Answer {number}. {PROSE * 2}")


def database(it: Stage) -> list[str]:
    """All that can be read in the database, its write-ahead log included."""
    with closing(sqlite3.connect(f"file:{it.home / 'state' / 'sessions.db'}?mode=ro", uri=True)) as connection:
        return list(connection.iterdump())


async def answer_to(it: Stage, prompt: str) -> str:
    begun = len(it.agent.lines)
    assert await it.prompt(prompt) == {"stopReason": "end_turn"}
    return it.agent.text(since=begun)


@both_editors
async def test_neither_preview_nor_status_changes_a_byte_or_asks_a_model(tmp_path: Path, editor: Editor) -> None:
    script = summarising([SUMMARY], answers)
    async with stage(tmp_path, script=script, editor=editor, env=SMALL, config=AT_ONCE) as it:
        for word in ("preview", "status"):
            empty = database(it)
            await it.prompt(f"/compact {word}")
            assert database(it) == empty
        await it.prompt("Never rename the cart. What is in it?")
        await it.prompt("/compact")
        await it.prompt("And now?")
        before, calls = database(it), len(it.server.calls)
        for word in ("preview", "status", " status ", "preview"):
            await it.prompt(f"/compact {word}")
        assert database(it) == before
        assert len(it.server.calls) == calls
        assert len(shown_compactions(it.agent)) == 1


async def test_a_preview_with_instructions_is_a_preview(tmp_path: Path) -> None:
    async with stage(tmp_path, script=summarising([], answers), env=SMALL, config=AT_ONCE) as it:
        await it.prompt("Never rename the cart. What is in it?")
        before, calls = database(it), len(it.server.calls)
        for words in ("preview keep it", "preview  keep\nthe cart ", "preview"):
            said = await answer_to(it, f"/compact {words}")
            assert said
        assert (database(it), len(it.server.calls), shown_compactions(it.agent)) == (before, calls, [])


@pytest.mark.process
async def test_the_terminal_shows_preview_and_status(tmp_path: Path) -> None:
    script = summarising([SUMMARY], answers)
    async with stage(tmp_path, script=script, config=AT_ONCE) as it:
        await it.prompt("Never rename the cart.")
        await it.agent.request("session/close", {"sessionId": it.session})
        before = database(it)
        for word in ("preview", "status"):
            ran = await run_command(it.home, "compact", "-c", it.session, word, env=it.server.env())
            assert ran.code == 0
            assert ran.out
        assert database(it) == before
