"""`GuardedHook`: a project's hook, which runs only for as long as its files are what the user has allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anyio import to_thread

from acp_agent.errors import HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.contract import Hook, OnError, Origin, Services
from acp_agent.hooks.events import EventName, HookEvent
from acp_agent.hooks.outcomes import Outcome

CHANGED = "The project's hooks have changed since you allowed them; the next prompt asks you about them."


@frozen
class GuardedHook:
    """:ivar unchanged: looks at the files, right before each run; called in a worker thread."""

    hook: Hook
    unchanged: Callable[[], bool]

    @property
    def name(self) -> str:
        """The hook's own, as all that follows."""
        return self.hook.name

    @property
    def origin(self) -> Origin:
        """Whose it is."""
        return self.hook.origin

    @property
    def source(self) -> str:
        """Where it stands."""
        return self.hook.source

    @property
    def file(self) -> Path | None:
        """The file that it stands in."""
        return self.hook.file

    @property
    def events(self) -> frozenset[EventName]:
        """The events that it may want to hear of."""
        return self.hook.events

    @property
    def time_limit(self) -> float:
        """Seconds that it may take."""
        return self.hook.time_limit

    @property
    def on_error(self) -> OnError:
        """What its failure means."""
        return self.hook.on_error

    def wants(self, event: HookEvent) -> bool:
        """Whether it is to be asked about this very event."""
        return self.hook.wants(event)

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """Say what it wants.

        :raises HookError: it failed; or its files are others now, and it was not run.
        """
        if not await to_thread.run_sync(self.unchanged, abandon_on_cancel=True):
            raise HookError(CHANGED)
        return await self.hook.run(event, services)
