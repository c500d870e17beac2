"""`RecallIndex`: keeps the index of the `recall` tool up to date while no turn is
running.

Only compacted sessions need it, since in other sessions the model sees everything.
Indexing 17 MB takes several seconds, and the model's first search would otherwise have
to wait for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from acp_agent.errors import AgentError
from acp_agent.session.log import SessionLog

SHORTEST_PAUSE = 0.5
"""Seconds after the end of a turn until indexing begins. A prompt that follows at once,
from a script or a queue, would otherwise wait for the first batch.
"""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class RecallIndex:
    """Extends the index of one session's messages in the pauses between its turns."""

    _session: SessionLog
    _tasks: TaskGroup
    _pause: anyio.CancelScope | None = None

    def begin_pause(self) -> None:
        """Record that no turn is running, and index the messages that the model no
        longer sees.
        """
        self.end_pause()
        if self._session.context.swaps:
            self._pause = anyio.CancelScope()
            self._tasks.start_soon(self._extend, self._pause)

    def end_pause(self) -> None:
        """Record that a prompt has arrived, and stop after the current batch."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    async def _extend(self, pause: anyio.CancelScope) -> None:
        try:
            with pause:
                await anyio.sleep(SHORTEST_PAUSE)
                await self._session.prepare_search()
        except AgentError as error:
            _log.info("the messages were not indexed in a pause: %s", error)
        except Exception:
            _log.exception("indexing the messages in a pause failed inside the agent")
