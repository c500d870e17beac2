"""A prompt that is cancelled while the configuration is read."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
from anyio import to_thread

from acp_agent.app import DATABASE, build_services
from acp_agent.config import Settings
from acp_agent.session.client import TrustQuestion
from acp_agent.session.host import SessionHost
from acp_agent.session.renewing import Renewing
from acp_agent.session.trusting import SessionTrust
from acp_agent.storage.sqlite import SqliteStore
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import Option, Update


@dataclass
class Host:
    """The session as those see it who read its settings, with a user who allows everything."""

    settings: Settings
    told: list[str] = field(default_factory=list[str])
    shown: list[Update] = field(default_factory=list[Update])

    @property
    def client(self) -> Host:
        return self

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        return "allow_always"

    @property
    def models(self) -> Host:
        return self

    def version(self) -> Hashable:
        return 1

    async def work_with(self, settings: Settings) -> None:
        await anyio.lowlevel.checkpoint()  # as where a summary is given up before
        self.settings = settings

    async def options(self) -> tuple[Option, ...]:
        return ()

    async def show(self, update: Update) -> None:
        self.shown.append(update)

    async def tell(self, text: str) -> None:
        self.told.append(text)


async def test_what_was_read_for_a_cancelled_prompt_is_read_again_for_the_next(tmp_path: Path) -> None:
    project = tmp_path / "project"
    config = project / ".acp-agent" / "config.yaml"
    config.parent.mkdir(parents=True)
    store = await SqliteStore.open(tmp_path / "state" / DATABASE)
    services = build_services(store, {"HOME": str(tmp_path), "ACP_AGENT_HOME": str(tmp_path / "state")})
    begun, go_on = threading.Event(), threading.Event()

    def settings(cwd: Path) -> Settings:
        begun.set()
        go_on.wait(5)
        return services.settings(cwd)

    host, before = Host(services.settings(project)), Host(services.settings(project))
    config.write_text("hooks: {Stop: [{command: 'true'}]}\n")
    assert await SessionTrust(cast(SessionHost, before), services, project).settle()
    trust = SessionTrust(cast(SessionHost, host), replace(services, settings=settings), project)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(trust.settle)
            await to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
        assert not host.settings.hooks
        go_on.set()
        await trust.settle()
        assert [hook.origin for hook in host.settings.hooks] == ["project"]
    await store.aclose()


async def test_settings_in_doubt_are_read_again_for_the_next_prompt_where_the_first_was_cancelled_meanwhile(
    tmp_path: Path,
) -> None:
    before, after = Settings(home=tmp_path), Settings(home=tmp_path, mode="plan")
    begun, go_on = threading.Event(), threading.Event()

    def read(cwd: Path) -> Settings:
        begun.set()
        go_on.wait(5)
        return after

    host = Host(before)
    renewing = Renewing(cast(SessionHost, host), read, tmp_path)
    renewing.doubt()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(renewing.renew)
            await to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
            go_on.set()
        assert host.settings is before
        for _ in range(2):
            await renewing.renew()
            assert host.settings is after
            assert len(host.shown) == 1  # what may be chosen, once
