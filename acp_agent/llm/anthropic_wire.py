"""Anthropic's Messages API: our request to theirs, their stream to our events. Pure functions and a fold.

Source: the types of the anthropic SDK 2.12, and the pages on prompt caching, thinking and preserved thinking of
platform.claude.com. Knows neither HTTP nor the SDK.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
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
from acp_agent.llm.json_access import get_int, get_object, get_text
from acp_agent.llm.parts import arguments_of, result_parts, tool_call, user_parts, wire_name
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta, ToolDefinition
from acp_agent.llm.transport import stream_error

_BREAKPOINT: JsonValue = {"type": "ephemeral"}
_BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
_SMALLEST_BUDGET = 1_024

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause_turn",
    "model_context_window_exceeded": "context_overflow",
}


# Our request in their words ------------------------------------------------------------------------------------------


def request_body(
    request: ModelRequest, profile: ModelProfile, provider: str, *, keep_thinking: bool = True
) -> JsonObject:
    """The body of `POST /v1/messages`, without `stream`.

    Two requests of which one continues the other are equal up to where the shorter one ends, but for the moving
    `cache_control` marks: one on the last tool, one on the system prompt, two on the newest user messages.

    :param provider: name of the provider; only thinking that it made itself is sent.
    :param keep_thinking: False leaves that out as well, for a conversation whose thinking the API no longer accepts.
    """
    body: JsonObject = {"model": request.model, "max_tokens": request.max_output_tokens}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _BREAKPOINT}]
    if request.tools:
        body["tools"] = _tools(request.tools)
    messages = wire_messages(request.messages, provider if keep_thinking else None, images=profile.images)
    _mark(messages)
    body["messages"] = list[JsonValue](messages)
    body |= thinking_options(request, profile, keep_thinking=keep_thinking)
    return body


def wire_messages(messages: Iterable[Message], thinking_of: str | None, *, images: bool = True) -> list[JsonObject]:
    """Messages in their words: user and assistant take turns, and results open the user's.

    :param thinking_of: the provider whose thinking is sent; None sends none.
    :param images: whether the model reads images.
    """
    wire: list[JsonObject] = []
    for message in messages:
        match message:
            case UserMessage():
                _append(wire, "user", [_block(part) for part in user_parts(message.parts, images=images)])
            case ToolResult():
                _append(wire, "user", [_result(message, images=images)])
            case AssistantMessage():
                _append(wire, "assistant", _answer_blocks(message, thinking_of))
    return wire


def thinking_options(request: ModelRequest, profile: ModelProfile, *, keep_thinking: bool = True) -> JsonObject:
    """`thinking` and `output_config` for a level of thought; nothing where the model is left to itself.

    `display` asks for a readable summary: newer models would else think in silence. Sampling parameters are never sent,
    since thinking forbids them and newer models refuse them.
    """
    level = request.thought_level
    asked = level in _BUDGETS
    match profile.thinking:
        case "budget":
            budget = min(_BUDGETS.get(level, 0), request.max_output_tokens // 2)
            # A tool call in the history has to come after its thinking, which was left out.
            if not asked or not keep_thinking or budget < _SMALLEST_BUDGET:
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


def _tools(tools: Sequence[ToolDefinition]) -> list[JsonValue]:
    wire: list[JsonObject] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
    ]
    wire[-1]["cache_control"] = _BREAKPOINT
    return list[JsonValue](wire)


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
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": part.data}}


def _result(result: ToolResult, *, images: bool) -> JsonValue:
    content: list[JsonValue] = [_block(part) for part in result_parts(result.parts, images=images)]
    wire: JsonObject = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    if result.is_error:
        wire["is_error"] = True
    return wire


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
                if part.provider == thinking_of and part.data.get("type") in ("thinking", "redacted_thinking"):
                    blocks.append(_thinking_block(part))
    # Thinking alone is no answer: it stands there after an answer that was cut off.
    said = any(isinstance(block, dict) and block["type"] in ("text", "tool_use") for block in blocks)
    return blocks if said else []


def _thinking_block(part: Thinking) -> JsonValue:
    return dict(part.data) if part.data.get("type") == "redacted_thinking" else {**part.data, "thinking": part.text}


# Their stream in ours ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Block:
    start: JsonObject
    pieces: list[str]
    signature: str = ""


class MessagesFold:
    """Folds the events of one stream into deltas and the answer."""

    def __init__(self, provider: str) -> None:
        self.complete = False
        self._provider = provider
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._usage: dict[str, int] = {}

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Take one event.

        :raises CallFailed: it is an error.
        """
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event)
            case "content_block_start":
                start = get_object(event, "content_block")
                kind = get_text(start, "type")
                initial = get_text(start, kind) if kind in ("text", "thinking") else ""
                self._blocks[get_int(event, "index")] = _Block(start, [initial] if initial else [])
                if initial:
                    return (TextDelta(initial) if kind == "text" else ThinkingDelta(initial),)
            case "message_start":
                self._count(get_object(get_object(event, "message"), "usage"))
            case "message_delta":
                delta = get_object(event, "delta")
                self._stop = get_text(delta, "stop_reason") or self._stop
                self._count(get_object(event, "usage"))
                explanation = get_text(get_object(delta, "stop_details"), "explanation")
                if explanation and not self._blocks:
                    self._blocks[0] = _Block({"type": "text"}, [explanation])
                    return (TextDelta(explanation),)
            case "message_stop":
                self.complete = True
            case "error":
                raise stream_error(event)
            case _:
                pass
        return ()

    def answer(self) -> Answered:
        """The whole answer."""
        parts = tuple(part for index in sorted(self._blocks) if (part := self._part(self._blocks[index])) is not None)
        stop = _STOP_REASONS.get(self._stop, "end_turn")
        if stop == "end_turn" and any(isinstance(part, ToolCall) for part in parts):
            stop = "tool_use"
        return Answered(parts, stop, self._final_usage())

    def _delta(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        block = self._blocks.get(get_int(event, "index"))
        delta = get_object(event, "delta")
        if block is None:
            return ()
        match delta.get("type"):
            case "text_delta":
                if text := get_text(delta, "text"):
                    block.pieces.append(text)
                    return (TextDelta(text),)
            case "thinking_delta":
                if text := get_text(delta, "thinking"):
                    block.pieces.append(text)
                    return (ThinkingDelta(text),)
            case "input_json_delta":
                block.pieces.append(get_text(delta, "partial_json"))
            case "signature_delta":
                block.signature += get_text(delta, "signature")
            case _:
                pass
        return ()

    def _count(self, usage: JsonObject) -> None:
        """Counts are cumulative, so that a later one replaces an earlier one; null says nothing, and nor does the 0 of
        gateways that fill in what they do not know."""
        self._usage |= {key: count for key in usage if (count := get_int(usage, key))}

    def _final_usage(self) -> Usage:
        return Usage(
            input_tokens=self._usage.get("input_tokens", 0),
            output_tokens=self._usage.get("output_tokens", 0),
            cache_read_tokens=self._usage.get("cache_read_input_tokens", 0),
            cache_write_tokens=self._usage.get("cache_creation_input_tokens", 0),
        )

    def _part(self, block: _Block) -> AssistantPart | None:
        text = "".join(block.pieces)
        start = block.start
        match start.get("type"):
            case "text":
                return Text(text) if text else None
            case "thinking":
                signature = block.signature or get_text(start, "signature")
                return Thinking(text, self._provider, {"type": "thinking", "signature": signature} if signature else {})
            case "redacted_thinking":
                return Thinking("", self._provider, dict(start))
            case "tool_use":
                return tool_call(get_text(start, "id"), get_text(start, "name"), text, get_object(start, "input"))
            case _:
                return None
