"""What a session's first turn needs of modules and of what is made with them, loaded beside the loop.

On the loop it would take 0.1 s and more, in which neither the end of the connection nor a cancel is seen. An SDK is the
adapters' to load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import anyio.to_thread

from acp_agent.importing import given_up_at_the_end
from acp_agent.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

_one_at_a_time = threading.Lock()
"""Sessions share the tools, and pydantic does not make one model's schema in two threads."""


class SessionLoading:
    """Loads what one session's turns need, except an SDK."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._done = False

    async def load(self) -> None:
        """Have it loaded: once, and in a worker thread, for which nobody waits that is cancelled."""
        if not self._done:
            models = self._host.models
            load_provider = partial(models.load, await models.name(self._host.model))
            await anyio.to_thread.run_sync(_load_for_a_turn, self._host.tools, load_provider, abandon_on_cancel=True)
            self._done = True

    async def prewarm(self) -> None:
        """Load it, and what the first request needs besides, so that the first prompt does not wait for it.

        :raises AgentError: see `SessionModels.prewarm`.
        """
        await self.load()
        _ = self._host.requests.definitions
        _ = self._host.compaction
        await self._host.models.prewarm(self._host.context.model)


def _load_for_a_turn(tools: ToolRegistry, load_provider: Callable[[], None]) -> None:
    """Load it; run this in a thread.

    :param tools: those whose schemas a request holds.
    :param load_provider: loads the adapter of the model that will be asked.
    """
    with _one_at_a_time, given_up_at_the_end():
        import_module("acp_agent.secrets.forms")  # what is logged of a turn is searched with it
        import_module("acp_agent.session.compact.control")
        from acp_agent.session.hooking import load_modules

        load_modules()
        load_provider()
        for tool in tools:
            _ = tool.input_schema
