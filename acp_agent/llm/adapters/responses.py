"""Encodes requests for OpenAI's Responses API. `responses_fold.py` reads the answers.

Nothing is stored at the provider. Each request contains the whole conversation, with
the encrypted reasoning items from the same provider. A compaction is requested by an
item at the end of an ordinary request, or at a separate path; see `rules.AskedBy`.
Source: the types of the openai SDK 3.54, and its guide on compaction.
"""

from __future__ import annotations

import re
from functools import partial

from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    AssistantPart,
    CompactedBlock,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from acp_agent.conversation.strict_json import get_objects, get_text
from acp_agent.llm.adapters.adapter import Adapter, first_level, first_tools
from acp_agent.llm.adapters.encoding import (
    Encoded,
    Encoder,
    Features,
    ModelCall,
    ReasoningPlace,
    says_something,
    wire_name,
)
from acp_agent.llm.adapters.fold import Fold
from acp_agent.llm.adapters.responses_fold import ITEMS, CompactionFold, ResponsesFold
from acp_agent.llm.binding import Prefix
from acp_agent.llm.parts import (
    arguments_text,
    has_raw_arguments,
    image_url,
    sent_arguments,
    user_parts,
)
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.refusals import taken_effort, taken_limit
from acp_agent.llm.rules import ReasoningRules

_MAX_CACHE_KEY = 64
_DEFAULT_EFFORT = "medium"
"""The API's default effort, for returning to it explicitly."""
_OFFICIAL_HOST = "api.openai.com"
_TRIGGER: JsonObject = {"type": "compaction_trigger"}
"""Tells the model to compact everything before it. It must be the last item, and does
not become part of the conversation.
"""


class ResponsesAdapter(Adapter):
    """The Responses API. OpenAI's own server does not report a model's window."""

    refusals = (
        ("trigger", ("compaction_trigger",)),
        ("summaries", ("reasoning summar", "reasoning.summar", "reasoning_summar")),
        ("effort", ("configuration_update",)),
        ("tools", ("additional_tools",)),
        ("compaction", ("compaction", "cmp_")),
    )
    members = (
        "max_output_tokens",
        "prompt_cache_key",
        "include",
        "store",
        "reasoning_effort",
        "stream",
    )
    native_key = ITEMS
    _place = re.compile(r"\brs_[A-Za-z0-9_-]+")

    def call(
        self,
        request: ModelRequest,
        profile: ModelProfile,
        refused: Features,
        prompt: str | None,
    ) -> ModelCall:
        rules = self.rules(request.model, refused)
        opening, encoder = self._encode(request, profile, rules)
        end = encoder.encoded()
        body: JsonObject = {
            "model": request.model,
            "input": list[JsonValue](encoder.items),
        }
        if request.conversation_id and "prompt_cache_key" not in refused:
            body["prompt_cache_key"] = request.conversation_id[:_MAX_CACHE_KEY]
        # Later models apply `instructions` to one turn only, so the system prompt goes
        # into the input instead.
        has_instructions = rules.instructions != "developer" and bool(
            request.system.strip()
        )
        if has_instructions:
            body["instructions"] = request.system
        if prompt is not None and rules.asked_by != "item":
            return ModelCall(
                "/responses/compact",
                body,
                streams=False,
                opening=opening,
                conversation="input",
                end=end,
            )
        features = end.features
        if prompt is not None:
            body["input"] = [*encoder.items, _TRIGGER]
            features = features.union(("trigger",))
        elif (
            "max_output_tokens" not in refused
        ):  # a compaction may be longer than an answer
            most = taken_limit(
                request.max_output_tokens, request.takes.get("max_output_tokens", "")
            )
            body["max_output_tokens"] = most
        if "store" not in refused:
            body["store"] = False
        tools = first_tools(request, rules)
        if tools and "functions" not in refused:
            body["tools"] = [_tool(tool) for tool in tools]
        if "include" not in refused and (
            profile.thinking == "effort" or rules.echo == "items"
        ):
            body["include"] = ["reasoning.encrypted_content"]
        if profile.thinking == "effort":
            reasoning: JsonObject = {}
            if "summaries" not in refused:
                reasoning["summary"] = "auto"
                features = features.union(("summaries",))
            level = first_level(request, rules)
            if level and "reasoning_effort" not in refused:
                takes = request.takes.get("reasoning_effort", "")
                if effort := taken_effort(_effort(level, profile), takes):
                    reasoning["effort"] = effort
            if reasoning:
                body["reasoning"] = reasoning
        streams = "stream" not in refused
        if streams:
            body["stream"] = True
        return ModelCall(
            "/responses",
            body,
            streams=streams,
            opening=opening,
            conversation="input",
            end=end,
            features=features,
        )

    def fold(self, call: ModelCall) -> Fold:
        return (
            CompactionFold(self.name, call)
            if "trigger" in call.features
            else ResponsesFold(self.name)
        )

    def window_path(self, model: str) -> str | None:
        return None if self._endpoint.host == _OFFICIAL_HOST else "/models"

    def answer_part(self, part: Text | ToolCall) -> JsonObject:
        return _said(part) if isinstance(part, Text) else _called(part, part.id)

    def _refuses_reasoning(self, said: str) -> bool:
        words = ("encrypted content", "encrypted_content", "type 'reasoning'")
        # A compacted conversation has encrypted content too.
        return "cmp_" not in said and any(each in said for each in words)

    def places(
        self, request: ModelRequest, profile: ModelProfile, refused: Features
    ) -> list[ReasoningPlace]:
        rules = self.rules(request.model, refused)
        encoder = self._encoder(
            self._start(request, profile, rules),
            request=request,
            profile=profile,
            rules=rules,
        )
        encoder.add(request.messages)
        return encoder.places

    def _encode(
        self, request: ModelRequest, profile: ModelProfile, rules: ReasoningRules
    ) -> tuple[tuple[bytes, ...], Encoder]:
        """Return the older items as JSON, and the encoder that holds the rest."""
        make = partial(self._encoder, request=request, profile=profile, rules=rules)
        takes_raw = "raw_arguments" not in request.refused
        return self.split(
            request,
            self._start(request, profile, rules),
            make,
            rules,
            profile,
            takes_raw,
        )

    def _start(
        self, request: ModelRequest, profile: ModelProfile, rules: ReasoningRules
    ) -> Encoded:
        level = first_level(request, rules)
        is_checked = rules.checks == "openai" and profile.thinking == "effort"
        effort = _effort(level, profile) if level and is_checked else ""
        return Encoded(
            Prefix(
                self.head(request.system, first_tools(request, rules), _tool, effort)
            )
        )

    def _encoder(
        self,
        before: Encoded,
        *,
        request: ModelRequest,
        profile: ModelProfile,
        rules: ReasoningRules,
    ) -> Encoder:
        compacted = self.native_block(request, rules)
        return _ItemsEncoder(before, self.name, rules, request, compacted, profile)


class _ItemsEncoder(Encoder):
    """Encodes messages as input items.

    :param compacted: a block in the API's own form; it goes first.
    """

    def __init__(
        self,
        before: Encoded,
        provider: str,
        rules: ReasoningRules,
        request: ModelRequest,
        compacted: CompactedBlock | None,
        profile: ModelProfile,
    ) -> None:
        super().__init__(before, provider, rules, request)
        self._system = request.system if rules.instructions == "developer" else ""
        self._compacted = compacted
        self._profile = profile
        self._takes_raw = "raw_arguments" not in request.refused

    def _add(self, message: Message) -> None:
        if not self._messages:
            self._begin()
        match message:
            case AssistantMessage():
                self._add_answer(message)
            case ToolResult():
                self._add_result(message)
            case Amendment():
                # Not as a user message, since a compaction keeps all user messages.
                if message.parts:
                    self._append(
                        {"role": "developer", "content": self._contents(message)}
                    )
                self._amend(message)
            case UserMessage():
                parts = [part for part in message.parts if part is not self._compacted]
                if parts or not message.parts:
                    self._append({"role": "user", "content": self._contents(message)})

    def _begin(self) -> None:
        """Encode the items before all messages. The system prompt is already included
        in the digest's head.
        """
        if self._system.strip():
            self.items.append({"role": "developer", "content": self._system})
        if self._compacted is not None:
            self.items += get_objects(self._compacted.data, ITEMS)
            self._prefix = self._prefix.after_compaction(
                self._compacted.data, self._compacted.at
            )
            self._features = self._features | {"compaction"}

    def _contents(self, message: UserMessage) -> list[JsonValue]:
        parts = [part for part in message.parts if part is not self._compacted]
        return [
            _content(part) for part in user_parts(parts, images=self._profile.images)
        ]

    def _add_result(self, message: ToolResult) -> None:
        shown = user_parts(message.parts, images=self._profile.images)
        texts = [part.text for part in shown if isinstance(part, Text)]
        all_text = len(texts) == len(shown)
        output: JsonValue = (
            "\n".join(texts) if all_text else [_content(part) for part in shown]
        )
        call_id = self._call_ids.get(message.call_id, message.call_id)
        self._append(
            {"type": "function_call_output", "call_id": call_id, "output": output}
        )

    def _add_answer(self, message: AssistantMessage) -> None:
        if not says_something(message):
            return
        self._name_calls(message)
        for part in _followed(message.parts):
            match part:
                case Text():
                    self._append(_said(part))
                case ToolCall():
                    self._add_call(part)
                case Thinking(data={"type": "reasoning"}) if self._is_sent(
                    part, message
                ):
                    self.items.append(part.data)
                    self._note_place(get_text(part.data, "id"), part, message)
                case _:
                    pass

    def _add_call(self, call: ToolCall) -> None:
        item = _called(call, self._call_ids[call.id])
        if has_raw_arguments(call):
            if self._takes_raw:
                self._features = self._features | {"raw_arguments"}
            else:
                item["arguments"] = arguments_text(call)
        self._append(item, "assistant")

    def _append(self, item: JsonObject, role: str = "") -> None:
        self.items.append(item)
        self._prefix = self._prefix.after(role or get_text(item, "role"), item)

    def _amend(self, message: Amendment) -> None:
        if self._rules.tools == "items" and message.added:
            tools: list[JsonValue] = [_tool(tool) for tool in message.added]
            self._append(
                {"type": "additional_tools", "role": "developer", "tools": tools}
            )
            self._features = self._features | {"tools"}
        if self._rules.effort == "item" and message.thought_level is not None:
            effort = _effort(message.thought_level, self._profile) or _DEFAULT_EFFORT
            self._append(
                {"type": "configuration_update", "reasoning": {"effort": effort}},
                "developer",
            )
            self._features = self._features | {"effort"}


def _followed(parts: tuple[AssistantPart, ...]) -> list[AssistantPart]:
    """Return the parts to send, without blank texts and without reasoning at the end,
    which the API refuses.
    """
    sent = [part for part in parts if not isinstance(part, Text) or part.text.strip()]
    while sent and isinstance(sent[-1], Thinking):
        sent.pop()
    return sent


def _effort(level: str, profile: ModelProfile) -> str:
    return profile.least_effort if level == "off" else level


def _tool(tool: ToolDefinition) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": False,
    }


def _content(part: Text | Image) -> JsonValue:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": image_url(part), "detail": "auto"}


def _said(part: Text) -> JsonObject:
    phase: JsonObject = {"phase": part.phase} if part.phase else {}
    return {"role": "assistant", "content": part.text, **phase}


def _called(call: ToolCall, call_id: str) -> JsonObject:
    name = wire_name(call.name)
    arguments = sent_arguments(call)
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }
