"""What a model says in a test, in no provider's words.

Reply("Hello")                                                     # one delta
Reply(["Hel", "lo"], thinking="Greet.", usage=Usage(input=900, output=5,
cache_read=800)) Reply(tool_calls=[ToolCall("read", {"path": "a.py"})])             #
stop becomes "tool_use" Reply(["a", "b"], hold=event, hold_after=1)
# sends "a", waits for the event, then "b" Reply(["a", "b"], drop_after=1)
# the connection is cut after "a" Reply(http_status=429, headers={"retry-after": "0"})
# 401, 500, 529 ... Reply(sse_error="overloaded_error", fail_after=2)                  #
an error event after two deltas Reply(hang=True)
# begins to answer and never goes on Reply("Done.", thinking="First.",
thoughts=["Second."])            # two blocks of thinking before the text
Reply(tool_calls=[one, two], between=["", "So far so good."])      # a block of thinking
before the second call Reply("Sure.", compactions=0)
# answers where it was asked to compact (OpenAI)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import anyio

PartKind = Literal["thinking", "text", "tool"]
BEFORE_HEADERS = -1


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model wants a tool to run.

    :ivar input: the arguments; a text is sent as it stands, so that it can be broken
        JSON.
    :ivar id: the provider's id; None makes a fresh one.
    """

    name: str
    input: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None

    @property
    def arguments(self) -> str:
        return self.input if isinstance(self.input, str) else json.dumps(self.input)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `input` counts neither those read from the cache nor those
    written to it.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class Part:
    """One block of an answer with what streams of it.

    :ivar id: of the block; for a tool call, the call's id.
    :ivar seal: the provider's signature of the block; "" lets the dialect make one up.
    """

    kind: PartKind
    id: str
    deltas: Sequence[str]
    name: str = ""
    seal: str = ""

    @property
    def text(self) -> str:
        return "".join(self.deltas)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one model call. Deltas are pieces of thinking, then of text, then
    of tool calls' arguments.

    :ivar stop: `end_turn`, `tool_use`, `max_tokens`, `refusal`, `content_filter`,
        `pause_turn`, `model_context_window_exceeded` (which OpenAI's dialects call what
        they call `max_tokens`) and others that the dialect has; None is `tool_use` with
        tool calls, else `end_turn`.
    :ivar usage: None estimates it from the length of the request and of the answer,
        four characters a token.
    :ivar delay: seconds before each delta.
    :ivar hold: wait for this event after `hold_after` deltas; `BEFORE_HEADERS` waits
        before anything is answered.
    :ivar drop_after: cut the connection after so many deltas; `BEFORE_HEADERS` cuts it
        without an answer.
    :ivar http_status: answer with this status and no stream.
    :ivar headers: of the answer.
    :ivar body: of an answer that is no stream; None is the dialect's usual error
        object.
    :ivar sse_error: type of an error event, sent after `fail_after` deltas in place of
        the rest.
    :ivar hang: send no deltas and no end until the client hangs up.
    :ivar thoughts: further blocks of thinking, after `thinking` and before the text.
    :ivar between: a block of thinking before each tool call, in the calls' order; ""
        for none.
    :ivar shown: whether the words of the thinking are sent; its blocks are sent either
        way.
    :ivar seals: signatures by the ids of parts; the dialect makes up the others.
    :ivar stop_details: why the model refused, in Anthropic's format.
    :ivar compactions: how many compaction items the text becomes if the request ends
        with a trigger (OpenAI); 0 ignores the trigger.
    """

    text: str | Sequence[str] = ""
    thinking: str | Sequence[str] = ""
    tool_calls: Sequence[ToolCall] = ()
    stop: str | None = None
    usage: Usage | None = None
    delay: float = 0
    hold: anyio.Event | None = None
    hold_after: int = 0
    drop_after: int | None = None
    http_status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    sse_error: str | None = None
    fail_after: int = 0
    hang: bool = False
    thoughts: Sequence[str] = ()
    between: Sequence[str] = ()
    shown: bool = True
    seals: Mapping[str, str] = field(default_factory=dict[str, str])
    stop_details: Mapping[str, Any] | None = None
    compactions: int = 1

    @property
    def stop_reason(self) -> str:
        return self.stop or ("tool_use" if self.tool_calls else "end_turn")

    def parts(self, number: int) -> list[Part]:
        """The blocks of the answer.

        :param number: of the call, for the ids.
        """
        parts: list[Part] = []
        thoughts = [
            deltas for deltas in map(_deltas, (self.thinking, *self.thoughts)) if deltas
        ]
        for index, deltas in enumerate(thoughts):
            parts.append(
                self._thought(
                    f"rs_{number}_{index}" if index else f"rs_{number}", deltas
                )
            )
        if deltas := _deltas(self.text):
            parts.append(Part("text", f"msg_{number}", deltas))
        for index, call in enumerate(self.tool_calls):
            if deltas := _deltas(
                self.between[index] if index < len(self.between) else ""
            ):
                parts.append(self._thought(f"rs_{number}_before_{index}", deltas))
            half = (len(call.arguments) + 1) // 2
            pieces = [
                piece
                for piece in (call.arguments[:half], call.arguments[half:])
                if piece
            ]
            parts.append(
                Part("tool", call.id or f"call_{number}_{index}", pieces, call.name)
            )
        return [
            replace(part, seal=self.seals[part.id]) if part.id in self.seals else part
            for part in parts
        ]

    def _thought(self, id: str, deltas: Sequence[str]) -> Part:
        return Part("thinking", id, deltas if self.shown else ())

    def usage_for(self, request: Any) -> Usage:
        """`usage`, or the estimate.

        :param request: the call's JSON.
        """
        if self.usage is not None:
            return self.usage
        said = sum(len(part.text) for part in self.parts(0))
        return Usage(input=len(json.dumps(request)) // 4, output=said // 4 + 1)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event.

    :ivar delta: whether it counts as a delta of the reply.
    """

    name: str | None
    data: Mapping[str, Any] | str
    delta: bool = False

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return (
            f"event: {self.name}\n" if self.name else ""
        ).encode() + f"data: {data}\n\n".encode()


def _deltas(text: str | Sequence[str]) -> Sequence[str]:
    return ([text] if text else []) if isinstance(text, str) else text
