"""The parts of a context: messages in their places, an answer that still streams, what a refusal restores.

Plain values; `context.py` folds the log into them, and re-exports these names.
"""

from __future__ import annotations

from acp_agent.conversation.events import PartialAnswer, UserPrompted
from acp_agent.conversation.memory import Memory
from acp_agent.conversation.messages import (
    Audio,
    Image,
    Message,
    Resource,
    ResourceLink,
    Usage,
    UserMessage,
    UserPart,
)
from acp_agent.frozen import frozen


@frozen
class RecipePrompt(UserMessage):
    """A recipe's text, which the model gets in place of what the user typed to run it.

    Goes wherever a message goes: a prompt that a compaction keeps, shortens or brings back stays one.

    :ivar typed: without the contents of what was attached, which are in `parts`.
    """

    typed: tuple[UserPart, ...] = ()


@frozen
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

    @classmethod
    def of_prompt(cls, seq: int, event: UserPrompted) -> tuple[Entry, ...]:
        """Return what a prompt adds to the context: one entry, or none for a command that the model never sees."""
        if event.sent is None:
            return (cls(seq, UserMessage(event.message_id, event.shown)),) if event.shown else ()
        typed = tuple(_address(part) for part in event.shown if not isinstance(part, Image | Audio))
        return (cls(seq, RecipePrompt(event.message_id, event.sent, typed=typed)),) if event.sent else ()

    @property
    def typed(self) -> tuple[UserPart, ...]:
        """What of the message the user typed: of a recipe what runs it, and nothing of what others wrote."""
        if self.summary or self.note or not isinstance(self.message, UserMessage):
            return ()
        return self.message.typed if isinstance(self.message, RecipePrompt) else self.message.parts


@frozen
class Partial:
    """An answer that was streaming when the log last heard of it."""

    message_id: str
    text: str
    thinking: str

    @classmethod
    def extended(cls, partial: Partial | None, event: PartialAnswer) -> Partial:
        """Return what the log holds of the answer after one more checkpoint."""
        if partial is None or partial.message_id != event.message_id:
            return cls(event.message_id, event.text, event.thinking)
        return cls(event.message_id, partial.text + event.text, partial.thinking + event.thinking)


@frozen
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


def _address(part: UserPart) -> UserPart:
    return ResourceLink(part.uri, part.uri, part.mime_type) if isinstance(part, Resource) else part
