"""`UnusableHook`: a hook that could not be loaded, of which nobody knows whether it guards the calls of tools."""

from __future__ import annotations

from pathlib import Path

from acp_agent.errors import HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.contract import TIME_LIMIT, OnError, Origin, Services
from acp_agent.hooks.events import EventName, HookEvent
from acp_agent.hooks.outcomes import Outcome


@frozen
class UnusableHook:
    """Fails at every call, so that a guard that broke before it could say so lets none run."""

    name: str
    origin: Origin
    source: str
    error: HookError
    file: Path | None = None
    events: frozenset[EventName] = frozenset({"before_tool_call"})
    time_limit: float = TIME_LIMIT
    on_error: OnError = "ask"

    def wants(self, event: HookEvent) -> bool:
        """Return True: nobody knows which calls it would have been asked about."""
        return True

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """Fail.

        :raises HookError: always.
        """
        remedy = "" if self.file is None else f" Mend it, or switch it off with an empty file {self.file}.disable."
        raise HookError(f"{self.error}{remedy}")


def unusable(
    error: HookError, origin: Origin, file: Path | None = None, source: str = ""
) -> tuple[tuple[UnusableHook], tuple[HookError]]:
    """Return a hook that could not be loaded, and why.

    :param file: the file of a hooks folder that it stands in.
    :param source: where it stands, where that is no such file.
    """
    place = source or str(file)
    return (UnusableHook(file.name if file else place, origin, place, error, file),), (error,)
