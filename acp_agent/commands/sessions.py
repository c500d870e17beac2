"""`acp-agent sessions`: the list of all sessions, and removing some."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime

from acp_agent.app import open_database
from acp_agent.config import home_dir
from acp_agent.session.originals import remove_originals
from acp_agent.session.transcript import remove_transcript


async def run(arguments: argparse.Namespace) -> int:
    """List the sessions, newest first; or remove those that are named.

    :raises SessionNotFoundError: one to be removed is not there.
    """
    store = await open_database(os.environ)
    try:
        if arguments.action == "rm":
            for session_id in arguments.ids:
                await store.record(session_id)
                await store.delete(session_id)
                remove_transcript(home_dir(os.environ), session_id)
                remove_originals(home_dir(os.environ), session_id)
                print(f"Removed {session_id}.")
            return 0
        cursor: str | None = None
        while True:
            page = await store.list(cursor=cursor)
            for record in page.sessions:
                changed = datetime.fromtimestamp(record.updated_at / 1000, UTC).astimezone()
                print(f"{record.session_id}  {changed:%Y-%m-%d %H:%M}  {record.cwd}  {record.title or '(untitled)'}")
            cursor = page.next_cursor
            if cursor is None:
                return 0
    finally:
        await store.aclose()
