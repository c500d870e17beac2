"""`Adapter`, the interface of `ModelClient` to one API: encodes requests as HTTP calls, and folds the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
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
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
    name_of,
)
from acp_agent.conversation.strict_json import get_int, get_object
from acp_agent.conversation.surroundings import Feature
from acp_agent.frozen import frozen
from acp_agent.llm.binding import Prefix, head_of
from acp_agent.llm.errors import CallFailed
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta, Withheld
from acp_agent.llm.refusals import RefusedPart, optional_members, refused_part
from acp_agent.llm.rules import ReasoningRules, rules_at, rules_of

Features: TypeAlias = frozenset[Feature]

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


@frozen
class Dropped:
    """Reasoning of the request that the provider left out, as the answer says.

    :ivar place: where it stood in the request: a path, or the id of its item.
    """

    place: str
    reason: str


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


class Fold:
    """Collects the events of one answer.

    :ivar complete: whether the event that ends every whole answer was seen.
    :ivar dropped: reasoning that the provider dropped from the request.
    :cvar ends_with_done: whether more may come between that event and `[DONE]`.
    """

    ends_with_done: ClassVar[bool] = False
    complete = False
    dropped: tuple[Dropped, ...] = ()

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


class Adapter:
    """One API. Its methods take what is known of the model, and the parts that the API has refused.

    :cvar sdk: the SDK that sends its calls.
    :cvar refusals: by what can be left out of a request, words of the errors that refuse it; an error with one of
        `vague_refusals` refuses one of them without saying which.
    :cvar members: members of a request that can be left out or sent with another value; see `refusals.py`.
    :cvar required: the members that can have another value but cannot be left out.
    :cvar native_key: the member that marks a conversation which the API itself has compacted; empty where it cannot.
    :ivar models_path: where the models are listed, which needs a key and costs nothing.
    :ivar name: the provider's; what it made itself is sent back to it alone.
    """

    sdk: ClassVar[Literal["anthropic", "openai"]] = "openai"
    refusals: ClassVar[tuple[tuple[Feature, tuple[str, ...]], ...]] = ()
    vague_refusals: ClassVar[tuple[str, ...]] = ()
    members: ClassVar[tuple[Feature, ...]] = ()
    required: ClassVar[tuple[Feature, ...]] = ()
    native_key: ClassVar[str] = ""
    _place: ClassVar[re.Pattern[str]] = re.compile("(?!)")
    """Matches the place of the refused piece in an error about reasoning; see `ReasoningPlace.place`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self.models_path = "/models"
        self._endpoint = endpoint
        self._rules: dict[str, ReasoningRules] = {}
        self._openings: dict[tuple[object, ...], Accumulator[Message, Encoded]] = {}
        self._head: tuple[tuple[ToolDefinition, ...], tuple[str, ...], str] | None = None

    def call(self, request: ModelRequest, profile: ModelProfile, refused: Features, prompt: str | None) -> Call:
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

    def rules(self, model: str, refused: Features = frozenset()) -> ReasoningRules:
        """Return the rules for a model, without what was refused."""
        rules = self._rules.get(model)
        if rules is None:
            rules = self._rules[model] = rules_at(self._endpoint, model)
        if refused:
            rules = replace(
                rules,
                controls=rules.controls and "controls" not in refused,
                tools="plain" if "tools" in refused else rules.tools,
                effort="top" if "effort" in refused else rules.effort,
                native_first=rules.native_first and "compaction" not in refused,
                compaction="none" if "compaction" in refused else rules.compaction,
                takes_compaction=rules.takes_compaction and "compaction" not in refused,
            )
        return rules

    def refused_feature(self, failure: CallFailed, used: Features, accepted: Features) -> Feature | None:
        """Return what to leave out of a request that the API refused with status 400, unless it is another error.

        :param used: the features that the request used.
        :param accepted: what the API has accepted of it in earlier requests.
        """
        said = f"{failure.code} {failure.message}".lower()
        for feature, words in self.refusals:
            if feature in used and any(word in said for word in words):
                return feature
        if any(words in said for words in self.vague_refusals):
            suspects = used - accepted or used
            return next((feature for feature, _ in self.refusals if feature in suspects), None)
        return None

    def accepted_features(self, request: ModelRequest, profile: ModelProfile) -> Features:
        """Return the features used before the model's newest answer. The API has accepted them."""
        at = self.accepted_messages(request)
        if at == 0:
            return frozenset()
        earlier = replace(request, messages=request.messages[:at])
        return self.call(earlier, profile, request.refused, None).features

    def accepted_messages(self, request: ModelRequest) -> int:
        """Return the number of messages before the model's newest answer. The API has accepted them."""
        name = f"{self.name}/{request.model}"
        for at in range(len(request.messages) - 1, -1, -1):
            message = request.messages[at]
            if isinstance(message, AssistantMessage) and message.model == name:
                return at
        return 0

    def refused_part(self, failure: CallFailed, call: Call, refused: Features) -> RefusedPart | None:
        """Return the part that was refused, if it is one that many servers lack; None for any other error.

        :param call: the call that was sent.
        :param refused: features that the call already leaves out.
        """
        sent = optional_members(call.body, self.members)
        for feature in call.features - refused:
            sent.setdefault(feature, None)
        if call.body.get("tools"):
            sent["functions"] = None
        return refused_part(failure, sent, self.required)

    def refused_reasoning(
        self, failure: CallFailed, request: ModelRequest, profile: ModelProfile, refused: Features
    ) -> tuple[ReasoningPlace, ...]:
        """Return the reasoning that the API refused with status 400, with all that comes after it; none if it refused
        something else."""
        said = f"{failure.code} {failure.message}"
        if not self._refuses_reasoning(said):
            return ()
        places = self.places(request, profile, refused)
        named = self._place.search(said)
        if named is not None:
            for at, each in enumerate(places):
                if each.place == named[0]:
                    return tuple(places[at:])
        return tuple(places)

    def _refuses_reasoning(self, said: str) -> bool:
        """Return whether an error refuses reasoning in the request.

        :param said: the error's code and message.
        """
        del said
        return False

    def places(self, request: ModelRequest, profile: ModelProfile, refused: Features) -> list[ReasoningPlace]:
        """Return the reasoning that a request is sent with, in order."""
        del profile, refused
        return [
            ReasoningPlace("", message.id, name_of(part))
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for part in message.parts
            if isinstance(part, Thinking) and part.provider == self.name
        ]

    def answer_part(self, part: Text | ToolCall) -> JsonObject:
        """Return a part of an answer as it is sent back; a call has the provider's own id."""
        raise NotImplementedError

    def bind(self, parts: Iterable[AssistantPart], end: Prefix, rules: ReasoningRules) -> tuple[AssistantPart, ...]:
        """Return the parts of an answer with its reasoning bound to the request that it answers.

        :param end: the whole request.
        """
        bound: list[AssistantPart] = []
        prefix = end
        for part in parts:
            if isinstance(part, Thinking) and part.data:
                bound.append(replace(part, bound=prefix.bound(rules)))
                prefix = prefix.after_reasoning(rules.family, part)
                continue
            if isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip()):
                prefix = prefix.after("assistant", self.answer_part(part))
            bound.append(part)
        return tuple(bound)

    def head(
        self,
        system: str,
        tools: tuple[ToolDefinition, ...],
        encode: Callable[[ToolDefinition], JsonObject],
        *others: str,
    ) -> str:
        """Return `head_of` for these tools, or the last request's result if the objects are the same.

        :param encode: returns a tool in the API's form.
        """
        known = self._head
        if known is None or known[0] is not tools or known[1] != (system, *others):
            known = self._head = (tools, (system, *others), head_of(system, map(encode, tools), *others))
        return known[2]

    def native_block(self, request: ModelRequest, rules: ReasoningRules) -> CompactedBlock | None:
        """Return what the API itself compacted last and takes back; None where there is nothing of it."""
        blocks = [
            part
            for message in request.messages[:1]  # a compaction's text stands first
            for part in message.parts
            if isinstance(part, CompactedBlock) and part.provider == self.name and self.native_key in part.data
        ]
        return blocks[-1] if blocks and rules.takes_compaction else None

    def split(
        self, request: ModelRequest, start: Encoded, make: Callable[[Encoded], Encoder], *encoding: object
    ) -> tuple[tuple[bytes, ...], Encoder]:
        """Return the items of a conversation: the JSON of those that stand first, which is made once for all requests
        that continue this one, and an encoder with the others, from the last two turns.

        :param make: returns an encoder of what comes after some messages.
        :param encoding: what it depends on.
        """
        at = _last_turns(request.messages) if request.conversation_id else 0
        before = start
        if at:

            def add(encoded: Encoded, added: tuple[Message, ...]) -> Encoded:
                encoder = make(encoded)
                encoder.add(added)
                if not encoder.items:
                    return encoder.encoded(encoded.pieces)
                separator = "," if encoded.pieces else ""
                piece = f"{separator}{to_json(encoder.items)[1:-1]}".encode()
                return encoder.encoded((*encoded.pieces, piece))

            # The key includes the first message because it may hold a compacted conversation, which encoders depend on.
            first = request.messages[0]
            begins = "" if isinstance(first, ToolResult) else first.id
            key = (request.conversation_id, begins, request.unbound, start.prefix.head, *encoding)
            opening = self._openings.pop(key, None) or Accumulator[Message, Encoded](start, add)
            self._openings[key] = opening  # at the end, so that the one that was not used for longest stands first
            if len(self._openings) > _MAX_OPENINGS:
                del self._openings[next(iter(self._openings))]
            before = opening.over(request.messages[:at])
        encoder = make(before)
        encoder.add(request.messages[at:])
        encoder.finish()
        return before.pieces, encoder


def first_tools(request: ModelRequest, rules: ReasoningRules) -> tuple[ToolDefinition, ...]:
    """Return the tools with which a request begins: the declared ones if changes are appended, else those of now."""
    declared = request.declared
    if declared is None or declared.tools is None or rules.tools == "plain":
        return request.tools
    return declared.tools


def first_level(request: ModelRequest, rules: ReasoningRules) -> str:
    """Return the level of reasoning with which a request begins."""
    declared = request.declared
    return request.thought_level if declared is None or rules.effort == "top" else declared.thought_level


def _last_turns(messages: Sequence[Message]) -> int:
    """Return where the last two turns of a conversation begin: each behind what the model said."""
    turns = 0
    for at in range(len(messages) - 1, 0, -1):
        before = messages[at - 1]
        is_answer = isinstance(before, AssistantMessage) and says_something(before)
        if is_answer and not isinstance(messages[at], AssistantMessage):
            turns += 1
            if turns == 2:
                return at
    return 0


def to_json(value: JsonValue | list[JsonObject]) -> str:
    """Return a value as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


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


def wire_name(name: str) -> str:
    """Return the name of a call as a provider takes it back.

    A model may call a tool by a name that it made up (`functions.read`, an empty one), and every provider refuses a
    history with a name outside of `^[a-zA-Z0-9_-]{1,64}$`. The names of real tools stay as they are.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"
