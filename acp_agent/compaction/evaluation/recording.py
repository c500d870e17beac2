"""A session as it was recorded, the places where it is cut for a measurement, and the conversation at such a place."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from acp_agent.compaction.cuts import legal_cuts
from acp_agent.compaction.estimate import estimate_message, estimate_messages, estimate_text
from acp_agent.compaction.state import ConversationState
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import AssistantMessage, Message, UserMessage
from acp_agent.frozen import frozen

SHARES = (0.4, 0.6, 0.8)
FILLED = 0.8
"""Share of a window that is chosen to fit: the agent's own threshold."""
LEAST_BEFORE, LEAST_BEHIND = 4, 2
MAX_OUTPUT_TOKENS = 8_192


@frozen
class Recording:
    """A recorded session, whose messages a provider would take.

    :ivar cwd: the working directory, absolute; empty where it is not known.
    :ivar notice: a sentence about a line that could not be read.
    """

    name: str
    form: str
    entries: tuple[Entry, ...]
    system: str = ""
    cwd: str = ""
    notice: str = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages without their numbers."""
        return tuple(entry.message for entry in self.entries)


@frozen
class Point:
    """A place in a recording: `cut` messages stand before it, about `share` of the tokens."""

    share: float
    cut: int


def points(recording: Recording, shares: Sequence[float]) -> tuple[Point, ...]:
    """Return the legal places that are nearest to these shares of the recording's tokens, each once."""
    sizes = list(accumulate(estimate_message(message) for message in recording.messages))
    places = [cut for cut in legal_cuts(recording.entries, None) if LEAST_BEFORE <= cut <= len(sizes) - LEAST_BEHIND]
    found: dict[int, Point] = {}
    for share in sorted(shares) if places else ():
        cut = min(places, key=lambda place: (abs(sizes[place - 1] - share * sizes[-1]), place))
        found.setdefault(cut, Point(share, cut))
    return tuple(found.values())


def state_at(recording: Recording, cut: int, window: int | None = None) -> ConversationState:
    """Return the conversation at a point. A turn that had not ended there is still running.

    :param window: tokens of the model's window; where not given, one that the conversation fills by `FILLED`.
    """
    entries = recording.entries[:cut]
    messages = [entry.message for entry in entries]
    window = window or math.ceil((estimate_text(recording.system) + estimate_messages(messages)) / FILLED)
    output = min(MAX_OUTPUT_TOKENS, window // 4)
    state = ConversationState.of(
        messages, window=window, system=recording.system, max_output_tokens=output, cwd=recording.cwd
    )
    prompts = [entry.seq for entry in entries if isinstance(entry.message, UserMessage) and not entry.note]
    ended = isinstance(messages[-1], AssistantMessage) and not messages[-1].tool_calls
    return replace(state, entries=entries, turn_from=None if ended or not prompts else prompts[-1])
