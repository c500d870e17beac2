"""Where recordings are cut for a measurement, and the conversation as it stood there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from acp_agent.compaction.estimate import estimate_message, estimate_messages, estimate_text
from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.compaction.invariants import legal_cuts
from acp_agent.compaction.state import ConversationState
from acp_agent.conversation.messages import AssistantMessage, UserMessage
from acp_agent.frozen import frozen

SHARES = (0.4, 0.6, 0.8)
FILLED = 0.8
"""Of a window that is chosen to fit: as full as the agent's own threshold lets it become."""
LEAST_BEFORE, LEAST_BEHIND = 4, 2
MAX_OUTPUT_TOKENS = 8_192


@frozen
class Point:
    """A place in a recording.

    :ivar share: of the messages' tokens that was asked to stand before it.
    :ivar cut: so many messages stand before it.
    """

    share: float
    cut: int


def points(recording: Recording, shares: Sequence[float]) -> tuple[Point, ...]:
    """The legal places that are nearest to these shares of the recording's tokens, each once.

    Some messages have to stand on both sides, so a short recording may have none.
    """
    sizes = list(accumulate(estimate_message(entry.message) for entry in recording.entries))
    count = len(sizes)
    places = [cut for cut in legal_cuts(recording.entries, None) if LEAST_BEFORE <= cut <= count - LEAST_BEHIND]
    found: dict[int, Point] = {}
    for share in sorted(shares):
        if places:
            cut = min(places, key=lambda place: (abs(sizes[place - 1] - share * sizes[-1]), place))
            found.setdefault(cut, Point(share, cut))
    return tuple(found.values())


def state_at(recording: Recording, cut: int, window: int | None = None) -> ConversationState:
    """The conversation at a point, as the service takes it. A turn that had not ended there is still running.

    :param window: tokens of the model's window; where not given, one that the conversation fills as far as an automatic
        compaction lets it.
    """
    entries = recording.entries[:cut]
    used = estimate_text(recording.system) + estimate_messages(entry.message for entry in entries)
    window = window or math.ceil(used / FILLED)
    state = ConversationState.of(
        (entry.message for entry in entries),
        window=window,
        system=recording.system,
        max_output_tokens=min(MAX_OUTPUT_TOKENS, window // 4),
        cwd=recording.cwd,
    )
    prompts = [entry.seq for entry in entries if isinstance(entry.message, UserMessage) and not entry.note]
    last = entries[-1].message
    ended = isinstance(last, AssistantMessage) and not last.tool_calls
    return replace(state, entries=entries, turn_from=None if ended or not prompts else prompts[-1])
