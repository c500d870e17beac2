"""Reads answers of the Messages API, from Anthropic and from gateways.

Parsing is lenient; see `calls.py` for tool calls. An answer without a stop reason is
complete if no tool call is cut off and `message_stop` has arrived, or if all blocks
have ended and either `[DONE]` follows or one of the blocks is a call.

Source: the types of the anthropic SDK 2.12, and the page on streaming at
platform.claude.com.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from io import StringIO

from acp_agent.conversation.messages import (
    AssistantPart,
    CompactedBlock,
    JsonObject,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from acp_agent.conversation.strict_json import (
    get_int,
    get_object,
    get_objects,
    get_text,
)
from acp_agent.llm.adapters.calls import (
    ArgumentsState,
    CallPieces,
    is_ended_by_calls,
    is_ended_by_malformed,
)
from acp_agent.llm.adapters.fold import Dropped, Fold, build_answer
from acp_agent.llm.errors import CallFailed, stream_error
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta

_GROWING = ("text", "thinking", "signature")
"""Members of a block that arrive in pieces."""
_OTHER_MODEL = "model_binding_mismatch"
"""The API's reason for dropping another model's reasoning. The reasoning is valid again
once that model is called.
"""


class _BlockPieces:
    """One content block, as received so far.

    :param index: the block's index in the API, which determines the order of blocks.
    :param start: the block as given in its first event.
    :ivar is_ended: whether the event that ends the block has arrived.
    """

    def __init__(self, index: int, start: JsonObject) -> None:
        self.index = index
        self.is_ended = False
        self.id = get_text(start, "id")
        self.type = get_text(start, "type")
        self.call = CallPieces(self.id, get_text(start, "name"))
        self._members = {
            key: value for key, value in start.items() if key not in _GROWING
        }
        self._grown: defaultdict[str, StringIO] = defaultdict(StringIO)
        if self.type == "tool_use":
            # Some gateways send the whole input in this event, as an object or as JSON
            # text.
            given = self._members.pop("input", None)
            self._whole_input = given if isinstance(given, str | dict) else None

    def is_repeated_by(self, start: JsonObject) -> bool:
        """Return whether a later first event with the same index repeats this block's.

        A call with a different input is another call, even if a gateway gives both the
        same ID.
        """
        if not self.id or (self.id, self.type) != (start.get("id"), start.get("type")):
            return False
        given = start.get("input")
        return self.type != "tool_use" or not given or given == self._whole_input

    def add(self, delta: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Add a piece, and return the deltas to show."""
        if self.type == "tool_use" and "partial_json" in delta:
            self.call.add(delta["partial_json"])
        for key in _GROWING:
            if text := get_text(delta, key):
                self._grown[key].write(text)
        if delta.get("type") == "compaction_delta":
            self._members |= {key: delta[key] for key in delta if key != "type"}
        if text := get_text(delta, "text"):
            return (TextDelta(text),)
        return (ThinkingDelta(text),) if (text := get_text(delta, "thinking")) else ()

    def has_content(self) -> bool:
        """Return whether the block has content. Blocks of text or thinking are empty
        until a piece arrives; other blocks always have content.
        """
        return self.type not in ("text", "thinking") or bool(self._grown)

    def state(self) -> ArgumentsState:
        """Return the state of the arguments of this block, which is a tool call."""
        if self._whole_input and not self.call.is_begun:
            given = CallPieces()
            given.add(self._whole_input)
            return given.state()
        return self.call.state()

    def block(self) -> JsonObject:
        """Return the block. A tool call's block has no input."""
        return self._members | {
            key: text.getvalue() for key, text in self._grown.items()
        }

    def tool_call(self) -> ToolCall:
        """Return the block as a tool call."""
        if not self.call.is_begun or (
            self._whole_input and self.call.text.strip() == "{}"
        ):
            self.call.add(self._whole_input)
        return self.call.call(keep_raw=False)


class MessagesFold(Fold):
    """Folds the events of one stream, or the single object of an answer that is not
    streamed.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: list[_BlockPieces] = []
        self._by_index: dict[int, _BlockPieces] = {}
        self._stop = ""
        self._explanation = ""
        self._usage: JsonObject = {}

    @property
    def is_empty(self) -> bool:
        return not self._blocks

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        match event.get("type"):
            case "content_block_start":
                return self._begin(
                    self._index(event), get_object(event, "content_block")
                )
            case "content_block_delta":
                return self._extend(self._index(event), get_object(event, "delta"))
            case "content_block_stop":
                if block := self._by_index.get(self._index(event)):
                    block.is_ended = True
            case "message_start":
                message = get_object(event, "message")
                self._count(get_object(message, "usage"))
                self._note_dropped(message)
            case "message_delta":
                self._note_dropped(event)  # present only if another model took over
                self._note_stop(get_object(event, "delta"))
                self._count(get_object(event, "usage"))
            case "message_stop":
                self.complete = bool(self._stop) or self._is_whole()
                if not self.complete:
                    raise CallFailed(
                        "dropped", "the stream ended without a stop reason"
                    )
            case "message":
                return self._take_whole(event)
            case "error":
                raise stream_error(event)
            case _:
                pass
        return ()

    def close(self, *, done: bool) -> None:
        # Some gateways omit the last event. The stop reason arrives after all content.
        states = self._states()
        is_stopped = bool(self._stop) and "cut" not in states
        all_ended = all(block.is_ended for block in self._blocks)
        is_done = done and all_ended and self._is_whole()
        self.complete = (
            is_stopped
            or is_done
            or is_ended_by_calls(states, all_ended=all_ended)
            or is_ended_by_malformed(states)
        )

    def answer(self) -> Answered:
        blocks = sorted(self._blocks, key=lambda each: each.index)
        parts = [part for block in blocks if (part := self._part(block)) is not None]
        compacted: CompactedBlock | None = None
        for block in map(_BlockPieces.block, blocks):
            if block.get("type") == "compaction" and (
                text := get_text(block, "content")
            ):
                compacted = CompactedBlock(self._provider, block, text)
        return build_answer(
            parts, self._stop, self._counted(), compacted, self._explanation
        )

    def _states(self) -> list[ArgumentsState]:
        """Return the state of the arguments of each call."""
        return [block.state() for block in self._blocks if block.type == "tool_use"]

    def _is_whole(self) -> bool:
        """Return whether the blocks are a complete answer if nothing follows them. They
        are if at least one of them has content and no call is cut off.
        """
        has_content = any(block.has_content() for block in self._blocks)
        return has_content and "cut" not in self._states()

    def _index(self, event: JsonObject) -> int:
        """Return the index of an event's block. An event without an index begins a
        block or extends the newest block.
        """
        if "index" in event or not self._blocks:
            return get_int(event, "index")
        is_new = event.get("type") == "content_block_start"
        return self._blocks[-1].index + is_new

    def _begin(
        self, index: int, start: JsonObject
    ) -> Iterable[TextDelta | ThinkingDelta]:
        known = self._by_index.get(index)
        if known is not None and known.is_repeated_by(start):
            return ()
        block = self._by_index[index] = _BlockPieces(index, start)
        self._blocks.append(block)
        return block.add(
            {key: value for key, value in start.items() if key in _GROWING}
        )

    def _extend(
        self, index: int, delta: JsonObject
    ) -> Iterable[TextDelta | ThinkingDelta]:
        block = self._by_index.get(index)
        if block is None:
            kind = {"text_delta": "text", "thinking_delta": "thinking"}.get(
                get_text(delta, "type")
            )
            if kind is None:
                return ()
            block = self._by_index[index] = _BlockPieces(index, {"type": kind})
            self._blocks.append(block)
        return block.add(delta)

    def _take_whole(self, message: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        shown: list[TextDelta | ThinkingDelta] = []
        for index, block in enumerate(get_objects(message, "content")):
            shown += self._begin(index, block)
        self._count(get_object(message, "usage"))
        self._note_dropped(message)
        self._note_stop(message)
        self.complete = bool(self._stop) or self._is_whole()
        return shown

    def _note_stop(self, said: JsonObject) -> None:
        self._stop = get_text(said, "stop_reason") or self._stop
        details = get_object(said, "stop_details")
        told = [get_text(details, key).strip() for key in ("category", "explanation")]
        self._explanation = ": ".join(filter(None, told)) or self._explanation

    def _note_dropped(self, message: JsonObject) -> None:
        if "input_transformations" in message:
            self.dropped = tuple(
                Dropped(get_text(each, "path"), get_text(each, "reason"))
                for each in get_objects(message, "input_transformations")
                if each.get("type") == "thinking_dropped"
                and each.get("reason") != _OTHER_MODEL
            )

    def _count(self, usage: JsonObject) -> None:
        """Replace earlier counts with later ones, since counts are cumulative.

        Null is ignored, and so is 0, which some gateways send for an unknown count.
        """
        self._usage |= {key: count for key, count in usage.items() if count}

    def _counted(self) -> Usage:
        iterations = get_objects(self._usage, "iterations")
        compacts = any(
            iteration.get("type") == "compaction" for iteration in iterations
        )
        # The other fields do not include the cost of compactions.
        counts = iterations if compacts else [self._usage]
        keys = (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        )
        return Usage(*(sum(get_int(count, key) for count in counts) for key in keys))

    def _part(self, pieces: _BlockPieces) -> AssistantPart | None:
        block = pieces.block()
        match pieces.type:
            case "text":
                return Text(text) if (text := get_text(block, "text")) else None
            case "thinking":
                data: JsonObject = (
                    {"type": "thinking", "signature": block["signature"]}
                    if "signature" in block
                    else {}
                )
                return Thinking(get_text(block, "thinking"), self._provider, data)
            case "redacted_thinking":
                return Thinking("", self._provider, block)
            case "tool_use":
                return pieces.tool_call()
            case _:
                return None
