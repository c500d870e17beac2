"""`python -m tests.soak.killing NUMBER`: the agent, which is killed at a write to its
store.

Points are before each statement that writes and behind each commit, counted from 1 in
the life of the process.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from acp_agent.__main__ import main

WRITING = (
    "BEGIN IMMEDIATE",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "ALTER",
    "DROP",
    "PRAGMA WAL_CHECKPOINT",
)
points = count(1)
last = int(sys.argv.pop())


def pass_point() -> None:
    if next(points) == last:
        os.kill(os.getpid(), signal.SIGKILL)


class Killing(sqlite3.Connection):
    """A connection that passes the points."""

    _written = False

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return self._pass(sql.strip().upper(), partial(super().execute, sql, *values))

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return self._pass(
            sql.strip().upper(), partial(super().executemany, sql, *values)
        )

    def _pass(self, sql: str, execute: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        commits = sql == "COMMIT" and self._written
        if (
            commits
            or sql.startswith(WRITING)
            or (sql.startswith("PRAGMA") and "=" in sql)
        ):
            self._written = True
            pass_point()
        done = execute()
        if commits:
            self._written = False
            pass_point()
        return done


if __name__ == "__main__":
    sqlite3.connect = partial(sqlite3.connect, factory=Killing)
    main()
