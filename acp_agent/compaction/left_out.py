"""What stands in the place of what is left out: the line that says how much it was and where all of it can be read.

A text keeps its beginning and its end, with that line in its middle.
"""

from __future__ import annotations

from acp_agent.conversation.messages import Audio, CompactedBlock, Image, Resource, ResourceLink
from acp_agent.frozen import frozen
from acp_agent.llm.attached import is_picture
from acp_agent.llm.parts import address

SHORTEST_PIECE = 192
"""Characters to which a text is cut at most: the line about what is missing, and a little of both ends."""
HEAD_SHARE = 2 / 3
SNAP_SHARE = 1 / 4
"""Of a head or tail, given up so that it ends at the end of a line."""


@frozen
class LeftOut:
    """Says what is missing from an entry of the log."""

    seq: int
    recall: bool  # whether the model has the tool

    @property
    def where(self) -> str:
        """Where the whole of it is; empty where the model cannot get at it."""
        return f"; `recall` reads entry #{self.seq} in full" if self.recall else ""

    def middle(self, text: str) -> str:
        """The line in place of this text."""
        lines = text.count("\n")
        counted = f" ({lines:,} lines)" if lines else ""
        return f"[... {len(text):,} characters{counted} left out{self.where} ...]"

    def attachment(self, part: Image | Audio | Resource | ResourceLink | CompactedBlock) -> str:
        """The line in place of an image, a sound or a file."""
        kind = "image" if is_picture(part) else "sound" if isinstance(part, Audio) else "file"
        uri = None if isinstance(part, Audio | CompactedBlock) else part.uri
        named = f" {address(uri)[:80]}" if uri else ""
        return f"[{kind}{named} left out{self.where}]"


def cut_middle(text: str, limit: int, left_out: LeftOut) -> str:
    """A text of at most so many characters, its middle replaced by a line about it; as it is where that is no gain.

    :param limit: at least `SHORTEST_PIECE`.
    """
    if len(text) <= limit:
        return text
    room = limit - len(left_out.middle(text)) - 2
    head = text[: max(0, int(room * HEAD_SHARE))]
    tail = text[len(text) - max(0, room - len(head)) :]
    end = head.rfind("\n") + 1
    if end > len(head) * (1 - SNAP_SHARE):
        head = head[:end]
    begin = tail.find("\n") + 1
    if 0 < begin < len(tail) * SNAP_SHARE:
        tail = tail[begin:]
    line = left_out.middle(text[len(head) : len(text) - len(tail)])
    shorter = "\n".join(piece for piece in (head.removesuffix("\n"), line, tail) if piece)
    return shorter if len(shorter) < len(text) else text
