"""`Adapter`, the interface of `ModelClient` to one API: encodes requests as HTTP calls, and folds the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Literal, TypeAlias

from acp_agent.accumulator import Accumulator
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    CompactedBlock,
    JsonObject,
    JsonValue,
    Message,
    StopReason,
    ToolCall,
    Usage,
)
from acp_agent.conversation.strict_json import get_int, get_object
from acp_agent.frozen import frozen
from acp_agent.llm.errors import CallFailed
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta

Omission: TypeAlias = Literal["native", "summaries"]
"""What of a request is left out once the API has refused it. `native`: what the API itself made earlier, which is the
thinking of its answers and its form of a compacted conversation, whose text is sent instead. `summaries`: the wish for
readable summaries of new thinking."""
Omissions: TypeAlias = frozenset[Omission]

_MAX_OPENINGS = 8
"""Conversations whose beginnings are kept; those of more are made anew each time."""
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


class Fold:
    """Collects the events of one answer.

    :ivar complete: whether the event that ends every whole answer was seen.
    :cvar ends_with_done: whether more may come between that event and `[DONE]`.
    """

    ends_with_done: ClassVar[bool] = False
    complete = False

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Take one event and return what can be shown of it.

        :raises CallFailed: it is an error.
        :raises ArgumentsTooLongError: a call's arguments are too long.
        """
        raise NotImplementedError

    def answer(self) -> Answered:
        """Return the answer, once `complete` or once a call's arguments were too long."""
        raise NotImplementedError


@frozen
class Call:
    """One request to the model, a POST.

    :ivar body: without what `opening` holds.
    :ivar streams: whether the answer is a stream of events; else it is one JSON object.
    :ivar opening: the JSON of the items that stand first in the member `conversation`, in pieces; may be empty.
    """

    path: str
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    streams: bool = True
    opening: tuple[bytes, ...] = ()
    conversation: str = "messages"

    @property
    def content(self) -> bytes:
        """Return the body as it is sent."""
        items, body = self.body.get(self.conversation), self.body
        if not self.opening or not isinstance(items, list):
            return to_json(body).encode()
        others = to_json({key: value for key, value in body.items() if key != self.conversation})
        behind = f",{to_json(items)[1:-1]}" if items else ""
        before = f'{others[:-1]},"{self.conversation}":['
        return b"".join((before.encode(), *self.opening, f"{behind}]}}".encode()))


class Adapter:
    """One API. Its methods take what is known of the model, and the parts that the API has refused.

    :cvar sdk: the SDK that sends its calls.
    :cvar refusals: by what can be left out of a request, words of the errors that refuse it.
    :cvar native_key: the member that marks a conversation which the API itself has compacted; empty where it cannot.
    :cvar keeps_user_messages: see `NativeCompaction`.
    :ivar models_path: where the models are listed, which needs a key and costs nothing.
    :ivar name: the provider's; what it made itself is sent back to it alone.
    """

    sdk: ClassVar[Literal["anthropic", "openai"]] = "openai"
    refusals: ClassVar[tuple[tuple[Omission, tuple[str, ...]], ...]] = ()
    native_key: ClassVar[str] = ""
    keeps_user_messages: ClassVar[bool] = False

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self.models_path = "/models"
        self._openings: dict[tuple[object, ...], Accumulator[Message, tuple[bytes, ...]]] = {}

    def call(self, request: ModelRequest, profile: ModelProfile, omissions: Omissions, prompt: str | None) -> Call:
        """Return the call that asks the model.

        :param prompt: has the API compact the messages, and is the prompt for its summary, empty for the API's own;
            only where there is a `native_key`.
        """
        raise NotImplementedError

    def fold(self) -> Fold:
        """Return what folds an answer."""
        raise NotImplementedError

    def window_path(self, model: str) -> str | None:
        """Return where the API says how large a model's window is; None where it does not."""
        return None

    def omission_for(self, failure: CallFailed, omissions: Omissions) -> Omission | None:
        """Return what to leave out of a request that the API refused with status 400, unless it is another error."""
        said = f"{failure.code} {failure.message}".lower()
        for part, words in self.refusals:
            if part not in omissions and any(word in said for word in words):
                return part
        return None

    def native_block(self, request: ModelRequest, omissions: Omissions) -> CompactedBlock | None:
        """Return what the API itself compacted last and takes back; None where there is nothing of it."""
        blocks = [
            part
            for message in request.messages[:1]  # a compaction's text stands first
            for part in message.parts
            if isinstance(part, CompactedBlock) and part.provider == self.name and self.native_key in part.data
        ]
        return blocks[-1] if blocks and "native" not in omissions else None

    def split(
        self, request: ModelRequest, encode: Callable[[tuple[Message, ...]], list[JsonObject]], *encoding: object
    ) -> tuple[tuple[bytes, ...], list[JsonObject]]:
        """Return the items of a conversation: the JSON of those that stand first, which is made once for all requests
        that continue this one, and the others, from the last two turns.

        :param encode: returns the items of some messages.
        :param encoding: what it depends on.
        """
        at = _last_turns(request.messages) if request.conversation_id else 0
        if not at:
            return (), encode(request.messages)

        def add(pieces: tuple[bytes, ...], added: tuple[Message, ...]) -> tuple[bytes, ...]:
            items = encode(added)
            return (*pieces, f"{',' if pieces else ''}{to_json(items)[1:-1]}".encode()) if items else pieces

        key = (request.conversation_id, *encoding)
        opening = self._openings.pop(key, None) or Accumulator[Message, tuple[bytes, ...]]((), add)
        self._openings[key] = opening  # at the end, so that the one that was not used for longest stands first
        if len(self._openings) > _MAX_OPENINGS:
            del self._openings[next(iter(self._openings))]
        return opening.over(request.messages[:at]), encode(request.messages[at:])


def _last_turns(messages: Sequence[Message]) -> int:
    """Return where the last two turns of a conversation begin: each behind what the model said."""
    turns = 0
    for at in range(len(messages) - 1, 0, -1):
        before = messages[at - 1]
        says = isinstance(before, AssistantMessage) and (before.tool_calls or before.text.strip())
        if says and not isinstance(messages[at], AssistantMessage):
            turns += 1
            if turns == 2:
                return at
    return 0


def to_json(value: JsonValue | list[JsonObject]) -> str:
    """Return a value as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def build_answer(
    parts: Sequence[AssistantPart], reason: str, usage: Usage, compacted: CompactedBlock | None = None
) -> Answered:
    """Return an answer.

    :param reason: why it stopped, in the API's word.
    """
    calls = any(isinstance(part, ToolCall) for part in parts)
    stop = _STOP_REASONS.get(reason, "tool_use" if calls else "end_turn")
    return Answered(tuple(parts), stop, usage, compacted)


def openai_usage(usage: JsonObject, asked: str, answer: str, cost: float | None = None) -> Usage:
    """Return the tokens in one of OpenAI's two forms, in which those of the cache are part of the input.

    :param asked: `input` or `prompt`, and `answer` is `output` or `completion`.
    """
    details = get_object(usage, f"{asked}_tokens_details")
    read, written = get_int(details, "cached_tokens"), get_int(details, "cache_write_tokens")
    fresh = max(0, get_int(usage, f"{asked}_tokens") - read - written)
    return Usage(fresh, get_int(usage, f"{answer}_tokens"), read, written, cost)


def wire_name(name: str) -> str:
    """Return the name of a call as a provider takes it back.

    A model may call a tool by a name that it made up (`functions.read`, an empty one), and every provider refuses a
    history with a name outside of `^[a-zA-Z0-9_-]{1,64}$`. The names of real tools stay as they are.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"
