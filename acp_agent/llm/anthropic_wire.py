"""Anthropic's Messages API: our request to theirs. Pure functions.

Source: the types of the anthropic SDK 2.12, and the pages on prompt caching, thinking, preserved thinking and on-demand
compaction of platform.claude.com. Knows neither HTTP nor the SDK.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.llm.arguments import arguments_of
from acp_agent.llm.parts import (
    base64_of,
    newest_compacted,
    result_parts,
    user_parts,
    wire_name,
    without,
)
from acp_agent.llm.profiles import ModelProfile, api_id, profile
from acp_agent.llm.provider import ModelRequest, ToolDefinition

COMPACTION_BETA = "compact-2026-09-04"
_EXTENDED_BETA = "context-1m-2025-08-07"
"""Value of the header `anthropic-beta` for compacting, and for each request with a compacted block in it."""

_BREAKPOINT: JsonValue = {"type": "ephemeral"}
_BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
_BUDGET_STEPS = (12_288, 4_096, 1_024)
"""What a budget goes down to; the last is the least that the API takes."""
_BUDGET_SHARE = 8
"""The part of the window that thoughts may take: one eighth fits behind a context that fills the usable window."""


def request_body(
    request: ModelRequest,
    profile: ModelProfile,
    provider: str,
    *,
    keep_thinking: bool = True,
    compacted: CompactedBlock | None = None,
) -> JsonObject:
    """The body of `POST /v1/messages`, without `stream`.

    Two requests of which one continues the other are equal up to where the shorter one ends, but for the moving
    `cache_control` marks: one on the last tool, one on the system prompt, two on the newest user messages.

    :param provider: name of the provider; only thinking that it made itself is sent.
    :param keep_thinking: False leaves that out as well, for a conversation whose thinking the API no longer accepts.
    :param compacted: the block to send in the API's own form, see `compacted_of`; needs the header `COMPACTION_BETA`.
    """
    body: JsonObject = {"model": api_id(request.model), "max_tokens": request.max_output_tokens}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _BREAKPOINT}]
    if request.tools:
        body["tools"] = _tools(request.tools)
    kept = provider if keep_thinking else None
    messages = wire_messages(request.messages, kept, images=profile.images, compacted=compacted)
    _mark(messages)
    body["messages"] = list[JsonValue](messages)
    body |= thinking_options(request, profile, keep_thinking=keep_thinking)
    return body


def compacted_of(messages: Iterable[Message], provider: str) -> CompactedBlock | None:
    """What the API itself compacted last and takes back; None where there is nothing of it."""
    block = newest_compacted(messages, provider)
    return block if block is not None and block.data.get("type") == "compaction" else None


def wire_messages(
    messages: Iterable[Message],
    thinking_of: str | None,
    *,
    images: bool = True,
    compacted: CompactedBlock | None = None,
) -> list[JsonObject]:
    """Messages in their words: user and assistant take turns, and results open the user's.

    :param thinking_of: the provider whose thinking is sent; None sends none.
    :param images: whether the model reads images.
    :param compacted: see `request_body`; the API wants it first, in a message of the assistant.
    """
    wire: list[JsonObject] = []
    if compacted is not None:
        _append(wire, "assistant", [dict(compacted.data)])
    for message in messages:
        match message:
            case UserMessage():
                if (parts := without(message, compacted)) is not None:
                    _append(wire, "user", [_block(part) for part in user_parts(parts, images=images)])
            case ToolResult():
                _append(wire, "user", [_result(message, images=images)])
            case AssistantMessage():
                _append(wire, "assistant", _answer_blocks(message, thinking_of))
    return wire


def compaction_option(instructions: str) -> JsonObject:
    """What makes a request one for compaction.

    :param instructions: take the place of the API's own prompt; at most 16,384 characters. Empty for the API's own.
    """
    option: JsonObject = {"type": "summarize"}
    if instructions.strip():
        option["instructions"] = instructions
    return {"compaction": option}


def window_betas(model: str) -> tuple[str, ...]:
    """Values of the header `anthropic-beta` that open the window which a model's id asks for; none where the model has
    it anyway.

    Source: https://platform.claude.com/docs/en/build-with-claude/context-windows
    """
    return (_EXTENDED_BETA,) if profile(api_id(model)).context_window < profile(model).context_window else ()


def count_body(body: JsonObject) -> JsonObject:
    """What of a request's body is sent to have its tokens counted."""
    return {key: value for key, value in body.items() if key != "max_tokens"}


def thinking_options(request: ModelRequest, profile: ModelProfile, *, keep_thinking: bool = True) -> JsonObject:
    """`thinking` and `output_config` for a level of thought; nothing where the model is left to itself.

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
    """Tokens for thoughts; 0 where there is no room for any.

    The bound of an answer shrinks with each request as the window fills, and the provider's cache holds nothing of the
    messages for another budget: so it is held for as long as it is two thirds of the bound at most, and then goes down
    by a wide step.

    :param max_tokens: of the answer, its thoughts included.
    """
    full = min(_BUDGETS.get(level, 0), profile.max_output_tokens // 2, profile.context_window // _BUDGET_SHARE)
    steps = (full, *(step for step in _BUDGET_STEPS if step < full))
    return next((step for step in steps if step >= _BUDGET_STEPS[-1] and step * 3 <= max_tokens * 2), 0)


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
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": base64_of(part)}}


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
