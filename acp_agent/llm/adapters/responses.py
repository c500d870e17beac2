"""OpenAI's Responses API: our request to theirs, their stream to our events.

Nothing is stored at the provider: the whole conversation is sent each time, with the encrypted reasoning items that the
same provider made. Source: the types of the openai SDK 3.54, and its guide on compaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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
from acp_agent.conversation.strict_json import get_int, get_object, get_objects, get_text
from acp_agent.llm.adapters.adapter import (
    Adapter,
    Call,
    Dropped,
    Encoded,
    Encoder,
    Features,
    Fold,
    ReasoningPlace,
    build_answer,
    first_level,
    first_tools,
    openai_usage,
    says_something,
    wire_name,
)
from acp_agent.llm.adapters.calls import CallPieces, text_of
from acp_agent.llm.binding import Prefix
from acp_agent.llm.errors import stream_error
from acp_agent.llm.parts import arguments_text, has_raw_arguments, image_url, sent_arguments, tool_call, user_parts
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta
from acp_agent.llm.refusals import taken_effort, taken_limit
from acp_agent.llm.rules import ReasoningRules

_MAX_CACHE_KEY = 64
_ITEMS = "items"
_DEFAULT_EFFORT = "medium"
"""What the API takes if a request names none; for a return to it."""
_OFFICIAL_HOST = "api.openai.com"
_EXPECTED_REASONS = ("turn_boundary", "model_mismatch")
"""Why the API leaves reasoning out as a matter of course: a model that uses that of the present turn alone, or that
cannot read it."""


class ResponsesAdapter(Adapter):
    """The Responses API. OpenAI's own does not say how large a model's window is."""

    refusals = (
        ("summaries", ("reasoning summar", "reasoning.summar", "reasoning_summar")),
        ("effort", ("configuration_update",)),
        ("tools", ("additional_tools",)),
        ("compaction", ("compaction", "cmp_")),
    )
    members = ("max_output_tokens", "prompt_cache_key", "include", "store", "reasoning_effort", "stream")
    native_key = _ITEMS
    _place = re.compile(r"\brs_[A-Za-z0-9_-]+")

    def call(self, request: ModelRequest, profile: ModelProfile, refused: Features, prompt: str | None) -> Call:
        rules = self.rules(request.model, refused)
        opening, encoder = self._encode(request, profile, rules)
        end = encoder.encoded()
        body: JsonObject = {"model": request.model, "input": list[JsonValue](encoder.items)}
        if request.conversation_id and "prompt_cache_key" not in refused:
            body["prompt_cache_key"] = request.conversation_id[:_MAX_CACHE_KEY]
        # Later models take instructions for one turn alone, so that these stand in the input.
        has_instructions = rules.instructions != "developer" and bool(request.system.strip())
        if prompt is not None:
            if has_instructions:
                body["instructions"] = request.system
            return Call("/responses/compact", body, streams=False, opening=opening, conversation="input", end=end)
        features = end.features
        if "max_output_tokens" not in refused:
            most = taken_limit(request.max_output_tokens, request.takes.get("max_output_tokens", ""))
            body["max_output_tokens"] = most
        if "store" not in refused:
            body["store"] = False
        if has_instructions:
            body["instructions"] = request.system
        tools = first_tools(request, rules)
        if tools and "functions" not in refused:
            body["tools"] = [_tool(tool) for tool in tools]
        if "include" not in refused and (profile.thinking == "effort" or rules.echo == "items"):
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
        return Call(
            "/responses",
            body,
            streams=streams,
            opening=opening,
            conversation="input",
            end=end,
            features=features,
        )

    def fold(self) -> Fold:
        return _ResponsesFold(self.name)

    def window_path(self, model: str) -> str | None:
        return None if self._endpoint.host == _OFFICIAL_HOST else "/models"

    def answer_part(self, part: Text | ToolCall) -> JsonObject:
        return _said(part) if isinstance(part, Text) else _called(part, part.id)

    def _refuses_reasoning(self, said: str) -> bool:
        words = ("encrypted content", "encrypted_content", "type 'reasoning'")
        # A compacted conversation has encrypted content too.
        return "cmp_" not in said and any(each in said for each in words)

    def places(self, request: ModelRequest, profile: ModelProfile, refused: Features) -> list[ReasoningPlace]:
        rules = self.rules(request.model, refused)
        encoder = self._encoder(self._start(request, profile, rules), request=request, profile=profile, rules=rules)
        encoder.add(request.messages)
        return encoder.places

    def _encode(
        self, request: ModelRequest, profile: ModelProfile, rules: ReasoningRules
    ) -> tuple[tuple[bytes, ...], Encoder]:
        """Return the JSON of the items that stand first, and the encoder of the others."""
        make = partial(self._encoder, request=request, profile=profile, rules=rules)
        takes_raw = "raw_arguments" not in request.refused
        return self.split(request, self._start(request, profile, rules), make, rules, profile, takes_raw)

    def _start(self, request: ModelRequest, profile: ModelProfile, rules: ReasoningRules) -> Encoded:
        level = first_level(request, rules)
        is_checked = rules.checks == "openai" and profile.thinking == "effort"
        effort = _effort(level, profile) if level and is_checked else ""
        return Encoded(Prefix(self.head(request.system, first_tools(request, rules), _tool, effort)))

    def _encoder(
        self, before: Encoded, *, request: ModelRequest, profile: ModelProfile, rules: ReasoningRules
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
                # Not as the user's: a compaction keeps all that the user has said.
                if message.parts:
                    self._append({"role": "developer", "content": self._contents(message)})
                self._amend(message)
            case UserMessage():
                parts = [part for part in message.parts if part is not self._compacted]
                if parts or not message.parts:
                    self._append({"role": "user", "content": self._contents(message)})

    def _begin(self) -> None:
        """Encode what stands before all messages; the system prompt is in the head of the digests already."""
        if self._system.strip():
            self.items.append({"role": "developer", "content": self._system})
        if self._compacted is not None:
            self.items += get_objects(self._compacted.data, _ITEMS)
            self._prefix = self._prefix.after_compaction(self._compacted.data, self._compacted.at)
            self._features = self._features | {"compaction"}

    def _contents(self, message: UserMessage) -> list[JsonValue]:
        parts = [part for part in message.parts if part is not self._compacted]
        return [_content(part) for part in user_parts(parts, images=self._profile.images)]

    def _add_result(self, message: ToolResult) -> None:
        shown = user_parts(message.parts, images=self._profile.images)
        texts = [part.text for part in shown if isinstance(part, Text)]
        all_text = len(texts) == len(shown)
        output: JsonValue = "\n".join(texts) if all_text else [_content(part) for part in shown]
        call_id = self._call_ids.get(message.call_id, message.call_id)
        self._append({"type": "function_call_output", "call_id": call_id, "output": output})

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
                case Thinking(data={"type": "reasoning"}) if self._is_sent(part, message):
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
            self._append({"type": "additional_tools", "role": "developer", "tools": tools})
            self._features = self._features | {"tools"}
        if self._rules.effort == "item" and message.thought_level is not None:
            effort = _effort(message.thought_level, self._profile) or _DEFAULT_EFFORT
            self._append({"type": "configuration_update", "reasoning": {"effort": effort}}, "developer")
            self._features = self._features | {"effort"}


def _followed(parts: tuple[AssistantPart, ...]) -> list[AssistantPart]:
    """Return the parts that are sent: no blank text, and no reasoning that nothing follows, which is refused."""
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
    name, arguments = wire_name(call.name), sent_arguments(call)
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


class _ItemPieces:
    """One item of an answer, as far as it has come.

    :ivar item: as the newest event has it.
    :ivar call: the arguments that have streamed; an item that is done has them all.
    :ivar is_done: whether the event that ends the item came.
    """

    def __init__(self, index: int, item: JsonObject) -> None:
        self.index = index
        self.item = item
        self.call = CallPieces()
        self.is_done = False

    def has_id(self, item_id: str) -> bool:
        """Return whether the item has this id, which is not empty."""
        return bool(item_id) and item_id in (self.item.get("id"), self.item.get("call_id"))

    def take(self, item: JsonObject) -> None:
        """Take the item as a later event has it; what that leaves empty stays as it was."""
        self.item = self.item | {key: value for key, value in item.items() if value not in ("", None)}

    def is_cut(self) -> bool:
        """Return whether it is a call whose arguments are not whole."""
        is_call = self.item.get("type") == "function_call"
        return is_call and not self.item.get("arguments") and self.call.is_begun and not self.call.is_whole()

    def tool_call(self) -> ToolCall:
        """Return the call that it is."""
        call_id = get_text(self.item, "call_id") or get_text(self.item, "id")
        name, arguments = get_text(self.item, "name"), self.item.get("arguments")
        if arguments:
            text = arguments if isinstance(arguments, str) else text_of(arguments)
            return tool_call(call_id, name, text)
        self.call.id = call_id
        self.call.name = name
        return self.call.call()


class _ResponsesFold(Fold):
    """Folds the events of one stream, or the one object of an answer that does not stream."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._items: list[_ItemPieces] = []
        self._final: JsonObject = {}

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        text = get_text(event, "delta")
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta" if text:
                return (TextDelta(text),)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if text:
                return (ThinkingDelta(text),)
            case "response.reasoning_summary_part.added" if get_int(event, "summary_index") > 0:
                return (ThinkingDelta("\n\n"),)
            case "response.output_item.added" | "response.output_item.done":
                self._take(event)
            case "response.function_call_arguments.delta":
                if (pieces := self._pieces(event)) is not None:
                    pieces.call.add(event.get("delta"))
            case "response.function_call_arguments.done":
                if (pieces := self._pieces(event)) is not None:
                    pieces.take({key: event[key] for key in ("name", "arguments") if key in event})
            case "response.completed" | "response.incomplete":
                self._final = get_object(event, "response")
                self.complete = True
            case "response.failed":
                raise stream_error(get_object(event, "response"))
            case "error":
                raise stream_error(event)
            case None if "output" in event:  # no event, but the whole answer
                self._final = event
                self.complete = True
                return self._shown_of_whole() if event.get("object") == "response" else ()
            case _:
                pass
        return ()

    def close(self, *, done: bool) -> None:
        # Some gateways leave out the last event, and say that it is the end.
        self.complete = done and bool(self._items) and not any(pieces.is_cut() for pieces in self._items)

    def answer(self) -> Answered:
        self.dropped = tuple(
            Dropped(get_text(each, "id"), reason)
            for each in get_objects(self._final, "input_transformations")
            if (reason := get_text(each, "reason")) not in _EXPECTED_REASONS
        )
        parts: list[AssistantPart] = []
        reason = get_text(get_object(self._final, "incomplete_details"), "reason")
        for pieces in self._all_items():
            item = pieces.item
            match item.get("type"):
                case "message":
                    for content in get_objects(item, "content"):
                        if refusal := get_text(content, "refusal"):
                            reason = "refusal"
                        if text := refusal or get_text(content, "text"):
                            parts.append(Text(text, get_text(item, "phase")))
                case "reasoning":
                    parts.append(self._thinking(item))
                case "function_call":
                    parts.append(pieces.tool_call())
                case _:
                    pass
        usage = openai_usage(get_object(self._final, "usage"), "input", "output")
        return build_answer(parts, reason, usage, self._compacted())

    def _all_items(self) -> list[_ItemPieces]:
        """Return the items in order, with what only the last event has of them."""
        final = get_objects(self._final, "output")
        if not self._items:
            return [_ItemPieces(index, item) for index, item in enumerate(final)]
        for pieces in self._items:
            for item in final:
                is_same = item.get("type") == pieces.item.get("type") and item.get("id") == pieces.item.get("id")
                if is_same and pieces.item.get("id"):
                    pieces.item = item | {key: value for key, value in pieces.item.items() if value not in ("", None)}
        return sorted(self._items, key=lambda each: each.index)

    def _shown_of_whole(self) -> Iterable[TextDelta | ThinkingDelta]:
        shown: list[TextDelta | ThinkingDelta] = []
        for item in get_objects(self._final, "output"):
            if item.get("type") == "reasoning":
                shown += [
                    ThinkingDelta(text) for each in get_objects(item, "summary") if (text := get_text(each, "text"))
                ]
            elif item.get("type") == "message":
                contents = get_objects(item, "content")
                shown += [TextDelta(text) for each in contents if (text := get_text(each, "text"))]
        return shown

    def _pieces(self, event: JsonObject) -> _ItemPieces | None:
        """Return the item that an event is about: by its id, else the newest one at its index, else the newest one."""
        item_id = get_text(event, "item_id")
        named = [pieces for pieces in self._items if pieces.has_id(item_id)]
        at_index = [pieces for pieces in self._items if pieces.index == event.get("output_index")]
        found = named or at_index or ([] if "output_index" in event else self._items)
        return found[-1] if found else None

    def _take(self, event: JsonObject) -> None:
        """Take an event that begins or ends an item. The ids of the two may differ, and several items may have one
        index."""
        item = get_object(event, "item")
        ends = event.get("type") == "response.output_item.done"
        item_id = get_text(item, "id") or get_text(item, "call_id")
        index = get_int(event, "output_index") if "output_index" in event else None
        at_index = [pieces for pieces in self._items if index in (None, pieces.index)]
        candidates = [pieces for pieces in at_index if pieces.has_id(item_id)]
        if ends and not candidates:
            kind = item.get("type")
            candidates = [pieces for pieces in at_index if not pieces.is_done and pieces.item.get("type") == kind]
        if candidates:
            pieces = candidates[-1]
            pieces.take(item)
        else:
            pieces = _ItemPieces(len(self._items) if index is None else index, item)
            self._items.append(pieces)
        pieces.is_done = pieces.is_done or ends

    def _compacted(self) -> CompactedBlock | None:
        # All items are to be sent back as they stand, the user's messages among them. The summary is encrypted, so that
        # the block has no text.
        items = get_objects(self._final, "output")
        if not any(item.get("type") == "compaction" and get_text(item, "encrypted_content") for item in items):
            return None
        return CompactedBlock(self._provider, {_ITEMS: list[JsonValue](items)}, "")

    def _thinking(self, item: JsonObject) -> Thinking:
        texts = get_objects(item, "summary") or get_objects(item, "content")
        text = "\n\n".join(get_text(piece, "text") for piece in texts)
        # Without the encrypted form the provider could not find the item again, as nothing is stored there.
        kept: JsonObject = {key: value for key, value in item.items() if key != "status" and value is not None}
        return Thinking(text, self._provider, kept if "encrypted_content" in kept else {})
