"""OpenAI's Responses API: our request to theirs, their stream to our events.

Nothing is stored at the provider: the whole conversation is sent each time, with the encrypted reasoning items that the
same provider made. Source: the types of the openai SDK 3.54, and its guide on compaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from io import StringIO

from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
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
from acp_agent.conversation.strict_json import get_int, get_object, get_objects, get_text
from acp_agent.llm.adapters.adapter import Adapter, Call, Fold, Omissions, build_answer, openai_usage, wire_name
from acp_agent.llm.errors import stream_error
from acp_agent.llm.parts import arguments_text, check_arguments, image_url, tool_call, user_parts
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta

_MAX_CACHE_KEY = 64
_ITEMS = "items"


class ResponsesAdapter(Adapter):
    """The Responses API. It does not say how large a model's window is."""

    refusals = (
        ("summaries", ("reasoning summar", "reasoning.summar", "reasoning_summar")),
        (
            "native",
            ("compaction", "cmp_", "encrypted content", "encrypted_content", "reasoning' item", "reasoning item"),
        ),
    )
    native_key = _ITEMS
    keeps_user_messages = True

    def call(self, request: ModelRequest, profile: ModelProfile, omissions: Omissions, prompt: str | None) -> Call:
        body, opening = self._body(request, profile, omissions)
        if prompt is None:
            return Call("/responses", body | {"stream": True}, opening=opening, conversation="input")
        kept = ("model", "input", "instructions", "prompt_cache_key")
        shorter = {key: body[key] for key in kept if key in body}
        return Call("/responses/compact", shorter, streams=False, opening=opening, conversation="input")

    def fold(self) -> Fold:
        return _ResponsesFold(self.name)

    def _body(
        self, request: ModelRequest, profile: ModelProfile, omissions: Omissions
    ) -> tuple[JsonObject, tuple[bytes, ...]]:
        """Return the body of `POST /v1/responses`, without `stream`, and the JSON of the items that stand first."""
        kept, images = self.name if "native" not in omissions else "", profile.images
        opening: tuple[bytes, ...] = ()
        if (compacted := self.native_block(request, omissions)) is not None:
            items = _wire_messages(request.messages, kept, images=images, compacted=compacted)
        else:
            encode = partial(_wire_messages, thinking_of=kept, images=images)
            opening, items = self.split(request, encode, kept, images)
        body: JsonObject = {
            "model": request.model,
            "input": list[JsonValue](items),
            "max_output_tokens": request.max_output_tokens,
            "store": False,
        }
        if request.system.strip():
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                    "strict": False,
                }
                for tool in request.tools
            ]
        if request.conversation_id:
            body["prompt_cache_key"] = request.conversation_id[:_MAX_CACHE_KEY]
        if profile.thinking == "effort":
            body["include"] = ["reasoning.encrypted_content"]
            reasoning: JsonObject = {"summary": "auto"} if "summaries" not in omissions else {}
            if level := request.thought_level:
                reasoning["effort"] = profile.least_effort if level == "off" else level
            if reasoning:
                body["reasoning"] = reasoning
        return body, opening


def _wire_messages(
    messages: Iterable[Message], thinking_of: str, *, images: bool, compacted: CompactedBlock | None = None
) -> list[JsonObject]:
    """Return messages as input items.

    :param thinking_of: the provider whose reasoning is sent; the empty string sends none.
    :param compacted: a block in the API's own form; it goes first.
    """
    items: list[JsonObject] = [] if compacted is None else get_objects(compacted.data, _ITEMS)
    for message in messages:
        match message:
            case UserMessage():
                parts = [part for part in message.parts if part is not compacted]
                content: list[JsonValue] = [_content(part) for part in user_parts(parts, images=images)]
                if parts or not message.parts:
                    items.append({"role": "user", "content": content})
            case ToolResult():
                shown = user_parts(message.parts, images=images)
                texts = [part.text for part in shown if isinstance(part, Text)]
                all_text = len(texts) == len(shown)
                output: JsonValue = "\n".join(texts) if all_text else [_content(part) for part in shown]
                items.append({"type": "function_call_output", "call_id": message.call_id, "output": output})
            case AssistantMessage():
                items += _answer_items(message, thinking_of)
    return items


def _content(part: Text | Image) -> JsonValue:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": image_url(part), "detail": "auto"}


def _answer_items(message: AssistantMessage, thinking_of: str) -> list[JsonObject]:
    items: list[JsonObject] = []
    for part in message.parts:
        match part:
            case Text() if part.text.strip():
                items.append({"role": "assistant", "content": part.text})
            case ToolCall():
                call: JsonObject = {"call_id": part.id, "name": wire_name(part.name), "arguments": arguments_text(part)}
                items.append({"type": "function_call", **call})
            case Thinking(provider=provider, data={"type": "reasoning"}) if provider == thinking_of:
                items.append(part.data)
            case _:
                pass
    # A reasoning item that nothing follows is refused.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


class _ResponsesFold(Fold):
    """Folds the events of one stream, or the answer to a compaction."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._items: dict[int, JsonObject] = {}
        self._arguments: defaultdict[int, StringIO] = defaultdict(StringIO)
        self._final: JsonObject = {}

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        index, text = get_int(event, "output_index"), get_text(event, "delta")
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta" if text:
                return (TextDelta(text),)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if text:
                return (ThinkingDelta(text),)
            case "response.reasoning_summary_part.added" if get_int(event, "summary_index") > 0:
                return (ThinkingDelta("\n\n"),)
            case "response.output_item.added" | "response.output_item.done":
                self._items[index] = get_object(event, "item")
            case "response.function_call_arguments.delta" if index in self._items:
                self._arguments[index].write(text)
                check_arguments(self._arguments[index].tell())
            case "response.completed" | "response.incomplete":
                self._final = get_object(event, "response")
                self.complete = True
            case "response.failed":
                raise stream_error(get_object(event, "response"))
            case "error":
                raise stream_error(event)
            case None if "output" in event:  # no event, but the answer to a compaction
                self._final = event
                self.complete = True
            case _:
                pass
        return ()

    def answer(self) -> Answered:
        parts: list[AssistantPart] = []
        for index, arguments in self._arguments.items():  # an item that is done has them all
            self._items[index] |= {"arguments": get_text(self._items[index], "arguments") or arguments.getvalue()}
        reason = get_text(get_object(self._final, "incomplete_details"), "reason")
        for item in [self._items[index] for index in sorted(self._items)] or get_objects(self._final, "output"):
            match item.get("type"):
                case "message":
                    for content in get_objects(item, "content"):
                        if refusal := get_text(content, "refusal"):
                            reason = "refusal"
                        if text := refusal or get_text(content, "text"):
                            parts.append(Text(text))
                case "reasoning":
                    parts.append(self._thinking(item))
                case "function_call":
                    name, arguments = get_text(item, "name"), get_text(item, "arguments")
                    parts.append(tool_call(get_text(item, "call_id"), name, arguments))
                case _:
                    pass
        usage = openai_usage(get_object(self._final, "usage"), "input", "output")
        return build_answer(parts, reason, usage, self._compacted())

    def _compacted(self) -> CompactedBlock | None:
        # All items are to be sent back as they stand, the user's messages among them. The summary is encrypted, so that
        # the block has no text.
        items = get_objects(self._final, "output")
        if not any(item.get("type") == "compaction" and get_text(item, "encrypted_content") for item in items):
            return None
        return CompactedBlock(self._provider, {_ITEMS: list[JsonValue](items)}, "")

    def _thinking(self, item: JsonObject) -> Thinking:
        texts = get_objects(item, "summary") or get_objects(item, "content")
        text = "\n\n".join(get_text(piece, "text") for piece in texts)
        # Without the encrypted form the provider could not find the item again, as nothing is stored there.
        kept: JsonObject = {key: value for key, value in item.items() if key != "status" and value is not None}
        return Thinking(text, self._provider, kept if "encrypted_content" in kept else {})
