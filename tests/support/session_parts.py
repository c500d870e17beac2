"""What the parts of a session are built of, without a session: a stored log, its settings and a client in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from acp_agent.app import DATABASE, build_services
from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CallView, SessionStarted
from acp_agent.conversation.updates import Update
from acp_agent.session.client import Answer
from acp_agent.session.log import SessionLog
from acp_agent.session.notices import Notices
from acp_agent.session.services import Services
from acp_agent.session.state import SessionState
from acp_agent.storage.store import SessionStore


class Client(TerminalClient):
    """Keeps what it is shown, and allows every project."""

    def __init__(self, shown: list[Update]) -> None:
        super().__init__()
        self._shown = shown

    async def show(self, update: Update) -> None:
        self._shown.append(update)

    async def ask_trust(self, call_id: str, name: str, view: CallView, projects: Sequence[str], text: str) -> Answer:
        return "allow_always"


@dataclass(slots=True)
class Parts:
    services: Services
    state: SessionState
    client: Client
    notices: Notices
    shown: list[Update] = field(default_factory=list[Update])


@asynccontextmanager
async def parts(tmp_path: Path) -> AsyncGenerator[Parts]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    store = await SessionStore.open(tmp_path / "state" / DATABASE)
    try:
        services = build_services(store, {"HOME": str(tmp_path), "ACP_AGENT_HOME": str(tmp_path / "state")})
        logged = await store.create("s", str(project), [], [SessionStarted(str(project))])
        log = SessionLog(store, "s", Context.from_log(logged))
        state = SessionState("s", (project,), services.settings(project), log)
        shown: list[Update] = []
        client = Client(shown)
        yield Parts(services, state, client, Notices(client.show, as_messages=False), shown)
    finally:
        await store.aclose()
