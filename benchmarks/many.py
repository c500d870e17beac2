"""`python -m benchmarks.many DATABASE SESSIONS DIRECTORIES`: a database with many
sessions, made by the agent.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from acp_agent.conversation.events import SessionStarted, TitleChanged
from acp_agent.storage.store import SessionStore


async def make(database: Path, sessions: int, directories: int) -> None:
    """Make them, each with a title, in the directories in turn."""
    store = await SessionStore.open(database)
    for number in range(sessions):
        cwd = f"/home/ada/project{number % directories}"
        name = f"sess_{number * 7919 % sessions:032}"
        await store.create(
            name,
            cwd,
            [],
            [SessionStarted(cwd), TitleChanged(f"Mend part {number} of the shop")],
        )
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
