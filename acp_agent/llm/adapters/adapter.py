"""`Adapter`, through which `ModelClient` uses one API: encodes requests as HTTP calls
and folds the answers.
"""

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
    Encoded,
    Encoder,
    Features,
    ModelCall,
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
"""Maximum number of conversations whose encoded beginnings are cached."""


class Adapter:
    """One API. Its methods take the model's profile and the features that the API has
    refused.

    :cvar sdk: the SDK that sends the API's calls.
    :cvar refusals: features that can be left out of a request, each with phrases from
        errors that refuse it. An error that contains one of `vague_refusals` refuses
        one of the features without naming it.
    :cvar members: members of a request that can be left out or sent with another value;
        see `refusals.py`.
    :cvar required: the members that can have another value but cannot be left out.
    :cvar native_key: the member that marks a conversation compacted by the API itself;
        empty if the API cannot compact.
    :cvar cache_option: the cache lifetime that requests ask the provider for; see
        `cache_life`.
    :ivar models_path: the path of the list of models, which is free to request but
        needs a key.
    :ivar name: the provider's name. Reasoning and compactions are sent back only to the
        provider that created them.
    """

    sdk: ClassVar[Literal["anthropic", "openai"]] = "openai"
    refusals: ClassVar[tuple[tuple[Feature, tuple[str, ...]], ...]] = ()
    vague_refusals: ClassVar[tuple[str, ...]] = ()
    members: ClassVar[tuple[Feature, ...]] = ()
    required: ClassVar[tuple[Feature, ...]] = ()
    native_key: ClassVar[str] = ""
    cache_option: ClassVar[str] = ""
    _place: ClassVar[re.Pattern[str]] = re.compile("(?!)")
    """Matches the place of the refused piece of reasoning in an error; see
    `ReasoningPlace.place`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self.models_path = "/models"
        self._endpoint = endpoint
        self._rules: dict[str, ReasoningRules] = {}
        self._openings: dict[tuple[object, ...], Accumulator[Message, Encoded]] = {}
        self._head: tuple[tuple[ToolDefinition, ...], tuple[str, ...], str] | None = (
            None
        )

    def call(
        self,
        request: ModelRequest,
        profile: ModelProfile,
        refused: Features,
        prompt: str | None,
    ) -> ModelCall:
        """Return the call for a request.

        :param prompt: if not None, the API compacts the messages using this summary
            prompt; empty for the API's own prompt. Only for APIs with a `native_key`.
        """
        raise NotImplementedError

    def fold(self, call: ModelCall) -> Fold:
        """Return the fold for the answer to a call."""
        raise NotImplementedError

    def window_path(self, model: str) -> str | None:
        """Return the path at which the API reports a model's window, or None if it does
        not report it.
        """
        return None

    def rules(self, model: str, refused: Features = frozenset()) -> ReasoningRules:
        """Return the rules for a model, without the refused features."""
        rules = self._rules.get(model)
        if rules is None:
            rules = self._rules[model] = rules_at(
                self._endpoint, model, self.cache_option
            )
        if refused:
            rules = replace(
                rules,
                controls=rules.controls and "controls" not in refused,
                tools="plain" if "tools" in refused else rules.tools,
                effort="top" if "effort" in refused else rules.effort,
                native_first=rules.native_first and "compaction" not in refused,
                compaction="none" if "compaction" in refused else rules.compaction,
                takes_compaction=rules.takes_compaction and "compaction" not in refused,
                asked_by="path"
                if rules.asked_by == "item" and "trigger" in refused
                else rules.asked_by,
                cache=None if "cache_control" in refused else rules.cache,
            )
        return rules

    def refused_feature(
        self, failure: CallFailed, used: Features, accepted: Features
    ) -> Feature | None:
        """Return the feature to leave out after the API refused a request with status
        400; None for any other error.

        :param used: the features that the request used.
        :param accepted: the features that the API has accepted in earlier requests.
        """
        said = f"{failure.code} {failure.message}".lower()
        places: dict[Feature, int] = {}
        for feature, words in self.refusals:
            found = [said.index(word) for word in words if word in said]
            if feature in used and found:
                places[feature] = min(found)
        if places:
            # The first feature named is the refused one; a list of accepted
            # alternatives may follow.
            return min(places, key=lambda feature: places[feature])
        if any(words in said for words in self.vague_refusals):
            suspects = used - accepted or used
            return next(
                (feature for feature, _ in self.refusals if feature in suspects), None
            )
        return None

    def accepted_features(
        self, request: ModelRequest, profile: ModelProfile
    ) -> Features:
        """Return the features used before the model's newest answer. The API has
        accepted them.
        """
        at = self.accepted_messages(request)
        if at == 0:
            return frozenset()
        earlier = replace(request, messages=request.messages[:at])
        return self.call(earlier, profile, request.refused, None).features

    def accepted_messages(self, request: ModelRequest) -> int:
        """Return the number of messages before the model's newest answer. The API has
        accepted them.
        """
        name = f"{self.name}/{request.model}"
        for at in range(len(request.messages) - 1, -1, -1):
            message = request.messages[at]
            if isinstance(message, AssistantMessage) and message.model == name:
                return at
        return 0

    def refused_part(
        self, failure: CallFailed, call: ModelCall, refused: Features
    ) -> RefusedPart | None:
        """Return the refused part, if it is one that many servers do not support; None
        for any other error.

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
        self,
        failure: CallFailed,
        request: ModelRequest,
        profile: ModelProfile,
        refused: Features,
    ) -> tuple[ReasoningPlace, ...]:
        """Return the reasoning that the API refused with status 400, and all reasoning
        after it; empty for any other error.
        """
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

    def places(
        self, request: ModelRequest, profile: ModelProfile, refused: Features
    ) -> list[ReasoningPlace]:
        """Return the reasoning that a request includes, in order."""
        del profile, refused
        return [
            ReasoningPlace("", message.id, name_of(part))
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for part in message.parts
            if isinstance(part, Thinking) and part.provider == self.name
        ]

    def answer_part(self, part: Text | ToolCall) -> JsonObject:
        """Return a part of an answer as it is sent back to the API. A call keeps the
        provider's own id.
        """
        raise NotImplementedError

    def bind(
        self, parts: Iterable[AssistantPart], end: Prefix, rules: ReasoningRules
    ) -> tuple[AssistantPart, ...]:
        """Return the parts of an answer with its reasoning bound to the request that it
        answers.

        :param end: the prefix that covers the whole request.
        """
        bound: list[AssistantPart] = []
        prefix = end
        for part in parts:
            if isinstance(part, Thinking) and part.data:
                bound.append(replace(part, bound=prefix.bound(rules)))
                prefix = prefix.after_reasoning(rules.family, part)
                continue
            if isinstance(part, ToolCall) or (
                isinstance(part, Text) and part.text.strip()
            ):
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
        """Return `head_of` for these tools. Reuse the previous result if the objects
        are the same as in the last request.

        :param encode: returns a tool in the API's form.
        """
        known = self._head
        if known is None or known[0] is not tools or known[1] != (system, *others):
            known = self._head = (
                tools,
                (system, *others),
                head_of(system, map(encode, tools), *others),
            )
        return known[2]

    def native_block(
        self, request: ModelRequest, rules: ReasoningRules
    ) -> CompactedBlock | None:
        """Return the newest compaction made by the API itself if the API accepts it
        back, otherwise None.
        """
        blocks = [
            part
            for message in request.messages[:1]  # a compaction is in the first message
            for part in message.parts
            if isinstance(part, CompactedBlock)
            and part.provider == self.name
            and self.native_key in part.data
        ]
        return blocks[-1] if blocks and rules.takes_compaction else None

    def split(
        self,
        request: ModelRequest,
        start: Encoded,
        make: Callable[[Encoded], Encoder],
        *encoding: object,
    ) -> tuple[tuple[bytes, ...], Encoder]:
        """Return the items of a conversation: the older items as JSON, and an encoder
        that holds the last two turns.

        The JSON is reused by all requests that continue this one.

        :param make: returns an encoder for the messages after those already encoded.
        :param encoding: values that the encoding depends on.
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

            # The key includes the first message, since it may hold a compacted
            # conversation, which affects the encoding.
            first = request.messages[0]
            begins = "" if isinstance(first, ToolResult) else first.id
            key = (
                request.conversation_id,
                begins,
                request.unbound,
                start.prefix.head,
                *encoding,
            )
            opening = self._openings.pop(key, None) or Accumulator[Message, Encoded](
                start, add
            )
            # Move it to the end, so that the least recently used entry comes first.
            self._openings[key] = opening
            if len(self._openings) > _MAX_OPENINGS:
                del self._openings[next(iter(self._openings))]
            before = opening.over(request.messages[:at])
        encoder = make(before)
        encoder.add(request.messages[at:])
        encoder.finish()
        return before.pieces, encoder


def first_tools(
    request: ModelRequest, rules: ReasoningRules
) -> tuple[ToolDefinition, ...]:
    """Return the tools at the beginning of a request: the declared tools if changes are
    appended, otherwise the current tools.
    """
    declared = request.declared
    if declared is None or declared.tools is None or rules.tools == "plain":
        return request.tools
    return declared.tools


def first_level(request: ModelRequest, rules: ReasoningRules) -> str:
    """Return the thought level at the beginning of a request."""
    declared = request.declared
    return (
        request.thought_level
        if declared is None or rules.effort == "top"
        else declared.thought_level
    )


def _last_turns(messages: Sequence[Message]) -> int:
    """Return the index at which the last two turns of a conversation begin. A turn
    begins after an answer of the model.
    """
    turns = 0
    for at in range(len(messages) - 1, 0, -1):
        before = messages[at - 1]
        is_answer = isinstance(before, AssistantMessage) and says_something(before)
        if is_answer and not isinstance(messages[at], AssistantMessage):
            turns += 1
            if turns == 2:
                return at
    return 0
