"""Anthropic's Messages API: our request to theirs, their stream to our events.

Source: the types of the anthropic SDK 2.12, and the pages on prompt caching, thinking, preserved thinking, streaming,
on-demand compaction and context windows of platform.claude.com.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from io import StringIO

from acp_agent.conversation.messages import (
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
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.conversation.strict_json import get_int, get_object, get_objects, get_text
from acp_agent.llm.adapters.adapter import Adapter, Call, Fold, Omissions, build_answer, wire_name
from acp_agent.llm.errors import CallFailed, stream_error
from acp_agent.llm.parts import arguments_of, base64_of, check_arguments, tool_call, user_parts
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta

_COMPACTION_BETA = "compact-2026-09-04"
_BETAS = "anthropic-beta"
_BREAKPOINT: JsonValue = {"type": "ephemeral"}
_BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
_LEAST_BUDGET = 1_024
_BUDGET_SHARE = 8  # of the window: one eighth fits behind a context that fills the usable window
_GROWING = ("text", "thinking", "signature", "partial_json")
"""Members of a block that come in pieces."""


class AnthropicAdapter(Adapter):
    """The Messages API.

    A thinking block is bound to all that stood before it when it was made, so that a compaction voids what it kept. A
    compacted block is bound to models that know such blocks.
    """

    sdk = "anthropic"
    refusals = (("native", ("compaction", "thinking` block", "`signature`", "cannot be modified")),)
    native_key = "type"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.models_path = "/v1/models"
        self._betas = [value for name, value in endpoint.headers.items() if name.lower() == _BETAS]

    def call(self, request: ModelRequest, profile: ModelProfile, omissions: Omissions, prompt: str | None) -> Call:
        body, opening = self._body(request, profile, omissions)
        body["stream"] = True
        if prompt is not None:
            instructions: JsonObject = {"instructions": prompt} if prompt.strip() else {}
            body["compaction"] = {"type": "summarize"} | instructions
        elif self.native_block(request, omissions) is None:
            return Call("/v1/messages", body, opening=opening)
        # The configured betas are repeated, since the header replaces theirs.
        betas = {_BETAS: ",".join([*self._betas, _COMPACTION_BETA])}
        return Call("/v1/messages?beta=true", body, betas, opening=opening)

    def fold(self) -> Fold:
        return _MessagesFold(self.name)

    def window_path(self, model: str) -> str | None:
        return f"/v1/models/{model}"

    def _body(
        self, request: ModelRequest, profile: ModelProfile, omissions: Omissions
    ) -> tuple[JsonObject, tuple[bytes, ...]]:
        """Return the body of `POST /v1/messages`, without `stream`, and the JSON of the messages that stand first.

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
        keep_thinking = "native" not in omissions
        thinking_of, images = self.name if keep_thinking else "", profile.images
        opening: tuple[bytes, ...] = ()
        if (compacted := self.native_block(request, omissions)) is not None:
            messages = _wire_messages(request.messages, thinking_of, images=images, compacted=compacted)
        else:
            encode = partial(_wire_messages, thinking_of=thinking_of, images=images)
            opening, messages = self.split(request, encode, thinking_of, images)
        # What was sent now, and what was sent before.
        for message in [message for message in messages if message["role"] == "user"][-2:]:
            content = message["content"]
            if isinstance(content, list) and isinstance(last := content[-1], dict):
                content[-1] = {**last, "cache_control": _BREAKPOINT}
        body["messages"] = list[JsonValue](messages)
        return body | _thinking_options(request, profile, keep_thinking=keep_thinking), opening


def _wire_messages(
    messages: Iterable[Message], thinking_of: str, *, images: bool, compacted: CompactedBlock | None = None
) -> list[JsonObject]:
    """Return the messages in their words: user and assistant take turns, and results open the user's.

    :param thinking_of: the provider whose thinking is sent; the empty string sends none.
    :param compacted: a block in the API's own form, which it wants first, in a message of the assistant.
    """
    wire: list[JsonObject] = []
    if compacted is not None:
        wire.append({"role": "assistant", "content": [dict(compacted.data)]})
    for message in messages:
        match message:
            case UserMessage():
                parts = [part for part in message.parts if part is not compacted]
                blocks = [_block(part) for part in user_parts(parts, images=images)]
                if parts or not message.parts:
                    _append(wire, "user", blocks)
            case ToolResult():
                content: list[JsonValue] = [_block(part) for part in user_parts(message.parts, images=images)]
                error: JsonObject = {"is_error": True} if message.is_error else {}
                result: JsonObject = {"type": "tool_result", "tool_use_id": message.call_id, "content": content}
                _append(wire, "user", [result | error])
            case AssistantMessage():
                _append(wire, "assistant", _answer_blocks(message, thinking_of))
    return wire


def _append(wire: list[JsonObject], role: str, blocks: list[JsonValue]) -> None:
    if wire and wire[-1]["role"] == role and isinstance(content := wire[-1]["content"], list):
        content.extend(blocks)
    elif blocks:
        wire.append({"role": role, "content": blocks})


def _block(part: Text | Image) -> JsonValue:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": base64_of(part)}}


def _answer_blocks(message: AssistantMessage, thinking_of: str) -> list[JsonValue]:
    blocks: list[JsonValue] = []
    said = False  # thinking alone is no answer: it stands there after an answer that was cut off
    for part in message.parts:
        match part:
            case Text() if part.text.strip():
                blocks.append(_block(part))
                said = True
            case ToolCall():
                call: JsonObject = {"id": part.id, "name": wire_name(part.name), "input": arguments_of(part)}
                blocks.append({"type": "tool_use", **call})
                said = True
            case Thinking(provider=provider, data={"type": "redacted_thinking"}) if provider == thinking_of:
                blocks.append(part.data)
            case Thinking(provider=provider, data={"type": "thinking"}) if provider == thinking_of:
                blocks.append({**part.data, "thinking": part.text})
            case _:
                pass
    return blocks if said else []


def _thinking_options(request: ModelRequest, profile: ModelProfile, *, keep_thinking: bool) -> JsonObject:
    """Return `thinking` and `output_config` for a level of thought; nothing where the model is left to itself.

    `display` asks for a readable summary: newer models would else think in silence. Sampling parameters are never sent,
    since thinking forbids them and newer models refuse them.
    """
    level, kind = request.thought_level, profile.thinking
    if kind == "budget":
        # The provider's cache holds nothing of the messages for another budget, so there is one for each level. A tool
        # call in the history has to come after its thinking, which may have been left out.
        budget = min(_BUDGETS.get(level, 0), profile.max_output_tokens // 2, profile.context_window // _BUDGET_SHARE)
        fits = budget >= _LEAST_BUDGET and budget * 3 <= request.max_output_tokens * 2
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if fits and keep_thinking else {}
    if kind in ("none", "effort") or (kind == "adaptive" and level not in _BUDGETS):
        return {}
    if kind == "adaptive-default" and level == "off":
        return {"thinking": {"type": "disabled"}}
    effort: JsonObject = {"output_config": {"effort": "low" if level == "off" else level}} if level else {}
    return {"thinking": {"type": "adaptive", "display": "summarized"}, **effort}


class _MessagesFold(Fold):
    """Folds the events of one stream into deltas and the answer."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: dict[int, JsonObject] = {}
        self._grown: defaultdict[tuple[int, str], StringIO] = defaultdict(StringIO)
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
                self._stop = get_text(get_object(event, "delta"), "stop_reason") or self._stop
                self._count(get_object(event, "usage"))
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
        for (index, key), text in self._grown.items():
            self._blocks[index][key] = text.getvalue()
        parts = [part for index in sorted(self._blocks) if (part := self._part(index)) is not None]
        compacted: CompactedBlock | None = None
        for block in self._blocks.values():
            if block.get("type") == "compaction" and (text := get_text(block, "content")):
                compacted = CompactedBlock(self._provider, block, text)
        return build_answer(parts, self._stop, self._counted(), compacted)

    def _extend(self, index: int, delta: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        for key in _GROWING:
            if text := get_text(delta, key):
                self._grown[index, key].write(text)
                if key == "partial_json":
                    check_arguments(self._grown[index, key].tell())
        if delta.get("type") == "compaction_delta":
            self._blocks[index] |= {key: delta[key] for key in delta if key != "type"}
        if text := get_text(delta, "text"):
            return (TextDelta(text),)
        return (ThinkingDelta(text),) if (text := get_text(delta, "thinking")) else ()

    def _count(self, usage: JsonObject) -> None:
        """Replace earlier counts by later ones, since they are cumulative. Null is ignored, and so is 0, which some
        gateways send for an unknown count."""
        self._usage |= {key: count for key, count in usage.items() if count}

    def _counted(self) -> Usage:
        iterations = get_objects(self._usage, "iterations")
        compacts = any(iteration.get("type") == "compaction" for iteration in iterations)
        counts = iterations if compacts else [self._usage]  # the other fields leave compactions out
        keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return Usage(*(sum(get_int(count, key) for count in counts) for key in keys))

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
                return tool_call(get_text(block, "id"), get_text(block, "name"), get_text(block, "partial_json"))
            case _:
                return None
