"""Chat Completions, as OpenAI defined it and as compatible servers understand it: local ones, Gemini's, routers.

Lenient in what it reads: servers send whole tool calls at once, without an index, with empty or repeated ids, and end
with `stop` although there are calls. Strict in one thing: an answer without a `finish_reason` is not whole, as routers
close broken streams with `[DONE]` too. Source: the types of the openai SDK 3.54; Gemini's page on OpenAI compatibility
for `extra_content`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Audio,
    Image,
    JsonObject,
    JsonValue,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.conversation.strict_json import get_int, get_object, get_objects, get_text, parse_object
from acp_agent.llm.adapters.adapter import NOTHING, Adapter, Call, Fold, Omissions, wire_name
from acp_agent.llm.errors import CallFailed, stream_error
from acp_agent.llm.parts import (
    PartialArguments,
    arguments_text,
    audio_format,
    base64_of,
    image_url,
    parts_with_sounds,
    tool_call,
    user_parts,
)
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta

_EXTRA = "extra_content"
_OFFICIAL_HOST = "api.openai.com"
_SILENT_HOSTS = frozenset({_OFFICIAL_HOST, "generativelanguage.googleapis.com"})
"""Whose lists of models are known to have no windows."""
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""vLLM's, OpenRouter's and Together's, Groq's, and Mistral's."""

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}


class ChatAdapter(Adapter):
    """Chat Completions. There is no common way to have tokens counted."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.name)
        self._host = endpoint.host
        self._is_openrouter = endpoint.name == "openrouter"
        if self._is_openrouter:  # whose models are listed for anybody
            self.models_path = "/key"

    def call(self, request: ModelRequest, profile: ModelProfile, without: Omissions = NOTHING) -> Call:
        return Call("/chat/completions", {**self.body(request, profile), "stream": True}, _ChatFold(self.name))

    def body(self, request: ModelRequest, profile: ModelProfile) -> JsonObject:
        """Return the body of `POST …/chat/completions`, without `stream`."""
        messages = wire_messages(request.messages, self.name, images=profile.images, audio=profile.audio)
        if request.system.strip():
            messages.insert(0, {"role": "system", "content": request.system})
        body: JsonObject = {
            "model": request.model,
            "messages": list[JsonValue](messages),
            "max_completion_tokens" if self._host == _OFFICIAL_HOST else "max_tokens": request.max_output_tokens,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
                }
                for tool in request.tools
            ]
        level = request.thought_level
        if level and self._is_openrouter and profile.thinking != "none":
            body["reasoning"] = {"effort": "none" if level == "off" else level}
        elif level and profile.thinking == "effort":
            body["reasoning_effort"] = profile.least_effort if level == "off" else level
        return body

    def window_path(self, model: str) -> str | None:
        return "/models" if self._host not in _SILENT_HOSTS else None

    def window(self, answer: JsonObject, model: str) -> int | None:
        if "data" not in answer:
            raise CallFailed("no-stream", "the answer is no list of models")
        entry = next((each for each in get_objects(answer, "data") if get_text(each, "id") == model), JsonObject())
        return next((tokens for field in _WINDOW_FIELDS if (tokens := get_int(entry, field)) > 0), None)


def wire_messages(
    messages: Iterable[Message], provider: str, *, images: bool = True, audio: bool = False
) -> list[JsonObject]:
    """Return the messages in their words.

    Neighbouring user messages become one, since chat templates of local models want turns. A tool's images follow all
    results in a user message of their own, since a result is text here.

    :param provider: what it attached to its own calls goes back to it.
    :param audio: whether it takes sounds.
    """
    wire: list[JsonObject] = []
    user: list[Text | Image | Audio] = []

    def say() -> None:
        if user:
            wire.append({"role": "user", "content": _content(user)})
            user.clear()

    for message in messages:
        match message:
            case UserMessage():
                user += parts_with_sounds(message.parts, images=images, audio=audio)
            case AssistantMessage():
                if (answer := _answer(message, provider)) is not None:
                    say()
                    wire.append(answer)
            case ToolResult():
                parts = user_parts(message.parts, images=images)
                shown = [part for part in parts if isinstance(part, Image)]
                texts = [part.text for part in parts if isinstance(part, Text)] or ["(see the image below)"]
                wire.append({"role": "tool", "tool_call_id": message.call_id, "content": "\n".join(texts)})
                user += shown
    say()
    return wire


def _content(parts: Sequence[Text | Image | Audio]) -> JsonValue:
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(texts) == len(parts):
        return "\n\n".join(texts)
    return [_block(part) for part in parts]


def _block(part: Text | Image | Audio) -> JsonValue:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return {"type": "image_url", "image_url": {"url": image_url(part)}}
        case Audio():
            return {
                "type": "input_audio",
                "input_audio": {"data": base64_of(part), "format": audio_format(part.mime_type)},
            }


def _answer(message: AssistantMessage, provider: str) -> JsonObject | None:
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    extra: JsonObject = {}
    for part in message.parts:
        if isinstance(part, Thinking) and part.provider == provider:
            extra |= get_object(part.data, _EXTRA)
    wire: JsonObject = {"role": "assistant"}
    if text.strip():
        wire["content"] = text
    calls: list[JsonValue] = []
    for index, call in enumerate(message.tool_calls):
        function: JsonObject = {"name": wire_name(call.name), "arguments": arguments_text(call)}
        kept: JsonObject = {_EXTRA: extra[str(index)]} if str(index) in extra else {}
        calls.append({"id": call.id, "type": "function", "function": function, **kept})
    if calls:
        wire["tool_calls"] = calls
    return wire if len(wire) > 1 else None


# Their stream in ours ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: PartialArguments = field(default_factory=PartialArguments)
    extra: JsonObject = field(default_factory=dict[str, JsonValue])


class _ChatFold(Fold):
    """Folds the chunks of one stream into deltas and the answer."""

    ends_with_done = True

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._finish = ""
        self._refused = False
        self._usage: JsonObject = {}

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        if event.get("error"):
            raise stream_error(event)
        if usage := get_object(event, "usage"):
            self._usage = usage
        deltas: list[TextDelta | ThinkingDelta] = []
        for choice in get_objects(event, "choices")[:1]:
            delta = get_object(choice, "delta")
            if thought := get_text(delta, "reasoning_content") or get_text(delta, "reasoning"):
                self._thinking.append(thought)
                deltas.append(ThinkingDelta(thought))
            refusal = get_text(delta, "refusal")
            self._refused = self._refused or bool(refusal)
            if text := get_text(delta, "content") or refusal:
                self._text.append(text)
                deltas.append(TextDelta(text))
            for call in get_objects(delta, "tool_calls"):
                self._extend(call)
            if finish := get_text(choice, "finish_reason"):
                self._finish = finish
                self.complete = True
                if finish == "error":
                    raise stream_error(get_object(choice, "error") or {"message": "the provider reported an error"})
        return deltas

    def answer(self) -> Answered:
        extra: JsonObject = {str(index): call.extra for index, call in enumerate(self._calls) if call.extra}
        parts: list[AssistantPart] = []
        if self._thinking or extra:
            data: JsonObject = {_EXTRA: extra} if extra else {}
            parts.append(Thinking("".join(self._thinking), self._provider, data))
        if text := "".join(self._text):
            parts.append(Text(text))
        parts += [tool_call(call.id, call.name, call.arguments.text) for call in self._calls]
        return Answered(tuple(parts), self._stop_reason(), self._counted())

    def _extend(self, delta: JsonObject) -> None:
        function = get_object(delta, "function")
        call_id, name = get_text(delta, "id"), get_text(function, "name")
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else json.dumps(given) if isinstance(given, dict) else ""
        index = delta.get("index")
        call = self._by_index.get(index) if isinstance(index, int) else (self._calls[-1] if self._calls else None)
        if call is None or (name and _begins_another(call, call_id, arguments)):
            call = _Call(call_id, name)
            self._calls.append(call)
            if isinstance(index, int):
                self._by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or name
        if extra := get_object(delta, _EXTRA):
            call.extra = extra
        call.arguments.add(arguments)

    def _stop_reason(self) -> StopReason:
        stop = _STOP_REASONS.get(self._finish, "end_turn")
        if self._refused:
            return "refusal"
        if self._calls and stop in ("end_turn", "tool_use"):
            return "tool_use"
        return "end_turn" if stop == "tool_use" else stop

    def _counted(self) -> Usage:
        usage = self._usage
        details = get_object(usage, "prompt_tokens_details")
        read = get_int(details, "cached_tokens") or get_int(usage, "prompt_cache_hit_tokens")
        written = get_int(details, "cache_write_tokens")
        price = usage.get("cost")
        return Usage(
            input_tokens=max(0, get_int(usage, "prompt_tokens") - read - written),
            output_tokens=get_int(usage, "completion_tokens"),
            cache_read_tokens=read,
            cache_write_tokens=written,
            cost=float(price) if isinstance(price, int | float) and not isinstance(price, bool) else None,
        )


def _begins_another(call: _Call, call_id: str, arguments: str) -> bool:
    """Return whether a delta with a name is the start of the next call and not more of this one."""
    if call_id and call.id and call_id != call.id:
        return True
    return arguments.lstrip().startswith("{") and parse_object(call.arguments.text) is not None
