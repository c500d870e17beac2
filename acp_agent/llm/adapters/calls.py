"""Assembles streamed tool calls, including those from servers that deviate from the
original APIs.

Known deviations: arguments as an object instead of text, as JSON text inside JSON text,
after a meaningless empty object, or repeated from the beginning in every piece; names
that arrive in pieces; names and ids that are repeated, late or missing; several calls
under one index, or calls without an index; a different id in each piece.

Sources: the API references of OpenAI, Anthropic and Ollama for the intended format; the
issue trackers of vLLM, LiteLLM, llama.cpp and Ollama for what servers actually send.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonObject, JsonValue, ToolCall
from acp_agent.conversation.strict_json import get_object, get_text
from acp_agent.llm.adapters.cut_json import is_cut_object
from acp_agent.llm.parts import check_arguments, is_whole_object, tool_call

_EXTRA = "extra_content"

ArgumentsState: TypeAlias = Literal["none", "whole", "cut", "malformed"]
"""State of the arguments of a tool call.

- `none`: no arguments have arrived.
- `whole`: the arguments are one JSON object.
- `cut`: the arguments are the beginning of a JSON object.
- `malformed`: no further text could turn the arguments into a JSON object, so repeating
  the request would not help.
"""


class CallPieces:
    """One call, as received so far.

    :ivar id: the provider's id; empty until it arrives.
    :ivar name: the tool's name; empty until it arrives.
    :ivar extra: Gemini's signature, in Chat Completions.
    """

    __slots__ = (
        "_last",
        "_length",
        "_object",
        "_repeats",
        "_texts",
        "extra",
        "id",
        "name",
    )

    def __init__(self, call_id: str = "", name: str = "") -> None:
        self.id = call_id
        self.name = name
        self.extra: JsonObject = {}
        self._texts: list[str] = []
        self._length = 0
        self._object = ""
        self._last = ""
        self._repeats = True
        """Whether each piece so far has started with the whole previous piece."""

    @property
    def text(self) -> str:
        """Return the arguments so far, joined from the pieces of text."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    @property
    def is_begun(self) -> bool:
        """Return whether any arguments have arrived."""
        return bool(self._texts or self._object)

    def add(self, arguments: JsonValue) -> None:
        """Add a piece of the arguments.

        :param arguments: text that continues the previous pieces, or the complete
            arguments as an object.
        :raises ArgumentsTooLongError: if the arguments are now too long.
        """
        if isinstance(arguments, str):
            if arguments:
                self._repeats = self._repeats and arguments.startswith(self._last)
                self._last = arguments
                self._texts.append(arguments)
                self._length += len(arguments)
        elif arguments:
            self._object = text_of(arguments)
        check_arguments(max(self._length, len(self._object)))

    def is_whole(self) -> bool:
        """Return whether the arguments so far are one JSON object."""
        if self._object:
            return True
        text = self.text
        # Most incomplete texts end differently, so they need no parsing.
        return text.rstrip()[-1:] in ("}", '"') and is_whole_object(text)

    def state(self) -> ArgumentsState:
        """Return the state of the arguments if no more pieces arrive."""
        if not self.is_begun:
            return "none"
        readings = [each for each in self._readings() if each.strip()]
        if any(is_whole_object(each) for each in readings):
            return "whole"
        is_cut = any(is_cut_object(each) for each in readings)
        return "cut" if is_cut or not readings else "malformed"

    def is_repeated_by(self, arguments: JsonValue) -> bool:
        """Return whether a piece repeats all arguments of a complete call. Some servers
        do this at the end of a stream.
        """
        if not isinstance(arguments, str) or len(arguments) != self._length:
            return False
        return arguments == self.text and self.is_whole()

    def call(self, *, keep_raw: bool = True) -> ToolCall:
        """Return the call; see `parts.tool_call`."""
        return tool_call(self.id, self.name, *self._readings(), keep_raw=keep_raw)

    def _readings(self) -> list[str]:
        """Return the possible readings of the arguments, the likeliest first."""
        joined = self.text
        readings = [joined, self._object]
        # Servers that send the arguments as an object may also send this text.
        if joined.strip() == "{}":
            readings.reverse()
        if joined.startswith("{}"):
            readings.append(joined[2:])
        if self._repeats and self._last != joined:
            readings.append(self._last)
        return readings


class ChatCalls:
    """The calls of one Chat Completions answer. Each piece identifies its call by
    index, id or name.

    :param tools: names of the tools that the request offered. They help to tell a name
        that arrives in pieces from a repeated name and from the name of another call.
    """

    def __init__(self, tools: Collection[str] = ()) -> None:
        self._tools = frozenset(filter(None, tools))
        self._calls: list[CallPieces] = []
        self._by_index: dict[int, CallPieces] = {}

    def __iter__(self) -> Iterator[CallPieces]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, delta: JsonObject) -> None:
        """Add a piece of a call.

        :raises ArgumentsTooLongError: if the call's arguments are now too long.
        """
        function = get_object(delta, "function") or delta
        call_id = get_text(delta, "id")
        name = get_text(function, "name")
        arguments = function.get("arguments")
        index = _index_of(delta)
        call = self._call_of(index, call_id)
        joined = "" if call is None else joined_name(call.name, name, self._tools)
        if joined and call is not None:
            call.name = name = joined
        if call is None or _begins_another(
            call, call_id, name, arguments, has_index=index is not None
        ):
            call = CallPieces()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or name
        call.extra = get_object(delta, _EXTRA) or call.extra
        if not call.is_repeated_by(arguments):
            call.add(arguments)

    def _call_of(self, index: int | None, call_id: str) -> CallPieces | None:
        """Return the call that a piece may belong to: the one with its index, else the
        one with its id, else the newest call.
        """
        named = next(
            (call for call in self._calls if call_id and call.id == call_id), None
        )
        if index is None:
            return named or (self._calls[-1] if self._calls else None)
        at_index = self._by_index.get(index)
        if at_index is not None and named is not None and at_index.id != call_id:
            return named
        return at_index


def is_ended_by_malformed(states: Sequence[ArgumentsState]) -> bool:
    """Return whether an answer with these calls is complete because some arguments are
    malformed and no call is cut off. Use this for an answer without an end event.

    A stream that breaks off leaves arguments that are cut. So the model itself wrote
    the malformed arguments, and only the model can correct them.
    """
    return "malformed" in states and "cut" not in states and "none" not in states


def is_ended_by_calls(states: Sequence[ArgumentsState], *, all_ended: bool) -> bool:
    """Return whether an answer with these calls is complete because all of its parts
    have ended and no call is cut off. Use this for an answer without an end event.

    :param all_ended: whether an event has arrived for the end of each part.
    """
    return all_ended and bool(states) and "cut" not in states


def joined_name(begun: str, piece: str, tools: Collection[str]) -> str:
    """Return the name so far extended by one more piece, or an empty string if the
    piece does not continue the name.

    Most servers send a name once, and some repeat it in every piece. Gemini and Mistral
    split it. The API allows this, since each text in a delta continues the previous
    text. A few servers repeat the whole name so far.

    :param tools: names of the tools that the request offered; the result is one of them
        or a prefix of one of them.
    """
    is_name = begun in tools
    if not begun or piece == "" or (is_name and piece in tools):
        return ""
    if _begins_tool(begun + piece, tools):
        return begun + piece
    if not is_name and piece.startswith(begun) and _begins_tool(piece, tools):
        return piece
    return ""


def _begins_tool(text: str, tools: Iterable[str]) -> bool:
    return any(tool.startswith(text) for tool in tools)


def text_of(arguments: JsonValue) -> str:
    """Return arguments that arrived as a JSON value, encoded as text."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _index_of(delta: JsonObject) -> int | None:
    index = delta.get("index")
    if isinstance(index, str) and index.isdecimal():
        return int(index[:6])
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _begins_another(
    call: CallPieces, call_id: str, name: str, arguments: JsonValue, *, has_index: bool
) -> bool:
    """Return whether a piece begins a new call instead of continuing the one that its
    index or position suggests.
    """
    text = (
        arguments
        if isinstance(arguments, str)
        else text_of(arguments)
        if arguments
        else ""
    )
    begins = text.lstrip().startswith("{")
    is_renamed = bool(name) and name != call.name
    if call_id and call.id and call_id != call.id:
        # Some servers send a different id with each piece.
        if call.is_begun:
            return call.is_whole() or (bool(name) and begins)
        return is_renamed or not has_index
    if not name or not call.name:
        return False
    if call_id and call_id == call.id:
        return (
            begins
            and call.is_whole()
            and not call.is_repeated_by(arguments)
            and is_whole_object(text)
        )
    if not call.is_begun:
        return is_renamed
    if call.is_whole():
        return is_renamed or (bool(text.strip()) and not call.is_repeated_by(arguments))
    return begins and is_renamed
