"""A turn whose prompt was refused leaves the context, with what was compacted in it.

Loaded when that happens. Knows nothing of why it was refused, which the turn's error says.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from acp_agent.conversation.events import NoteAdded, TurnRefused
from acp_agent.conversation.messages import new_id
from acp_agent.errors import AgentError
from acp_agent.turn.updates import AgentSaid

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

TAKEN_BACK = (
    "The prompt was refused and has left the context, and the compaction of its turn with it: the context is again "
    "what it was before the prompt. It is compacted anew when that is due."
)

_log = logging.getLogger(__name__)


async def leave_out(host: SessionHost, turn_from: int) -> None:
    """Take a turn out of the context, and tell the user what the context is now. What was compacted in it comes back,
    since a summary may say again what was refused.

    :param turn_from: seq of its prompt.
    """
    undone = any(seq > turn_from for seq in host.context.swaps)
    note = NoteAdded(new_id("msg"), TAKEN_BACK)
    # A cancel that comes now is too late: what is in the log is what the user is told.
    with anyio.CancelScope(shield=True):
        await host.append(TurnRefused(turn_from), *([note] if undone else []))
        if undone:
            await host.show(AgentSaid(note.message_id, note.text))
        try:
            await host.show_usage()
        except AgentError as error:
            _log.info("no usage to show after a refused turn of %s: %s", host.session_id, error)
