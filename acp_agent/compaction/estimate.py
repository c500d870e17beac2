"""How many tokens a context takes: the provider's last count, and an estimate of what came since.

Four characters a token is wrong by a third either way for a given text, but right enough for what no provider has
counted yet; wherever a provider's count exists, it wins, and it calibrates the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import assert_never

from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import (
    Image,
    Message,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
)
from acp_agent.llm.provider import ToolDefinition

CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS = 1_600
"""What a full-size image costs with the large providers."""
MESSAGE_TOKENS = 4
"""Role and separators of one message."""


def estimate_text(text: str) -> int:
    """Tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """Tokens of one message with all its parts."""
    return MESSAGE_TOKENS + sum(_estimate_part(part) for part in message.parts)


def estimate_messages(messages: Iterable[Message]) -> int:
    """Tokens of several messages."""
    return sum(estimate_message(message) for message in messages)


def estimate_prefix(system: str, tools: Sequence[ToolDefinition]) -> int:
    """Tokens of what stands before the messages."""
    schemas = sum(len(tool.name) + len(tool.description) + len(json.dumps(tool.input_schema)) for tool in tools)
    return estimate_text(system) + -(-schemas // CHARACTERS_PER_TOKEN)


def used_tokens(context: Context, prefix: int) -> int:
    """Tokens that the context takes now.

    :param prefix: tokens of the system prompt and the tools, which count where no provider has counted them yet.
    """
    if context.baseline:
        since = (entry.message for entry in context.entries if entry.seq > context.baseline_seq)
        return context.baseline + estimate_messages(since)
    if not context.entries:
        return 0
    return prefix + estimate_messages(context.messages)


def _estimate_part(part: Text | Image | Resource | ResourceLink | Thinking | ToolCall) -> int:
    match part:
        case Text():
            return estimate_text(part.text)
        case Image():
            return IMAGE_TOKENS
        case Resource():
            return estimate_text(part.uri) + estimate_text(part.text or part.blob or "")
        case ResourceLink():
            return estimate_text(part.uri) + estimate_text(part.name)
        case Thinking():
            # What is sent back is the provider's own form, where there is one.
            return estimate_text(json.dumps(part.data)) if part.data else estimate_text(part.text)
        case ToolCall():
            return estimate_text(part.name) + estimate_text(part.invalid or json.dumps(part.arguments))
        case _:
            assert_never(part)
