"""Arguments that no tool can be given: numbers that JSON does not have, and more than anybody reads."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.models import DialectName
from support.replies import Reply, ToolCall
from support.stage import Stage, results, stage

DIALECTS: tuple[DialectName, ...] = ("anthropic", "openai", "chat", "google")
NO_JSON = {
    '{"path": NaN}': "NaN is no JSON",
    '{"path": "a.txt", "first_line": Infinity}': "Infinity is no JSON",
    '{"path": ["a.txt", {"deep": [-Infinity]}]}': "-Infinity is no JSON",
    '{"path": "a.txt", "first_line": 1e999}': "1e999 is out of the range",
    '{"path": {"deep": -1E400}}': "-1E400 is out of the range",
}
HALF_TOO_LONG = "x" * 600_000
REPEATED = '{"path": "b.txt", "content": "' + HALF_TOO_LONG * 2

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def refuse(word: str) -> Any:
    raise AssertionError(f"{word} is no JSON")


def arguments(value: Any) -> Iterator[Any]:
    """The arguments of every call in a request, whatever API it is for."""
    match value:
        case {"type": "tool_use", "input": given}:
            yield given
        case {"name": _, "arguments": str(text)}:
            yield json.loads(text, parse_constant=refuse)
        case dict():
            for item in value.values():
                yield from arguments(item)
        case list():
            for item in value:
                yield from arguments(item)
        case _:
            pass


def check_requests(it: Stage) -> None:
    """Every request is legal JSON, and no call in it has arguments."""
    for request in it.server.calls:
        json.dumps(request.body, allow_nan=False)
        assert [given for given in arguments(request.body) if given] == []


def stored(it: Stage) -> list[str]:
    with closing(sqlite3.connect(it.home / "state" / "sessions.db")) as database:
        return [data for (data,) in database.execute("SELECT data FROM events")]


def replace_in_store(it: Stage, old: str, new: str) -> None:
    """Put a text in the place of another in the one event that has it, which the store itself never does."""
    with closing(sqlite3.connect(it.home / "state" / "sessions.db", isolation_level=None)) as database:
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        changed = database.execute("UPDATE events SET data = replace(data, ?1, ?2) WHERE instr(data, ?1)", [old, new])
        assert changed.rowcount == 1
        for _, sql in triggers:
            database.execute(sql)


@each_dialect
async def test_a_number_that_json_does_not_have_makes_a_bad_call_of_which_nothing_is_sent_back(
    tmp_path: Path, dialect: DialectName
) -> None:
    calls = [ToolCall("read", text) for text in NO_JSON]
    replies = [Reply(tool_calls=calls), Reply("Sorry."), Reply("Still here."), Reply("And later.")]
    async with stage(tmp_path, *replies, dialect=dialect, config={}) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        told = it.server.calls[1]
        for words in NO_JSON.values():
            assert told.mentions(words), words
        assert [call["status"] for call in it.calls()] == ["failed"] * len(calls)
        if dialect == "anthropic":
            assert all(result.is_error for result in results(told.body))
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.prompt("And now?") == {"stopReason": "end_turn"}
        check_requests(it)
        for data in stored(it):
            json.loads(data, parse_constant=refuse)


@each_dialect
async def test_a_store_that_already_has_such_a_number_can_still_be_prompted(
    tmp_path: Path, dialect: DialectName
) -> None:
    replies = [Reply(tool_calls=[ToolCall("read", {"path": "no.txt"})]), Reply("It is not there."), Reply("Here.")]
    async with stage(tmp_path, *replies, dialect=dialect, config={}) as it:
        await it.prompt()
        await it.agent.request("session/close", {"sessionId": it.session})
        replace_in_store(it, '{"path":"no.txt"}', '{"path":[NaN,{"deep":-Infinity}],"first_line":1e999}')
        it.server.calls.clear()
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.prompt("Is it there now?") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == 1
        check_requests(it)


HOOK = f"""#!{sys.executable}
print('{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", "updatedInput": {{"path": [NaN]}}}}}}')
"""


async def test_a_hook_that_answers_such_a_number_has_failed_and_the_call_runs_as_the_model_asked(
    tmp_path: Path,
) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    config = {"hooks": {"PreToolUse": [{"command": f"'{hook}'"}]}}
    replies = [Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert it.server.calls[1].mentions("1\tone\n2\ttwo\n3\tthree")
        assert "NaN is no JSON" in json.dumps([dict(update) for update in it.agent.updates()])


@each_dialect
async def test_arguments_without_an_end_are_broken_off_at_a_mebibyte_and_dropped_and_the_model_is_told(
    tmp_path: Path, dialect: DialectName
) -> None:
    # The server never goes on after them: only who hangs up gets any further.
    calls = [ToolCall("write", REPEATED), ToolCall("read", {"path": "a.txt"})]
    endless = Reply("I write it.", tool_calls=calls, hold=anyio.Event(), hold_after=3)
    async with stage(tmp_path, endless, Reply("In pieces, then."), dialect=dialect, config={}) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        await it.server.wait_aborted()
        assert it.agent.text() == "I write it.\nIn pieces, then."
        [call] = it.calls()
        assert call["status"] == "failed"
        told = it.server.calls[1]
        assert told.mentions("write: the arguments were longer than 1,048,576 characters (1 MiB)")
        assert not told.mentions("x" * 100)
        check_requests(it)
        assert max(len(data) for data in stored(it)) < 100_000
        assert not (it.folder / "b.txt").exists()
