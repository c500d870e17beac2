"""Anthropic's Messages API: their stream to our events. A fold.

Source: the types of the anthropic SDK 2.12, and the pages on streaming and on-demand compaction of platform.claude.com.
Knows neither HTTP nor the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from acp_agent.conversation.messages import AssistantPart, JsonObject, StopReason, Text, Thinking, ToolCall, Usage
from acp_agent.llm.arguments import PartialArguments, tool_call
from acp_agent.llm.failures import CallFailed
from acp_agent.llm.json_access import get_int, get_object, get_objects, get_text
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta
from acp_agent.llm.transport import stream_error

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause_turn",
    "model_context_window_exceeded": "context_overflow",
}


@dataclass(slots=True)
class _Block:
    start: JsonObject
    pieces: list[str]
    signature: str = ""
    arguments: PartialArguments = field(default_factory=PartialArguments)


class MessagesFold:
    """Folds the events of one stream into deltas and the answer."""

    def __init__(self, provider: str) -> None:
        self.complete = False
        self._provider = provider
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._usage: dict[str, int] = {}
        self._iterations: list[JsonObject] = []

    @property
    def compaction(self) -> JsonObject | None:
        """The block of a compaction, as it is to be sent back; None where no summary came."""
        blocks = (block.start for block in self._blocks.values() if block.start.get("type") == "compaction")
        return next((block for block in blocks if get_text(block, "content")), None)

    @property
    def stopped(self) -> str:
        """Why the answer ended, in the API's words."""
        return self._stop

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Take one event.

        :raises CallFailed: it is an error.
        :raises ArgumentsTooLongError: a call's arguments are too long.
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
                if not self._stop:  # nobody knows whether that was all
                    raise CallFailed("dropped", "the stream ended without a reason to stop")
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
                block.arguments.add(get_text(delta, "partial_json"))
            case "compaction_delta":
                block.start = {**block.start, **{key: delta[key] for key in delta if key != "type"}}
            case "signature_delta":
                block.signature += get_text(delta, "signature")
            case _:
                pass
        return ()

    def _count(self, usage: JsonObject) -> None:
        """Counts are cumulative, so that a later one replaces an earlier one; null says nothing, and nor does the 0 of
        gateways that fill in what they do not know."""
        self._usage |= {key: count for key in usage if (count := get_int(usage, key))}
        self._iterations = get_objects(usage, "iterations") or self._iterations

    def _final_usage(self) -> Usage:
        counted: JsonObject = dict(self._usage)
        counts = [counted]
        if any(iteration.get("type") == "compaction" for iteration in self._iterations):
            counts = self._iterations  # the other fields leave compactions out
        return Usage(
            input_tokens=sum(get_int(count, "input_tokens") for count in counts),
            output_tokens=sum(get_int(count, "output_tokens") for count in counts),
            cache_read_tokens=sum(get_int(count, "cache_read_input_tokens") for count in counts),
            cache_write_tokens=sum(get_int(count, "cache_creation_input_tokens") for count in counts),
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
                # Some gateways send the whole input with the start of the block.
                arguments = block.arguments.text or json.dumps(get_object(start, "input"))
                return tool_call(get_text(start, "id"), get_text(start, "name"), arguments)
            case _:
                return None
