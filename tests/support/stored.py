"""What an agent has written to its database and its log file, read and damaged from
outside while it runs.

await wait_logged(home, "partial_answer")
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio


async def wait_logged(
    home: Path, kind: str, count: int = 1, timeout: float = 5
) -> None:
    """Wait until the logs of all sessions of an agent's `home` hold so many events of a
    kind, such as `turn_ended`.
    """
    uri = f"file:{home / 'state' / 'sessions.db'}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as database, anyio.fail_after(timeout):
        found = "SELECT count(*) FROM events WHERE kind = ?"
        while database.execute(found, (kind,)).fetchone()[0] < count:  # noqa: ASYNC110 - a database wakes nobody
            await anyio.sleep(0.01)


async def log_file_with(home: Path, text: str, timeout: float = 30) -> str:
    """Wait until the agent's log file says this, and return all of it."""
    log = home / "state" / "logs" / "acp-agent.log"
    with anyio.fail_after(timeout):
        while text not in (found := log.read_text() if log.exists() else ""):  # noqa: ASYNC110 - a file wakes nobody
            await anyio.sleep(0.01)
    return found


def damage_sessions(home: Path) -> None:
    """Leave no row of the sessions as the agent has written it: directories that are no
    JSON.
    """
    _damage(home, "UPDATE sessions SET additional_directories = 'damaged'")


def damage_texts(home: Path, old: str, new: str) -> None:
    """Put another text in the place of one in every event of the logs."""
    _damage(
        home,
        f"DROP TRIGGER IF EXISTS events_are_final; UPDATE events SET data = replace(data, '{old}', '{new}')",
    )


def refuse_events(home: Path, kind: str) -> None:
    """Let the database refuse events of this kind from now on."""
    _damage(
        home,
        f"CREATE TRIGGER refused BEFORE INSERT ON events WHEN NEW.kind = '{kind}' "
        "BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )


def stored_kinds(home: Path) -> list[str]:
    """Return the kinds of all events that are stored, session by session, in order."""
    path = home / "state" / "sessions.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return [
            kind
            for (kind,) in database.execute(
                "SELECT kind FROM events ORDER BY session, seq"
            )
        ]


def outside_turns(home: Path) -> list[str]:
    """Return what of answers is stored where no turn is open: a kill there would leave
    calls without a result.
    """
    found = list[str]()
    is_open = False
    for kind in stored_kinds(home):
        if kind in ("user_prompted", "turn_ended", "session_started"):
            is_open = kind == "user_prompted"
        elif (
            kind in ("partial_answer", "assistant_answered", "tool_returned")
            and not is_open
        ):
            found.append(kind)
    return found


def _damage(home: Path, script: str) -> None:
    with closing(sqlite3.connect(home / "state" / "sessions.db")) as database:
        database.executescript(script)
