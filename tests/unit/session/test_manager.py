"""A session whose client is gone while it is opened is not left behind."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from acp_agent.app import build_services
from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.session.manager import SessionManager
from acp_agent.storage.store import SessionStore


class Gone(TerminalClient):
    """A client that is gone when it is first called."""

    def __getattribute__(self, name: str) -> object:
        if name == "shows_notices":
            raise BrokenPipeError("nobody reads")
        return super().__getattribute__(name)


async def test_no_session_is_left_if_its_client_is_gone_at_creation_or_fork(
    tmp_path: Path,
) -> None:
    store = await SessionStore.open(tmp_path / "home" / "sessions.db")
    try:
        async with anyio.create_task_group() as tasks:
            manager = SessionManager(
                build_services(store, {"ACP_AGENT_HOME": str(tmp_path / "home")}), tasks
            )
            session = await manager.new(str(tmp_path), [], lambda _: TerminalClient())
            with pytest.raises(BrokenPipeError):
                await manager.new(str(tmp_path), [], lambda _: Gone())
            with pytest.raises(BrokenPipeError):
                await manager.fork(
                    session.session_id, str(tmp_path), [], lambda _: Gone()
                )
            page = await store.list(limit=10, archived="include")
            assert [record.session_id for record in page.sessions] == [
                session.session_id
            ]
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()
