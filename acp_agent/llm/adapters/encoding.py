"""`Encoder`, which encodes messages for an API, and `ModelCall`, the request that holds
them.
"""

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

    :ivar place: its position in the API's terms: a path, or the id of its item.
    :ivar message_id: the id of the answer that it belongs to.
    :ivar name: see `messages.name_of`.
    """

    place: str
    message_id: str
    name: str


@frozen
class Encoded:
    """The beginning of a conversation in the form in which it is sent.

    :ivar prefix: the digests of this beginning.
    :ivar pieces: the JSON of this beginning, in pieces.
    :ivar messages: the number of messages.
    :ivar withheld: reasoning that was left out.
    :ivar call_ids: the ids that are sent for the newest answer's calls, keyed by the
        agent's own ids.
    :ivar features: the optional parts of the API that the conversation uses.
    """

    prefix: Prefix
    pieces: tuple[bytes, ...] = ()
    messages: int = 0
    withheld: tuple[Withheld, ...] = ()
    call_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    features: Features = frozenset()


class Encoder:
    """Encodes messages one by one, and decides which reasoning is sent with them.

    :param before: the part of the request that is already encoded.
    :param provider: the provider's name; only its own reasoning is sent back to it.
    :param rules: the rules for the model that is called.
    :ivar items: the messages so far in the API's form, excluding the messages in
        `before`.
    :ivar places: the reasoning in `items`.
    """

    def __init__(
        self,
        before: Encoded,
        provider: str,
        rules: ReasoningRules,
        request: ModelRequest,
    ) -> None:
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
        """Encode anything that was held back until the next answer."""

    def encoded(self, pieces: tuple[bytes, ...] = ()) -> Encoded:
        """Return everything encoded so far.

        :param pieces: the JSON of everything encoded so far.
        """
        return Encoded(
            self._prefix,
            pieces,
            self._messages,
            self._withheld,
            self._call_ids,
            self._features,
        )

    def _add(self, message: Message) -> None:
        raise NotImplementedError

    def _is_sent(self, part: Thinking, message: AssistantMessage) -> bool:
        """Return whether a piece of reasoning is sent, and record it if it is withheld."""
        if part.provider != self._provider or not part.data:
            return False
        maker = (
            rules_of(message.model.partition("/")[2]) if message.model else self._rules
        )
        if not self._rules.can_read(maker.family):
            return False  # this model cannot read it, but another model may
        # Earlier versions sent no developer message before the conversation.
        is_unknown = (
            self._messages < self._unbound or self._rules.instructions == "developer"
        )
        cause = self._prefix.mismatch(part, maker, self._rules)
        if part.bound is None and is_unknown:
            cause = "unknown"
        if cause is not None:
            self._withheld = (*self._withheld, Withheld(message.id, cause))
            return False
        self._prefix = self._prefix.after_reasoning(maker.family, part)
        return True

    def _note_place(
        self, place: str, part: Thinking, message: AssistantMessage
    ) -> None:
        self.places.append(ReasoningPlace(place, message.id, name_of(part)))

    def _name_calls(self, message: AssistantMessage) -> None:
        """Choose the ids of an answer's calls, reusing the provider's own ids if this
        provider made the calls.
        """
        is_own = message.model.partition("/")[0] == self._provider
        self._call_ids = {
            call.id: call.provider_id if is_own and call.provider_id else call.id
            for call in message.tool_calls
        }


def says_something(message: AssistantMessage) -> bool:
    """Return whether an answer is sent. An answer that was cut off may contain only
    reasoning, and is not sent.
    """
    return bool(message.tool_calls or message.text.strip())


@frozen
class ModelCall:
    """One request to the model, a POST.

    :ivar body: the request's body without the items in `opening`.
    :ivar streams: whether the answer is a stream of events; otherwise it is one JSON
        object.
    :ivar opening: the JSON of the first items of the conversation, in pieces; may be
        empty.
    :ivar end: the prefix that covers the whole conversation as sent; None if the API
        does not bind reasoning.
    :ivar features: the optional parts of the API that the request uses.
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
        """Return the bytes of the whole body."""
        items = self.body.get(self.conversation)
        body = self.body
        if not self.opening or not isinstance(items, list):
            return to_json(body).encode()
        others = to_json(
            {key: value for key, value in body.items() if key != self.conversation}
        )
        behind = f",{to_json(items)[1:-1]}" if items else ""
        before = f'{others[:-1]},"{self.conversation}":['
        return b"".join((before.encode(), *self.opening, f"{behind}]}}".encode()))


def to_json(value: JsonValue | list[JsonObject]) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def wire_name(name: str) -> str:
    """Return the name of a call in a form that providers accept.

    A model may invent a tool's name (`functions.read`, or an empty name), and every
    provider refuses a history with a name that does not match `^[a-zA-Z0-9_-]{1,64}$`.
    The names of real tools are unchanged.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"
