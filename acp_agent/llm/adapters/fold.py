"""`Fold`, which makes one answer of the events of a stream, and what the folds of all APIs share."""

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
"""By the APIs' words; any other is the end of a turn, or of the calls in it."""


@frozen
class Dropped:
    """Reasoning of the request that the provider left out, as the answer says.

    :ivar place: where it stood in the request: a path, or the id of its item.
    """

    place: str
    reason: str


class Fold:
    """Collects the events of one answer.

    :ivar complete: whether the event that ends every whole answer was seen.
    :ivar dropped: reasoning that the provider dropped from the request.
    :cvar ends_with_done: whether more may come between that event and `[DONE]`.
    """

    ends_with_done: ClassVar[bool] = False
    complete = False
    dropped: tuple[Dropped, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing of the answer itself has arrived yet, whatever events have, such as token counts."""
        raise NotImplementedError

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Take one event and return what can be shown of it.

        :raises CallFailed: it is an error.
        :raises ArgumentsTooLongError: a call's arguments are too long.
        """
        raise NotImplementedError

    def close(self, *, done: bool) -> None:
        """Handle the end of the stream. Set `complete` if the answer is whole although its final event is missing.

        :param done: whether the stream ended with `[DONE]`.
        """

    def answer(self) -> Answered:
        """Return the answer, once `complete` or once a call's arguments were too long."""
        raise NotImplementedError


def build_answer(
    parts: Sequence[AssistantPart],
    reason: str,
    usage: Usage,
    compacted: CompactedBlock | None = None,
    explanation: str = "",
) -> Answered:
    """Return an answer.

    :param reason: why it stopped, in the API's word.
    :param explanation: see `Answered`.
    """
    calls = any(isinstance(part, ToolCall) for part in parts)
    stop = _STOP_REASONS.get(reason, "tool_use" if calls else "end_turn")
    return Answered(tuple(parts), stop, usage, compacted, explanation=explanation)


def openai_usage(usage: JsonObject, asked: str, answer: str, cost: float | None = None) -> Usage:
    """Return the tokens in one of OpenAI's two forms, in which those of the cache are part of the input.

    :param asked: `input` or `prompt`, and `answer` is `output` or `completion`.
    """
    details = get_object(usage, f"{asked}_tokens_details")
    read, written = get_int(details, "cached_tokens"), get_int(details, "cache_write_tokens")
    fresh = max(0, get_int(usage, f"{asked}_tokens") - read - written)
    return Usage(fresh, get_int(usage, f"{answer}_tokens"), read, written, cost)
