"""The vocabulary of the Agent Client Protocol: one sub-room per protocol version, and what they share.

Knows the names and shapes of messages, not how they travel (`acp_agent.jsonrpc`) nor what they do (`acp_agent.server`).
Importing it costs nothing: pydantic is loaded by `wire` and by the models of a version, when they are used.
"""

from __future__ import annotations

from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""What `json.loads` returns."""

JsonObject: TypeAlias = "dict[str, JsonValue]"
"""A JSON object as a plain dict, such as the params of a request or one `session/update`."""


def as_object(value: JsonValue) -> JsonObject:
    """The object that this is; an empty one where it is none, as what is read leniently asks for."""
    return value if isinstance(value, dict) else {}


__all__ = ["JsonObject", "JsonValue", "as_object"]
