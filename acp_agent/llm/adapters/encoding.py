"""`Encoder`, which puts messages into the form of an API, and `Call`, the request that holds them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonObject,
    JsonValue,
    Message,
    Thinking,
    name_of,
)
from acp_agent.conversation.surroundings import Feature
from acp_agent.frozen import frozen
from acp_agent.llm.binding import Prefix
from acp_agent.llm.provider import ModelRequest, Withheld
from acp_agent.llm.rules import ReasoningRules, rules_of

Features: TypeAlias = frozenset[Feature]


@frozen
class ReasoningPlace:
    """A piece of reasoning in a request.

    :ivar place: where it stands, in the API's words: a path, or the id of its item.
    :ivar message_id: of its answer.
    :ivar name: see `messages.name_of`.
    """

    place: str
    message_id: str
    name: str


@frozen
class Encoded:
    """The beginning of a conversation, as it is sent.

    :ivar prefix: its digests.
    :ivar pieces: its JSON, in pieces.
    :ivar messages: the number of messages in it.
    :ivar withheld: reasoning that was left out.
    :ivar call_ids: the ids of the newest answer's calls as they are sent, by ours.
    :ivar features: optional parts of the API that it uses.
    """

    prefix: Prefix
    pieces: tuple[bytes, ...] = ()
    messages: int = 0
    withheld: tuple[Withheld, ...] = ()
    call_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    features: Features = frozenset()


class Encoder:
    """Encodes messages one after another, and decides which reasoning is sent with them.

    :param before: the part of the request that is already encoded.
    :param provider: its name; what it made itself is sent back to it alone.
    :param rules: those for the model that is asked.
    :ivar items: the messages so far in the API's form, without those of `before`.
    :ivar places: the reasoning in `items`.
    """

    def __init__(self, before: Encoded, provider: str, rules: ReasoningRules, request: ModelRequest) -> None:
        self.items: list[JsonObject] = []
        self.places: list[ReasoningPlace] = []
        self._provider = provider
        self._rules = rules
        self._unbound = request.unbound
        self._prefix = before.prefix
        self._messages = before.messages
        self._withheld = before.withheld
        self._call_ids = before.call_ids
        self._features = before.features

    def add(self, messages: Iterable[Message]) -> None:
        """Encode more messages."""
        for message in messages:
            self._add(message)
            self._messages += 1

    def finish(self) -> None:
        """Encode what was held back until the next answer."""

    def encoded(self, pieces: tuple[bytes, ...] = ()) -> Encoded:
        """Return everything encoded so far.

        :param pieces: its JSON.
        """
        return Encoded(self._prefix, pieces, self._messages, self._withheld, self._call_ids, self._features)

    def _add(self, message: Message) -> None:
        raise NotImplementedError

    def _is_sent(self, part: Thinking, message: AssistantMessage) -> bool:
        """Return whether a piece of reasoning is sent, and note if it is withheld."""
        if part.provider != self._provider or not part.data:
            return False
        maker = rules_of(message.model.partition("/")[2]) if message.model else self._rules
        if not self._rules.can_read(maker.family):
            return False  # the model would not get it, and another one may
        # Earlier versions sent no developer message in front of the conversation.
        is_unknown = self._messages < self._unbound or self._rules.instructions == "developer"
        cause = self._prefix.mismatch(part, maker, self._rules)
        if part.bound is None and is_unknown:
            cause = "unknown"
        if cause is not None:
            self._withheld = (*self._withheld, Withheld(message.id, cause))
            return False
        self._prefix = self._prefix.after_reasoning(maker.family, part)
        return True

    def _note_place(self, place: str, part: Thinking, message: AssistantMessage) -> None:
        self.places.append(ReasoningPlace(place, message.id, name_of(part)))

    def _name_calls(self, message: AssistantMessage) -> None:
        """Choose the ids of an answer's calls: their own where the provider made them."""
        is_own = message.model.partition("/")[0] == self._provider
        self._call_ids = {
            call.id: call.provider_id if is_own and call.provider_id else call.id for call in message.tool_calls
        }


def says_something(message: AssistantMessage) -> bool:
    """Return whether an answer is sent. An answer that was cut off may contain only reasoning, and is not sent."""
    return bool(message.tool_calls or message.text.strip())


@frozen
class Call:
    """One request to the model, a POST.

    :ivar body: without what `opening` holds.
    :ivar streams: whether the answer is a stream of events; else it is one JSON object.
    :ivar opening: the JSON of the items that stand first in the member `conversation`, in pieces; may be empty.
    :ivar end: the whole conversation as it is sent; None if the API binds reasoning to nothing.
    :ivar features: parts of the API that the request makes use of, and could do without.
    """

    path: str
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    streams: bool = True
    opening: tuple[bytes, ...] = ()
    conversation: str = "messages"
    end: Encoded | None = None
    features: Features = frozenset()

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


def to_json(value: JsonValue | list[JsonObject]) -> str:
    """Return a value as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def wire_name(name: str) -> str:
    """Return the name of a call as a provider takes it back.

    A model may call a tool by a name that it made up (`functions.read`, an empty one), and every provider refuses a
    history with a name outside of `^[a-zA-Z0-9_-]{1,64}$`. The names of real tools stay as they are.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"
