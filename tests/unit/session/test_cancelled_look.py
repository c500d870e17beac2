"""A prompt that is cancelled while the configuration is being read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from acp_agent.app import build_services
from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.config import Settings
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CallView, SessionStarted
from acp_agent.conversation.updates import Update
from acp_agent.session.client import Answer
from acp_agent.session.log import SessionLog
from acp_agent.session.notices import Notices
from acp_agent.session.state import SessionState
from acp_agent.session.trust import SessionTrust
from acp_agent.session.workspace import ProjectInstructions
from acp_agent.storage.store import SessionStore
from support.stores import opened


class Client(TerminalClient):
    """Shows nothing, and allows every project."""

    async def show(self, update: Update) -> None:
        pass

    async def ask_trust(
        self,
        call_id: str,
        name: str,
        view: CallView,
        projects: Sequence[str],
        text: str,
    ) -> Answer:
        return "allow_always"


async def test_configuration_read_for_a_cancelled_prompt_is_read_again(
    tmp_path: Path,
) -> None:
    config = tmp_path / "project" / ".acp-agent" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("hooks: {Stop: [{command: 'true'}]}\n")
    project = config.parents[1]
    async with opened(lambda: SessionStore.open(tmp_path / "sessions.db")) as store:
        services = build_services(
            store, {"HOME": str(tmp_path), "ACP_AGENT_HOME": str(tmp_path / "state")}
        )
        logged = await store.create(
            "s", str(project), [], [SessionStarted(str(project))]
        )
        log = SessionLog(store, "s", Context.from_log(logged))
        state = SessionState("s", (project,), services.settings(project), log)
        client = Client()
        notices = Notices(client.show, as_messages=False)
        assert await SessionTrust(
            state, services, client, notices, ProjectInstructions()
        ).settle()
        state.settings = services.settings(None)
        started = threading.Event()
        go_on = threading.Event()

        def settings(cwd: Path | None, root: Path | None = None) -> Settings:
            started.set()
            go_on.wait(5)
            return services.settings(cwd)

        trust = SessionTrust(
            state,
            replace(services, settings=settings),
            client,
            notices,
            ProjectInstructions(),
        )
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(trust.settle)
                await to_thread.run_sync(started.wait)
                tasks.cancel_scope.cancel()
            assert not state.settings.hooks
            go_on.set()
            await trust.settle()
            assert [hook.origin for hook in state.settings.hooks] == ["project"]
