"""What the client said it can do, reduced to what this agent asks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp_agent.protocol.v1 import ClientCapabilities


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Nothing is sent to a client that did not advertise it.

    :ivar compaction: `compaction_update` and `compaction_summary_chunk`.
    :ivar notices: `notice`.
    """

    read_text_file: bool = False
    write_text_file: bool = False
    terminal: bool = False
    compaction: bool = False
    notices: bool = False

    @classmethod
    def of(cls, wire: ClientCapabilities) -> Capabilities:
        """Read them off `initialize`."""
        session = wire.session
        return cls(
            read_text_file=wire.fs.read_text_file,
            write_text_file=wire.fs.write_text_file,
            terminal=wire.terminal,
            compaction=session is not None and session.compaction is not None,
            notices=session is not None and session.notices is not None,
        )
