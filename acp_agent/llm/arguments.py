"""The arguments of a tool call: read as JSON, and sent back to a provider."""

from __future__ import annotations

import json

from acp_agent.conversation.messages import JsonObject, ToolCall
from acp_agent.conversation.strict_json import is_finite, parse_json


def tool_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """Return a call with these arguments; `invalid` keeps those that are no JSON object."""
    if not arguments.strip():
        return ToolCall(call_id, name)
    value = _object_or_fault(arguments)
    return ToolCall(call_id, name, invalid=arguments) if isinstance(value, str) else ToolCall(call_id, name, value)


def arguments_fault(invalid: str) -> str:
    """Tell the model what is wrong with arguments that `tool_call` could not read."""
    return f"the arguments are not a JSON object: {_object_or_fault(invalid)}. Send them again as one JSON object."


def arguments_of(call: ToolCall) -> JsonObject:
    """Return what a call's arguments are sent back as: an empty object in place of those that are not legal JSON, which
    a log of an earlier version may hold."""
    return call.arguments if call.invalid is None and is_finite(call.arguments) else {}


def arguments_text(call: ToolCall) -> str:
    """Return the same as JSON text, always in the same bytes."""
    return json.dumps(arguments_of(call), ensure_ascii=False, separators=(",", ":"))


def _object_or_fault(text: str) -> JsonObject | str:
    try:
        value = parse_json(text)
    except ValueError as error:
        return str(error)
    return value if isinstance(value, dict) else "they are JSON of another kind"
