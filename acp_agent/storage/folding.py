"""From where a context has to be folded so that it equals the fold of the whole log."""

from __future__ import annotations

import sqlite3

from acp_agent.conversation.codec import decode
from acp_agent.conversation.events import ContextRestored, ContextSwapped, Event, LoggedEvent, TurnRefused

_LAST_CHANGE = """
    SELECT seq, at, kind, data FROM events
    WHERE session = ? AND seq <= ? AND kind IN ('context_swapped', 'context_restored', 'turn_refused')
    ORDER BY seq DESC LIMIT 1
"""


def fold_start(logged: LoggedEvent) -> int | None:
    """Seq at which a fold may begin that passes this entry; None for one that has to begin before it.

    A compaction carries what was before its tail; a restored context holds all of itself.
    """
    match logged.event:
        case ContextSwapped() as swap:
            return swap.fold_from or min(swap.keep_from, logged.seq)
        case ContextRestored():
            return logged.seq
        case _:
            return None


def changes_fold(event: Event) -> bool:
    """Whether the context that follows is folded from another place than the one before."""
    return isinstance(event, ContextSwapped | ContextRestored | TurnRefused)


def fold_from(connection: sqlite3.Connection, session: int, seq: int) -> int:
    """Seq at which the fold begins of the context as it was after entry `seq`.

    Behind a refused turn this is where it was before that turn: what was compacted within it counts no more. The last
    change is looked for backwards, through entries that the fold has to read anyway.
    """
    while True:
        row = connection.execute(_LAST_CHANGE, (session, seq)).fetchone()
        if row is None:
            return 1
        at, when, kind, data = row
        event = decode(kind, data, at)
        if isinstance(event, TurnRefused):
            seq = min(event.from_seq, at) - 1
            continue
        return fold_start(LoggedEvent(at, when, event)) or 1
