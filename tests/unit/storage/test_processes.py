"""One database used by several processes and threads, with kills and full disks."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import NoteAdded, SessionStarted
from acp_agent.storage.database import BUSY_SECONDS
from acp_agent.storage.store import LAST_SECONDS, SessionStore
from support.checkout import REPOSITORY
from support.stores import said

_BEGIN = """
import sys
from pathlib import Path
import anyio
from acp_agent.conversation.events import NoteAdded, SessionStarted
from acp_agent.errors import SessionConflictError, StorageError
from acp_agent.storage.store import SessionStore

path, name = Path(sys.argv[1]), sys.argv[2]
"""

_WRITER = f"""{_BEGIN}
async def main():
    store = await SessionStore.open(path)
    try:
        await store.create("s1", "/shop", [], [SessionStarted("/shop")])
    except StorageError as error:
        assert "is in use" in str(error), error
    head = 0
    for number in range(40):
        while True:
            try:
                head = (await store.append("s1", head, [NoteAdded(name, str(number)), NoteAdded(name, "+")]))[-1].seq
                break
            except SessionConflictError:
                head = (await store.record("s1")).head
    await store.aclose()

anyio.run(main)
"""

_ENDLESS = f"""{_BEGIN}
async def main():
    store = await SessionStore.open(path)
    await store.create("s1", "/shop", [], [SessionStarted("/shop")])
    head = 1
    while True:
        head = (await store.append("s1", head, [NoteAdded("msg", "x" * (head % 5000)) for _ in range(3)]))[-1].seq
        print(head, flush=True)

anyio.run(main)
"""

_CROWDED = f"""{_BEGIN}
import resource

async def main():
    store = await SessionStore.open(path)
    await store.create("s1", "/shop", [], [SessionStarted("/shop")])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    head = 1
    try:
        while True:
            head = (await store.append("s1", head, [NoteAdded("msg", "x" * 20_000)] * 3))[-1].seq
    except StorageError as error:
        print(error)
    assert (await store.record("s1")).head == head
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    head = (await store.append("s1", head, [NoteAdded("msg", "room again")]))[-1].seq
    print(head)
    await store.aclose()

anyio.run(main)
"""

_READER = f"""{_BEGIN}
async def main():
    store = await SessionStore.open(path)
    print([record.session_id for record in (await store.list()).sessions], (await store.context("s1")).head)
    try:
        await store.append("s1", 2, [NoteAdded("msg", "more")])
    except StorageError as error:
        print(error)
    await store.aclose()

anyio.run(main)
"""

_SEARCHER = f"""{_BEGIN}
async def main():
    store = await SessionStore.open(path)
    print([hit.seq for hit in await store.search("s1", "cart", limit=5)])
    await store.aclose()

anyio.run(main)
"""

_STARTER = f"""{_BEGIN}
from acp_agent.errors import AgentError

async def main():
    try:
        await SessionStore.open(path)
    except AgentError as error:
        print(error)

anyio.run(main)
"""


def run_mounted(mount: str, script: str, path: Path) -> list[str]:
    """Run a script with a file system mounted, and return the lines that it prints."""
    if subprocess.run(
        ["unshare", "-rm", "true"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no user namespaces")
    command = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        f'{mount} && exec "$0" -c "$1" "$2" ""',
        sys.executable,
        script,
        path,
    ]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def start(script: str, path: Path, name: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, path, name],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.process
async def test_concurrent_processes_lose_and_repeat_no_events(
    path: Path,
) -> None:
    writers = [start(_WRITER, path, name) for name in ("a", "b", "c")]
    for writer in writers:
        _, errors = writer.communicate(timeout=50)
        assert writer.returncode == 0, errors
    store = await SessionStore.open(path)
    log = [entry async for entry in store.events("s1")]
    await store.aclose()
    assert [entry.seq for entry in log] == list(range(1, 2 + 3 * 40 * 2))
    notes = [entry.event for entry in log if isinstance(entry.event, NoteAdded)]
    for name in ("a", "b", "c"):
        texts = [note.text for note in notes if note.message_id == name]
        assert texts == [text for number in range(40) for text in (str(number), "+")]
    assert all(
        first.message_id == second.message_id
        for first, second in zip(notes[::2], notes[1::2], strict=True)
    )


@pytest.mark.process
@pytest.mark.parametrize("lines", [1, 40])
async def test_a_killed_process_leaves_complete_appends_and_all_acknowledged_ones(
    path: Path, lines: int
) -> None:
    with start(_ENDLESS, path) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(lines)]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [
            int(line)
            for line in writer.stdout.read().splitlines(keepends=True)
            if line.endswith("\n")
        ]
    store = await SessionStore.open(path)
    log = [entry async for entry in store.events("s1")]
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    assert len(log) >= acknowledged[-1]
    assert (len(log) - 1) % 3 == 0
    assert await store.context("s1") == Context.from_log(log)
    assert (await store.append("s1", len(log), [NoteAdded("msg", "on")]))[0].seq == len(
        log
    ) + 1
    await store.aclose()


@pytest.mark.process
async def test_a_full_disk_is_explained_and_loses_nothing(path: Path) -> None:
    with start(_CROWDED, path) as writer:
        output, errors = writer.communicate(timeout=50)
    assert writer.returncode == 0, errors
    sentence, head = output.splitlines()
    assert "sessions.db" in sentence
    assert "disk" in sentence
    store = await SessionStore.open(path)
    log = [entry async for entry in store.events("s1")]
    await store.aclose()
    assert len(log) == int(head)
    assert Counter(type(entry.event) for entry in log) == {
        SessionStarted: 1,
        NoteAdded: len(log) - 1,
    }


@pytest.mark.process
async def test_a_read_only_store_can_be_read_unless_it_needs_a_migration(
    path: Path,
) -> None:
    folder = path.parent
    mount = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    store = await SessionStore.open(path)
    await store.create(
        "s1", "/shop", [], [SessionStarted("/shop"), NoteAdded("msg", "before")]
    )
    for _ in range(2):  # with a write-ahead log, as after a kill, and without one
        read, refused = run_mounted(mount, _READER, path)
        assert read == "['s1'] 2"
        assert (
            "sessions.db is read-only: its sessions can be listed and read" in refused
        )
        await store.aclose()
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            Path(__file__).with_name("version_1.sql").read_text("utf-8")
        )
    (said,) = run_mounted(mount, _STARTER, path)
    assert "is from an earlier version and read-only" in said


@pytest.mark.process
async def test_a_read_only_store_is_searched_without_an_index(
    path: Path,
) -> None:
    folder = path.parent
    mount = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    store = await SessionStore.open(path)
    await store.create(
        "s1", "/shop", [], [SessionStarted("/shop"), said("a cart"), said("no")]
    )
    await store.aclose()
    assert run_mounted(mount, _SEARCHER, path) == ["[2]"]
    assert not list(folder.glob("*.search-*"))


@pytest.mark.process
def test_a_full_disk_at_startup_is_reported_as_full(path: Path) -> None:
    for size in ("size=4k", "size=8k", "size=12k", "size=40k", "nr_inodes=1"):
        home = path.parent / "home"
        (said,) = run_mounted(
            f"mount -t tmpfs -o {size} none {path.parent}", _STARTER, home / path.name
        )
        assert "is full" in said
        assert str(home) in said


async def test_waiting_for_another_processes_lock_does_not_block_the_event_loop(
    path: Path,
) -> None:
    store = await SessionStore.open(path)
    await store.create("s1", "/shop", [], [SessionStarted("/shop")])
    with (
        anyio.fail_after(20),
        closing(sqlite3.connect(path, isolation_level=None)) as holder,
    ):
        holder.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            group.start_soon(store.append, "s1", 1, [NoteAdded("msg", "waited")])
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
            holder.execute("COMMIT")
        assert (await store.record("s1")).head == 2
    await store.aclose()


async def test_a_deletion_that_waits_for_a_reader_does_not_delay_shutdown(
    path: Path,
) -> None:
    store = await SessionStore.open(path)
    await store.create("s1", "/shop", [], [SessionStarted("/shop")])
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchall()
        store.begin_shutdown()
        # A process that is ending waits only for a moment, far shorter than one that
        # continues.
        with anyio.move_on_after((LAST_SECONDS + BUSY_SECONDS) / 2) as in_time:
            await store.delete("s1")
        assert not in_time.cancel_called
        assert (await store.list()).sessions == ()
        reader.execute("COMMIT")
    await store.aclose()
    assert not path.with_name(f"{path.name}-wal").exists()
