"""Stores of other versions: an earlier one is copied beside itself and brought up to date, a later one is refused."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.client import AgentError, connected_agent
from support.kept import SCHEMAS, STORE, by_name, copy_store, opened
from support.terminal import run_command

each_schema = pytest.mark.parametrize("schema", SCHEMAS)


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def contents(path: Path) -> list[str]:
    """All that a store holds, as SQL."""
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def later(home: Path) -> Path:
    """A store whose tables a later version has changed."""
    path = copy_store(home)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {version(path) + 1}")
    return path


@each_schema
async def test_a_store_of_an_earlier_version_is_copied_beside_itself_before_it_is_brought_up_to_date(
    tmp_path: Path, schema: int
) -> None:
    session = by_name(f"schema-{schema}")
    path = copy_store(tmp_path / "never-opened", session.store)
    async with opened(tmp_path, session) as it:
        [row] = (await it.agent.request("session/list", {}))["sessions"]
        assert (row["sessionId"], row["title"]) == (session.id, session.title)
    state = tmp_path / "home" / "state"
    copy = state / f"{STORE}.v{schema}"
    assert sorted(file.name for file in state.glob(f"{STORE}*")) == [STORE, copy.name]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert (version(copy), contents(copy)) == (schema, contents(path))
    assert version(state / STORE) > schema


@pytest.mark.process
async def test_a_copy_has_what_was_not_yet_in_the_file_and_no_later_one_takes_its_place(tmp_path: Path) -> None:
    path = copy_store(tmp_path, by_name("schema-1").store)
    copy = path.with_name(f"{STORE}.v1")
    # Another process has it open: what it wrote last stands in the log beside the file.
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("UPDATE sessions SET title = 'Written last' WHERE id = 1")
        assert (await run_command(tmp_path, "sessions")).code == 0
    first = contents(copy)
    assert "Written last" in "".join(first)
    # Somebody who went back to the earlier version comes again with a store of his.
    path.unlink()
    shutil.rmtree(tmp_path / "state" / "logs", ignore_errors=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript("\n".join(first).replace("Written last", "Written later"))
        database.executescript("PRAGMA application_id = 1094930497; PRAGMA user_version = 1")
    ran = await run_command(tmp_path, "sessions")
    assert (ran.code, "Written later" in ran.out) == (0, True)
    assert contents(copy) == first


@pytest.mark.process
async def test_a_store_that_cannot_be_copied_is_left_as_it_is(tmp_path: Path) -> None:
    path = copy_store(tmp_path, by_name("schema-2").store)
    path.with_name(f"{STORE}.v2.unfinished").mkdir()
    before = contents(path)
    ran = await run_command(tmp_path, "sessions")
    assert ran.code != 0
    for words in (str(path), f"{STORE}.v2 cannot be made", "Nothing was changed"):
        assert words in ran.err
    assert (version(path), contents(path)) == (2, before)
    path.with_name(f"{STORE}.v2.unfinished").rmdir()
    assert (await run_command(tmp_path, "sessions")).code == 0


@pytest.mark.process
async def test_a_store_of_this_version_is_not_copied(tmp_path: Path) -> None:
    path = copy_store(tmp_path)
    for _ in range(2):
        assert (await run_command(tmp_path, "sessions")).code == 0
    assert list(path.parent.glob(f"{STORE}.v*")) == []


@pytest.mark.process
async def test_a_store_of_a_later_version_is_refused_with_a_sentence_in_the_editor_and_in_the_terminal(
    tmp_path: Path,
) -> None:
    path = later(tmp_path)
    before = path.read_bytes()
    newer = version(path)
    says = [
        f"The session store {path} was written by a newer acp-agent",
        f"(its version is {newer}, and this one knows {newer - 1})",
        "Update acp-agent",
        "ACP_AGENT_HOME",
        "The file was not changed.",
    ]
    async with connected_agent(home=tmp_path) as agent:
        id = by_name("summary").id
        for method, params in (
            ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            ("session/load", {"sessionId": id, "cwd": str(tmp_path), "mcpServers": []}),
            ("session/list", {}),
        ):
            with pytest.raises(AgentError) as error:
                await agent.request(method, params)
            assert all(words in error.value.message for words in says), error.value.message
    ran = await run_command(tmp_path, "sessions")
    assert ran.code != 0
    assert all(words in ran.err for words in says), ran.err
    assert path.read_bytes() == before
    assert f"{STORE}.v{newer - 1}" not in ran.err
    # Where the later version has left a copy for this one, it is named.
    copy = path.with_name(f"{STORE}.v{newer - 1}")
    copy.touch()
    assert f"As it was before that, it is in {copy}." in (await run_command(tmp_path, "sessions")).err
