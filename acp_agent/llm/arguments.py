"""The arguments of a tool call: collected from a stream, read as JSON, and sent back to a provider."""

from __future__ import annotations

import json

from acp_agent.conversation.messages import JsonObject, ToolCall
from acp_agent.conversation.strict_json import is_finite, parse_json

MAX_ARGUMENTS = 1024 * 1024
"""Characters of one call's arguments. No model's longest answer has as many; one that repeats itself has no end."""
_DROPPED = f"(dropped: longer than {MAX_ARGUMENTS:,} characters)"
"""Takes the place of longer arguments. It is no JSON, so that the call is a bad one wherever it is read."""


class ArgumentsTooLongError(Exception):
    """A call's arguments have passed `MAX_ARGUMENTS`, and the rest of the stream is not to be read."""


class PartialArguments:
    """The arguments of one call while they stream."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str) -> None:
        """Append a piece.

        :raises ArgumentsTooLongError: together they are too long; all of them are dropped.
        """
        self._size += len(piece)
        if self._size > MAX_ARGUMENTS:
            self._pieces = [_DROPPED]
            raise ArgumentsTooLongError
        self._pieces.append(piece)

    @property
    def text(self) -> str:
        """The pieces, joined."""
        return "".join(self._pieces)


def tool_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """Return a call with these arguments; `invalid` keeps those that are no JSON object."""
    if not arguments.strip():
        return ToolCall(call_id, name)
    if len(arguments) > MAX_ARGUMENTS:
        arguments = _DROPPED
    value = _object_or_fault(arguments)
    return ToolCall(call_id, name, invalid=arguments) if isinstance(value, str) else ToolCall(call_id, name, value)


def arguments_fault(invalid: str) -> str:
    """Tell the model what is wrong with arguments that `tool_call` could not read."""
    if invalid == _DROPPED:
        return (
            f"the arguments were longer than {MAX_ARGUMENTS:,} characters (1 MiB), so the call was broken off and did"
            " not run. Nothing of them was kept. Send less in one call, such as a long file in several pieces."
        )
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
