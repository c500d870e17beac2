"""What a context is made of: messages in their places, an answer that still streams, what a refusal brings back.

Plain values; how the log becomes a context is `context.py`'s matter, which gives these names to everyone else.
"""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.conversation.events import PartialAnswer
from acp_agent.conversation.memory import Memory
from acp_agent.conversation.messages import Message, Usage


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in its place in the log; a summary stands at the seq of its swap, before all that it left in place.

    :ivar note: the agent wrote it for the model; the user did not say it.
    :ivar shortened: the log holds more of it.
    """

    seq: int
    message: Message
    summary: bool = False
    note: bool = False
    shortened: bool = False


@dataclass(frozen=True, slots=True)
class Partial:
    """An answer that was streaming when the log last heard of it."""

    message_id: str
    text: str
    thinking: str

    @classmethod
    def extended(cls, partial: Partial | None, event: PartialAnswer) -> Partial:
        """What the log holds of the answer after one more checkpoint."""
        if partial is None or partial.message_id != event.message_id:
            return cls(event.message_id, event.text, event.thinking)
        return cls(event.message_id, partial.text + event.text, partial.thinking + event.thinking)


@dataclass(frozen=True, slots=True)
class BeforeTurn:
    """The part of a context that a refusal brings back."""

    entries: tuple[Entry, ...]
    usage: Usage | None
    baseline: int
    baseline_seq: int
    memory: Memory
    swaps: tuple[int, ...]
    fold_from: int
    restored: bool
