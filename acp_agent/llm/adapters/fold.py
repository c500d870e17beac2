"""`Fold`, which combines the events of a stream into one answer, and code that the
folds of all APIs share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from acp_agent.conversation.messages import (
    AssistantPart,
    CompactedBlock,
    JsonObject,
    StopReason,
    ToolCall,
    Usage,
)
from acp_agent.conversation.strict_json import get_int, get_object
from acp_agent.frozen import frozen
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta

_STOP_REASONS: dict[str, StopReason] = {
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "length": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
    "pause_turn": "pause_turn",
    "model_context_window_exceeded": "context_overflow",
}
"""The agent's stop reasons, keyed by the APIs' names. Any other name means `tool_use`
for an answer with calls, otherwise `end_turn`.
"""


@frozen
class Dropped:
    """Reasoning of the request that the provider dropped, according to its answer.

    :ivar place: its position in the request: a path, or the id of its item.
    """

    place: str
    reason: str


class Fold:
    """Collects the events of one answer.

    :ivar complete: whether the event that ends a complete answer has arrived.
    :ivar dropped: reasoning that the provider dropped from the request.
    :cvar ends_with_done: whether other events may come between that event and `[DONE]`.
    """

    ends_with_done: ClassVar[bool] = False
    complete = False
    dropped: tuple[Dropped, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether no part of the answer itself has arrived. Token counts and
        similar events are not part of the answer.
        """
        raise NotImplementedError

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Process one event and return the deltas to show.

        :raises CallFailed: if the event is an error.
        :raises ArgumentsTooLongError: if a call's arguments are too long.
        """
        raise NotImplementedError

    def close(self, *, done: bool) -> None:
        """Handle the end of the stream. Set `complete` if only the final event is
        missing.

        :param done: whether the stream ended with `[DONE]`.
        """

    def answer(self) -> Answered:
        """Return the answer. Call this after `complete` is set, or after a call's
        arguments were too long.
        """
        raise NotImplementedError


def build_answer(
    parts: Sequence[AssistantPart],
    reason: str,
    usage: Usage,
    compacted: CompactedBlock | None = None,
    explanation: str = "",
) -> Answered:
    """Return an answer.

    :param reason: the API's stop reason.
    :param explanation: see `Answered`.
    """
    calls = any(isinstance(part, ToolCall) for part in parts)
    stop = _STOP_REASONS.get(reason, "tool_use" if calls else "end_turn")
    return Answered(tuple(parts), stop, usage, compacted, explanation=explanation)


def openai_usage(
    usage: JsonObject, asked: str, answer: str, cost: float | None = None
) -> Usage:
    """Return the usage from one of OpenAI's two formats, in which cached tokens are
    part of the input.

    :param asked: the prefix of the input's fields: `input` or `prompt`.
    :param answer: the prefix of the output's fields: `output` or `completion`.
    """
    details = get_object(usage, f"{asked}_tokens_details")
    read = get_int(details, "cached_tokens")
    written = get_int(details, "cache_write_tokens")
    fresh = max(0, get_int(usage, f"{asked}_tokens") - read - written)
    return Usage(fresh, get_int(usage, f"{answer}_tokens"), read, written, cost)
