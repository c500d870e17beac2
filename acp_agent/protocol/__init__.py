"""The names and shapes of the Agent Client Protocol's messages: a folder per version,
and what they share.

Importing it costs nothing: pydantic is loaded with `wire` and the models of a version,
when they are used.
"""

from __future__ import annotations

from typing import TypeAlias

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
)
"""What `json.loads` returns."""

JsonObject: TypeAlias = "dict[str, JsonValue]"
"""A JSON object as a plain dict, such as the params of a request or one
`session/update`.
"""


def as_object(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty one: for what is read
    leniently.
    """
    return value if isinstance(value, dict) else {}
