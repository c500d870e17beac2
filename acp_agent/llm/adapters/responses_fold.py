"""Reads answers of the Responses API, from OpenAI and from gateways.

Parsing is lenient; see `calls.py` for tool calls. An answer without its last event is
complete if no tool call is cut off, and either `[DONE]` follows or all items are done
and one of them is a call. Source: the types of the openai SDK 3.54.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from acp_agent.conversation.messages import (
    AssistantPart,
    CompactedBlock,
    JsonObject,
    JsonValue,
    Text,
    Thinking,
    ToolCall,
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
    text_of,
)
from acp_agent.llm.adapters.encoding import ModelCall
from acp_agent.llm.adapters.fold import Dropped, Fold, build_answer, openai_usage
from acp_agent.llm.errors import CallFailed, stream_error
from acp_agent.llm.parts import tool_call
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta

ITEMS = "items"
"""The member of a compacted conversation that holds the items returned by the API."""
_EXPECTED_REASONS = ("turn_boundary", "model_mismatch")
"""Expected reasons why the API leaves out reasoning: the model uses only the reasoning
of the current turn, or cannot read the reasoning.
"""
_ORDINARY = ("message", "function_call")
"""Items of an ordinary answer."""
_ORDINARY_EVENTS = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
)
"""Events of an ordinary answer, for gateways that do not announce its items."""
_SENT_BACK = ("id", "type", "encrypted_content")
"""Members of a compaction item that the API accepts back; some servers add others."""


class _ItemPieces:
    """One item of an answer, as received so far.

    :ivar item: the item, as of the newest event.
    :ivar call: the arguments streamed so far; a finished item contains its complete
        arguments.
    :ivar is_done: whether the event that ends the item has arrived.
    """

    def __init__(self, index: int, item: JsonObject) -> None:
        self.index = index
        self.item = item
        self.call = CallPieces()
        self.is_done = False

    def has_id(self, item_id: str) -> bool:
        """Return whether the item has this id; False for an empty id."""
        return bool(item_id) and item_id in (
            self.item.get("id"),
            self.item.get("call_id"),
        )

    def take(self, item: JsonObject) -> None:
        """Update the item from a later event. Values that are empty in the event do not
        replace earlier ones.
        """
        self.item = self.item | {
            key: value for key, value in item.items() if value not in ("", None)
        }

    def has_ended(self) -> bool:
        """Return whether the item has ended. Some gateways send an end event only for
        the arguments of a call, not for its item.
        """
        return self.is_done or bool(self.item.get("arguments"))

    def state(self) -> ArgumentsState:
        """Return the state of the arguments of this item, which is a tool call."""
        if arguments := self.item.get("arguments"):
            given = CallPieces()
            given.add(arguments)
            return given.state()
        return self.call.state()

    def tool_call(self) -> ToolCall:
        """Return the item as a tool call."""
        call_id = get_text(self.item, "call_id") or get_text(self.item, "id")
        name = get_text(self.item, "name")
        arguments = self.item.get("arguments")
        if arguments:
            text = arguments if isinstance(arguments, str) else text_of(arguments)
            return tool_call(call_id, name, text)
        self.call.id = call_id
        self.call.name = name
        return self.call.call()


class ResponsesFold(Fold):
    """Folds the events of one stream, or the single object of an answer that is not
    streamed.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._items: list[_ItemPieces] = []
        self._final: JsonObject = {}
        self._said: dict[tuple[JsonValue, JsonValue], list[str]] = {}
        """The text that was shown, keyed by its item and its position in the item."""
        self._has_thought = False

    @property
    def is_empty(self) -> bool:
        return not (self._items or self._said or self._has_thought)

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        text = get_text(event, "delta")
        place = event.get("output_index"), event.get("content_index")
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta" if text:
                self._said.setdefault(place, []).append(text)
                return (TextDelta(text),)
            case "response.output_text.done" | "response.content_part.done" if (
                place not in self._said
            ):
                # Some gateways send no deltas.
                text = get_text(event, "text") or get_text(
                    get_object(event, "part"), "text"
                )
                if text:
                    self._said[place] = [text]
                    return (TextDelta(text),)
            case (
                "response.reasoning_summary_text.delta"
                | "response.reasoning_text.delta"
            ) if text:
                self._has_thought = True
                return (ThinkingDelta(text),)
            case "response.reasoning_summary_part.added" if (
                get_int(event, "summary_index") > 0
            ):
                return (ThinkingDelta("\n\n"),)
            case "response.output_item.added" | "response.output_item.done":
                self._take(event)
            case "response.function_call_arguments.delta":
                if (pieces := self._pieces(event)) is not None:
                    pieces.call.add(event.get("delta"))
            case "response.function_call_arguments.done":
                if (pieces := self._pieces(event)) is not None:
                    pieces.take(
                        {
                            key: event[key]
                            for key in ("name", "arguments")
                            if key in event
                        }
                    )
            case "response.completed" | "response.incomplete":
                self._final = get_object(event, "response")
                self.complete = True
                return () if self._said else self._shown_of_whole(texts_only=True)
            case "response.failed":
                raise stream_error(get_object(event, "response"))
            case "error":
                raise stream_error(event)
            case None if "output" in event:  # the whole answer, not an event
                self._final = event
                self.complete = True
                return (
                    self._shown_of_whole() if event.get("object") == "response" else ()
                )
            case _:
                pass
        return ()

    def close(self, *, done: bool) -> None:
        # Some gateways omit the last event and end the stream with `[DONE]` alone.
        calls = [
            pieces
            for pieces in self._items
            if pieces.item.get("type") == "function_call"
        ]
        states: list[ArgumentsState] = [pieces.state() for pieces in calls]
        is_cut = any(
            pieces.state() == "cut" and not pieces.item.get("arguments")
            for pieces in calls
        )
        is_ended = done and bool(self._items or self._said) and not is_cut
        all_ended = all(pieces.has_ended() for pieces in self._items)
        self.complete = (
            is_ended
            or is_ended_by_calls(states, all_ended=all_ended)
            or is_ended_by_malformed(states)
        )

    def answer(self) -> Answered:
        self.dropped = tuple(
            Dropped(get_text(each, "id"), reason)
            for each in get_objects(self._final, "input_transformations")
            if (reason := get_text(each, "reason")) not in _EXPECTED_REASONS
        )
        parts: list[AssistantPart] = []
        reason = get_text(get_object(self._final, "incomplete_details"), "reason")
        for pieces in self._all_items():
            item = pieces.item
            match item.get("type"):
                case "message":
                    for content in get_objects(item, "content"):
                        if refusal := get_text(content, "refusal"):
                            reason = "refusal"
                        if text := refusal or get_text(content, "text"):
                            parts.append(Text(text, get_text(item, "phase")))
                case "reasoning":
                    parts.append(self._thinking(item))
                case "function_call":
                    parts.append(pieces.tool_call())
                case _:
                    pass
        if self._said and not any(isinstance(part, Text) for part in parts):
            # Some gateways send the text without the item that holds it.
            text = "".join(piece for pieces in self._said.values() for piece in pieces)
            calls = [part for part in parts if isinstance(part, ToolCall)]
            parts = [*(part for part in parts if part not in calls), Text(text), *calls]
        usage = openai_usage(get_object(self._final, "usage"), "input", "output")
        return build_answer(parts, reason, usage, self._compacted())

    def _all_items(self) -> list[_ItemPieces]:
        """Return the items in order, including values that only the last event
        contains.
        """
        final = get_objects(self._final, "output")
        if not self._items:
            return [_ItemPieces(index, item) for index, item in enumerate(final)]
        for pieces in self._items:
            for item in final:
                is_same = item.get("type") == pieces.item.get("type") and item.get(
                    "id"
                ) == pieces.item.get("id")
                if is_same and pieces.item.get("id"):
                    pieces.item = item | {
                        key: value
                        for key, value in pieces.item.items()
                        if value not in ("", None)
                    }
        return sorted(self._items, key=lambda each: each.index)

    def _shown_of_whole(
        self, *, texts_only: bool = False
    ) -> Iterable[TextDelta | ThinkingDelta]:
        """Return the deltas to show for an answer that was not streamed.

        :param texts_only: whether to leave out the reasoning, which may already have
            been streamed.
        """
        shown: list[TextDelta | ThinkingDelta] = []
        for item in (pieces.item for pieces in self._all_items()):
            if item.get("type") == "reasoning" and not texts_only:
                shown += [
                    ThinkingDelta(text)
                    for each in get_objects(item, "summary")
                    if (text := get_text(each, "text"))
                ]
            elif item.get("type") == "message":
                contents = get_objects(item, "content")
                shown += [
                    TextDelta(text)
                    for each in contents
                    if (text := get_text(each, "text"))
                ]
        return shown

    def _pieces(self, event: JsonObject) -> _ItemPieces | None:
        """Return the item that an event is about: by id, else the newest item at its
        index.

        Without an index, return the newest item.
        """
        item_id = get_text(event, "item_id")
        named = [pieces for pieces in self._items if pieces.has_id(item_id)]
        at_index = [
            pieces
            for pieces in self._items
            if pieces.index == event.get("output_index")
        ]
        found = named or at_index or ([] if "output_index" in event else self._items)
        return found[-1] if found else None

    def _take(self, event: JsonObject) -> None:
        """Process an event that begins or ends an item.

        The two events of an item may have different ids, and several items may share an
        index.
        """
        item = get_object(event, "item")
        ends = event.get("type") == "response.output_item.done"
        item_id = get_text(item, "id") or get_text(item, "call_id")
        index = get_int(event, "output_index") if "output_index" in event else None
        at_index = [pieces for pieces in self._items if index in (None, pieces.index)]
        candidates = [pieces for pieces in at_index if pieces.has_id(item_id)]
        if ends and not candidates:
            kind = item.get("type")
            candidates = [
                pieces
                for pieces in at_index
                if not pieces.is_done and pieces.item.get("type") == kind
            ]
        if candidates:
            pieces = candidates[-1]
            pieces.take(item)
        else:
            pieces = _ItemPieces(len(self._items) if index is None else index, item)
            self._items.append(pieces)
        pieces.is_done = pieces.is_done or ends

    def _compacted(self) -> CompactedBlock | None:
        # All items are sent back unchanged, including the user's messages. The summary
        # is encrypted, so the block has no text.
        items = get_objects(self._final, "output")
        if not any(
            item.get("type") == "compaction" and get_text(item, "encrypted_content")
            for item in items
        ):
            return None
        return CompactedBlock(self._provider, {ITEMS: list[JsonValue](items)}, "")

    def _thinking(self, item: JsonObject) -> Thinking:
        texts = get_objects(item, "summary") or get_objects(item, "content")
        text = "\n\n".join(get_text(piece, "text") for piece in texts)
        # The provider stores nothing, so it cannot find the item again without the
        # encrypted form.
        kept: JsonObject = {
            key: value
            for key, value in item.items()
            if key != "status" and value is not None
        }
        return Thinking(
            text, self._provider, kept if "encrypted_content" in kept else {}
        )


class CompactionFold(ResponsesFold):
    """Folds the answer to a request that ends with a `compaction_trigger`: one
    compaction item, and nothing to show.

    Unlike the window that `/responses/compact` returns, the item does not hold the
    user's messages. So the request's user messages are put before the item, as in
    Codex, and both methods give the same result.

    A server that does not know the trigger answers the conversation instead. That
    answer is not read to the end, since every part of it costs money.

    :param call: the request.
    """

    def __init__(self, provider: str, call: ModelCall) -> None:
        super().__init__(provider)
        self._call = call

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        super().feed(event)
        kinds = {get_text(pieces.item, "type") for pieces in self._items}
        if self.complete:
            self._check()
        elif "compaction" not in kinds and (
            event.get("type") in _ORDINARY_EVENTS or not kinds.isdisjoint(_ORDINARY)
        ):
            raise CallFailed(
                "ignored", "it answered the conversation instead of compacting it"
            )
        return ()

    def close(self, *, done: bool) -> None:
        super().close(done=done)
        if self.complete:
            self._check()

    def _check(self) -> None:
        """Check that a complete answer is exactly one compaction.

        :raises CallFailed: if it is not.
        """
        found = len(self._compactions())
        reason = get_text(get_object(self._final, "incomplete_details"), "reason")
        if found == 1 and not reason:
            return
        usage = self.answer().usage
        said = (
            f"it broke off ({reason})"
            if reason
            else f"it made {found} compactions instead of one"
        )
        raise CallFailed(
            "ignored", said, code=reason, usage=usage if usage.prompt_tokens else None
        )

    def _compactions(self) -> list[JsonObject]:
        items = [pieces.item for pieces in self._all_items()]
        return [
            item
            for item in items
            if item.get("type") == "compaction" and get_text(item, "encrypted_content")
        ]

    def _compacted(self) -> CompactedBlock | None:
        compactions = self._compactions()
        if not compactions:
            return None
        asked: JsonObject = json.loads(self._call.content)
        said = [
            item for item in get_objects(asked, "input") if item.get("role") == "user"
        ]
        sealed = {
            key: compactions[-1][key] for key in _SENT_BACK if compactions[-1].get(key)
        }
        return CompactedBlock(
            self._provider, {ITEMS: list[JsonValue]([*said, sealed])}, ""
        )
