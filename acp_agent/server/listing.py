"""`session/list`: part of the list of all sessions, in the words of the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from acp_agent.errors import InvalidParamsError
from acp_agent.jsonrpc.messages import JsonObject
from acp_agent.protocol.v1 import results
from acp_agent.session.manager import SessionManager


async def list_sessions(
    manager: SessionManager, cwd: str | None, cursor: str | None, archived: str = "exclude"
) -> JsonObject:
    """Sessions, newest first.

    :param cwd: of this directory alone; None for those of all.
    :param cursor: where the part begins; None for the beginning.
    :param archived: which of them by whether they are archived: `exclude`, `include` or `only`.
    :raises InvalidParamsError: `cwd` is relative, there is no such filter, or the cursor is not one of ours.
    """
    if cwd is not None and not Path(cwd).is_absolute():
        raise InvalidParamsError(f"session/list: cwd {cwd!r} is not an absolute path.")
    if archived not in ("exclude", "include", "only"):
        raise InvalidParamsError(
            f"session/list: archived is {archived!r}, and can be `exclude`, `include` or `only` here."
        )
    page = await manager.list(None if cwd is None else str(Path(cwd)), cursor, archived)
    rows = [
        results.session_info(
            record.session_id,
            record.cwd,
            title=record.title,
            updated_at=datetime.fromtimestamp(record.updated_at / 1000, UTC).isoformat(),
            additional_directories=record.additional_directories or None,
            archived=record.archived,
        )
        for record in page.sessions
    ]
    return results.list_sessions_result(rows, next_cursor=page.next_cursor)
