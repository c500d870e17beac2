"""Anthropic's Messages API: our request to theirs, their stream to our events.

Source: the types of the anthropic SDK 2.12, and the pages on prompt caching, thinking, preserved thinking, streaming,
on-demand compaction and context windows of platform.claude.com.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    CompactedBlock,
    Image,
    JsonObject,
    JsonValue,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.conversation.strict_json import get_int, get_object, get_objects, get_text
from acp_agent.llm.adapters.adapter import NOTHING, Adapter, Call, Fold, Omissions, wire_name, without_block
from acp_agent.llm.errors import CallFailed, stream_error
from acp_agent.llm.parts import PartialArguments, arguments_of, base64_of, tool_call, user_parts
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta

_COMPACTION_BETA = "compact-2026-09-04"
_BETAS = "anthropic-beta"
_BREAKPOINT: JsonValue = {"type": "ephemeral"}
_BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
_BUDGET_STEPS = (12_288, 4_096, 1_024)
"""What a budget goes down to; the last is the least that the API takes."""
_BUDGET_SHARE = 8  # of the window: one eighth fits behind a context that fills the usable window
_GROWING = ("text", "thinking", "signature")
"""Members of a block that come in pieces."""
_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause_turn",
    "model_context_window_exceeded": "context_overflow",
}


class AnthropicAdapter(Adapter):
    """The Messages API.

    A thinking block is bound to all that stood before it when it was made, so that a compaction voids what it kept. A
    compacted block is bound to models that know such blocks.
    """

    sdk = "anthropic"
    refusals = (("compaction", ("compaction",)), ("thinking", ("thinking` block", "`signature`", "cannot be modified")))
    native_key = "type"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.name)
        self.models_path = "/v1/models"
        headers = {name.lower(): value for name, value in endpoint.headers.items()}
        self._betas = [beta.strip() for beta in headers.get(_BETAS, "").split(",") if beta.strip()]

    def call(self, request: ModelRequest, profile: ModelProfile, without: Omissions = NOTHING) -> Call:
        return self._call("/v1/messages", self.body(request, profile, without) | {"stream": True}, request, without)

    def compaction(self, request: ModelRequest, profile: ModelProfile, without: Omissions, instructions: str) -> Call:
        option: JsonObject = {"type": "summarize"}
        if instructions.strip():  # which takes the place of the API's own prompt
            option["instructions"] = instructions
        body = self.body(request, profile, without)
        body |= {"stream": True, "compaction": option}
        return self._call("/v1/messages", body, request, without)

    def counting(self, request: ModelRequest, profile: ModelProfile, without: Omissions = NOTHING) -> Call:
        body = self.body(request, profile, without)
        del body["max_tokens"]
        return self._call("/v1/messages/count_tokens", body, request, without)

    def body(self, request: ModelRequest, profile: ModelProfile, without: Omissions = NOTHING) -> JsonObject:
        """Return the body of `POST /v1/messages`, without `stream`.

        A request and one that continues it are equal up to where the shorter one ends, but for the moving
        `cache_control` marks: one on the last tool, one on the system prompt, two on the newest user messages.
        """
        body: JsonObject = {"model": request.model, "max_tokens": request.max_output_tokens}
        if request.system.strip():
            body["system"] = [{"type": "text", "text": request.system, "cache_control": _BREAKPOINT}]
        if request.tools:
            tools: list[JsonObject] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                for tool in request.tools
            ]
            tools[-1]["cache_control"] = _BREAKPOINT
            body["tools"] = list[JsonValue](tools)
        keep_thinking = "thinking" not in without
        messages = wire_messages(
            request.messages,
            self.name if keep_thinking else None,
            images=profile.images,
            compacted=self.compacted(request, without),
        )
        _mark(messages)
        body["messages"] = list[JsonValue](messages)
        return body | _thinking_options(request, profile, keep_thinking=keep_thinking)

    def window_path(self, model: str) -> str | None:
        return f"/v1/models/{model}"

    def window(self, answer: JsonObject, model: str) -> int | None:
        if not get_text(answer, "id"):
            raise CallFailed("no-stream", "the answer describes no model")
        return get_int(answer, "max_input_tokens") or None

    def _call(self, path: str, body: JsonObject, request: ModelRequest, without: Omissions) -> Call:
        if "compaction" not in body and self.compacted(request, without) is None:
            return Call(path, body, _MessagesFold(self.name))
        # The configured betas have to be repeated, since the header replaces theirs.
        betas = ",".join([*self._betas, _COMPACTION_BETA])
        return Call(f"{path}?beta=true", body, _MessagesFold(self.name), {_BETAS: betas})


def wire_messages(
    messages: Iterable[Message],
    thinking_of: str | None,
    *,
    images: bool = True,
    compacted: CompactedBlock | None = None,
) -> list[JsonObject]:
    """Return the messages in their words: user and assistant take turns, and results open the user's.

    :param thinking_of: the provider whose thinking is sent; None sends none.
    :param compacted: a block in the API's own form, which it wants first, in a message of the assistant.
    """
    wire: list[JsonObject] = []
    if compacted is not None:
        _append(wire, "assistant", [dict(compacted.data)])
    for message in messages:
        match message:
            case UserMessage():
                if (parts := without_block(message, compacted)) is not None:
                    _append(wire, "user", [_block(part) for part in user_parts(parts, images=images)])
            case ToolResult():
                _append(wire, "user", [_result(message, images=images)])
            case AssistantMessage():
                _append(wire, "assistant", _answer_blocks(message, thinking_of))
    return wire


def _thinking_options(request: ModelRequest, profile: ModelProfile, *, keep_thinking: bool = True) -> JsonObject:
    """Return `thinking` and `output_config` for a level of thought; nothing where the model is left to itself.

    `display` asks for a readable summary: newer models would else think in silence. Sampling parameters are never sent,
    since thinking forbids them and newer models refuse them.
    """
    level = request.thought_level
    asked = level in _BUDGETS
    match profile.thinking:
        case "budget":
            budget = _thinking_budget(level, profile, request.max_output_tokens)
            # A tool call in the history has to come after its thinking, which was left out.
            if not asked or not keep_thinking or not budget:
                return {}
            return {"thinking": {"type": "enabled", "budget_tokens": budget}}
        case "adaptive" | "adaptive-default" | "adaptive-always":
            if not asked and profile.thinking == "adaptive":
                return {}
            if level == "off" and profile.thinking == "adaptive-default":
                return {"thinking": {"type": "disabled"}}
            options: JsonObject = {"thinking": {"type": "adaptive", "display": "summarized"}}
            if level:
                options["output_config"] = {"effort": level if asked else "low"}
            return options
        case _:
            return {}


def _thinking_budget(level: str, profile: ModelProfile, max_tokens: int) -> int:
    """Return the tokens for thoughts; 0 where there is no room for any.

    The bound of an answer shrinks with each request as the window fills, and the provider's cache holds nothing of the
    messages for another budget: so it is held for as long as it is two thirds of the bound at most, and then goes down
    by a wide step.

    :param max_tokens: of the answer, its thoughts included.
    """
    full = min(_BUDGETS.get(level, 0), profile.max_output_tokens // 2, profile.context_window // _BUDGET_SHARE)
    steps = (full, *(step for step in _BUDGET_STEPS if step < full))
    return next((step for step in steps if step >= _BUDGET_STEPS[-1] and step * 3 <= max_tokens * 2), 0)


def _append(wire: list[JsonObject], role: str, blocks: list[JsonValue]) -> None:
    if not blocks:
        return
    last = wire[-1] if wire else None
    if last is not None and last["role"] == role and isinstance(content := last["content"], list):
        content.extend(blocks)
    else:
        wire.append({"role": role, "content": blocks})


def _mark(messages: list[JsonObject]) -> None:
    """Put breakpoints at the end of the two newest user messages: what was sent now, and what was sent before."""
    for message in [message for message in messages if message["role"] == "user"][-2:]:
        content = message["content"]
        if isinstance(content, list) and isinstance(last := content[-1], dict):
            content[-1] = {**last, "cache_control": _BREAKPOINT}


def _block(part: Text | Image) -> JsonValue:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": base64_of(part)}}


def _result(result: ToolResult, *, images: bool) -> JsonValue:
    content: list[JsonValue] = [_block(part) for part in user_parts(result.parts, images=images)]
    error: JsonObject = {"is_error": True} if result.is_error else {}
    return {"type": "tool_result", "tool_use_id": result.call_id, "content": content, **error}


def _answer_blocks(message: AssistantMessage, thinking_of: str | None) -> list[JsonValue]:
    blocks: list[JsonValue] = []
    for part in message.parts:
        match part:
            case Text():
                if part.text.strip():
                    blocks.append({"type": "text", "text": part.text})
            case ToolCall():
                blocks.append(
                    {"type": "tool_use", "id": part.id, "name": wire_name(part.name), "input": arguments_of(part)}
                )
            case Thinking():
                if part.provider == thinking_of and part.data.get("type") == "redacted_thinking":
                    blocks.append(part.data)
                elif part.provider == thinking_of and part.data.get("type") == "thinking":
                    blocks.append({**part.data, "thinking": part.text})
    # Thinking alone is no answer: it stands there after an answer that was cut off.
    said = any(isinstance(block, dict) and block["type"] in ("text", "tool_use") for block in blocks)
    return blocks if said else []


# Their stream in ours ------------------------------------------------------------------------------------------------


class _MessagesFold(Fold):
    """Folds the events of one stream into deltas and the answer."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: dict[int, JsonObject] = {}
        self._arguments: dict[int, PartialArguments] = {}
        self._stop = ""
        self._usage: JsonObject = {}

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        index = get_int(event, "index")
        match event.get("type"):
            case "content_block_start":
                start = get_object(event, "content_block")
                self._blocks[index] = {key: start[key] for key in start if key not in _GROWING}
                return self._extend(index, start)
            case "content_block_delta" if index in self._blocks:
                return self._extend(index, get_object(event, "delta"))
            case "message_start":
                self._count(get_object(get_object(event, "message"), "usage"))
            case "message_delta":
                delta = get_object(event, "delta")
                self._stop = get_text(delta, "stop_reason") or self._stop
                self._count(get_object(event, "usage"))
                explanation = get_text(get_object(delta, "stop_details"), "explanation")
                if explanation and not self._blocks:
                    self._blocks[0] = {"type": "text"}
                    return self._extend(0, {"text": explanation})
            case "message_stop":
                if not self._stop:  # it may not have been all
                    raise CallFailed("dropped", "the stream ended without a reason to stop")
                self.complete = True
            case "error":
                raise stream_error(event)
            case _:
                pass
        return ()

    def answer(self) -> Answered:
        parts = tuple(part for index in sorted(self._blocks) if (part := self._part(index)) is not None)
        stop = _STOP_REASONS.get(self._stop, "end_turn")
        if stop == "end_turn" and any(isinstance(part, ToolCall) for part in parts):
            stop = "tool_use"
        compacted: CompactedBlock | None = None
        for block in self._blocks.values():
            if block.get("type") == "compaction" and (text := get_text(block, "content")):
                compacted = CompactedBlock(self._provider, block, text)
        return Answered(parts, stop, self._counted(), compacted)

    def _extend(self, index: int, delta: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        block = self._blocks[index]
        for key in _GROWING:
            if text := get_text(delta, key):
                block[key] = get_text(block, key) + text
        if delta.get("type") == "compaction_delta":
            block |= {key: delta[key] for key in delta if key != "type"}
        if piece := get_text(delta, "partial_json"):
            self._arguments.setdefault(index, PartialArguments()).add(piece)
        if text := get_text(delta, "text"):
            return (TextDelta(text),)
        return (ThinkingDelta(text),) if (text := get_text(delta, "thinking")) else ()

    def _count(self, usage: JsonObject) -> None:
        """Counts are cumulative, so that a later one replaces an earlier one; null says nothing, and nor does the 0 of
        gateways that fill in what they do not know."""
        self._usage |= {key: count for key, count in usage.items() if count}

    def _counted(self) -> Usage:
        iterations = get_objects(self._usage, "iterations")
        compacts = any(iteration.get("type") == "compaction" for iteration in iterations)
        counts = iterations if compacts else [self._usage]  # the other fields leave compactions out
        return Usage(
            input_tokens=sum(get_int(count, "input_tokens") for count in counts),
            output_tokens=sum(get_int(count, "output_tokens") for count in counts),
            cache_read_tokens=sum(get_int(count, "cache_read_input_tokens") for count in counts),
            cache_write_tokens=sum(get_int(count, "cache_creation_input_tokens") for count in counts),
        )

    def _part(self, index: int) -> AssistantPart | None:
        block = self._blocks[index]
        match block.get("type"):
            case "text":
                return Text(text) if (text := get_text(block, "text")) else None
            case "thinking":
                data: JsonObject = {"type": "thinking", "signature": block["signature"]} if "signature" in block else {}
                return Thinking(get_text(block, "thinking"), self._provider, data)
            case "redacted_thinking":
                return Thinking("", self._provider, block)
            case "tool_use":
                # Some gateways send the whole input with the start of the block.
                partial = self._arguments.get(index)
                arguments = partial.text if partial is not None else json.dumps(get_object(block, "input"))
                return tool_call(get_text(block, "id"), get_text(block, "name"), arguments)
            case _:
                return None
