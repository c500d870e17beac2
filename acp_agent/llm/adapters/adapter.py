"""`Adapter`, the interface of `ModelClient` to one API: encodes requests as HTTP calls, and folds the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from acp_agent.accumulator import Accumulator
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    CompactedBlock,
    JsonObject,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    name_of,
)
from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.adapters.encoding import (
    Call,
    Encoded,
    Encoder,
    Features,
    ReasoningPlace,
    says_something,
    to_json,
)
from acp_agent.llm.adapters.fold import Fold
from acp_agent.llm.binding import Prefix, head_of
from acp_agent.llm.errors import CallFailed
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.refusals import RefusedPart, optional_members, refused_part
from acp_agent.llm.rules import ReasoningRules, rules_at

_MAX_OPENINGS = 8
"""Conversations whose beginnings are kept; those of more are made anew each time."""


class Adapter:
    """One API. Its methods take what is known of the model, and the parts that the API has refused.

    :cvar sdk: the SDK that sends its calls.
    :cvar refusals: by what can be left out of a request, words of the errors that refuse it; an error with one of
        `vague_refusals` refuses one of them without saying which.
    :cvar members: members of a request that can be left out or sent with another value; see `refusals.py`.
    :cvar required: the members that can have another value but cannot be left out.
    :cvar native_key: the member that marks a conversation which the API itself has compacted; empty where it cannot.
    :cvar cache_option: what its requests say of how long they are cached; see `cache_life`.
    :ivar models_path: where the models are listed, which needs a key and costs nothing.
    :ivar name: the provider's; what it made itself is sent back to it alone.
    """

    sdk: ClassVar[Literal["anthropic", "openai"]] = "openai"
    refusals: ClassVar[tuple[tuple[Feature, tuple[str, ...]], ...]] = ()
    vague_refusals: ClassVar[tuple[str, ...]] = ()
    members: ClassVar[tuple[Feature, ...]] = ()
    required: ClassVar[tuple[Feature, ...]] = ()
    native_key: ClassVar[str] = ""
    cache_option: ClassVar[str] = ""
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

    def fold(self, call: Call) -> Fold:
        """Return what folds the answer to a call."""
        raise NotImplementedError

    def window_path(self, model: str) -> str | None:
        """Return where the API says how large a model's window is; None where it does not."""
        return None

    def rules(self, model: str, refused: Features = frozenset()) -> ReasoningRules:
        """Return the rules for a model, without what was refused."""
        rules = self._rules.get(model)
        if rules is None:
            rules = self._rules[model] = rules_at(self._endpoint, model, self.cache_option)
        if refused:
            rules = replace(
                rules,
                controls=rules.controls and "controls" not in refused,
                tools="plain" if "tools" in refused else rules.tools,
                effort="top" if "effort" in refused else rules.effort,
                native_first=rules.native_first and "compaction" not in refused,
                compaction="none" if "compaction" in refused else rules.compaction,
                takes_compaction=rules.takes_compaction and "compaction" not in refused,
                asked_by="path" if rules.asked_by == "item" and "trigger" in refused else rules.asked_by,
                cache=None if "cache_control" in refused else rules.cache,
            )
        return rules

    def refused_feature(self, failure: CallFailed, used: Features, accepted: Features) -> Feature | None:
        """Return what to leave out of a request that the API refused with status 400, unless it is another error.

        :param used: the features that the request used.
        :param accepted: what the API has accepted of it in earlier requests.
        """
        said = f"{failure.code} {failure.message}".lower()
        places: dict[Feature, int] = {}
        for feature, words in self.refusals:
            found = [said.index(word) for word in words if word in said]
            if feature in used and found:
                places[feature] = min(found)
        if places:
            # What is named first is refused; a list of what would be taken instead may follow.
            return min(places, key=lambda feature: places[feature])
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
